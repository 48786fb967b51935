"""Every module that these tests compile is verified before it is lowered, and validated after.

The tests of the language run twice: on the device, and simulated, where `gpu` makes arrays of the host.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
import validator
from barriers import in_words
from host import SimulatedRuntime

import vkcompute
from vkcompute import ir
from vkcompute.compiled import plain_data
from vkcompute.jit.kernel import PythonKernel
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect
from vkcompute.spirv.validation import validate

_SIMULATED = """
    algorithms array_choices array_parts complex_kernels composite_arguments early_returns float_atomics
    graph_and_image_algorithms language named_values odd_kernels printing private_arrays python_ints
    python_kernels records remainders sequences shared_sizes statements subgroups types vectors warps workgroup
""".split()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests of these files in both ways, but for those that only concern a device."""
    both = metafunc.module.__name__.rpartition("test_")[2] in _SIMULATED and "gpu" in metafunc.fixturenames
    if both and not metafunc.definition.get_closest_marker("device_only"):
        metafunc.parametrize("gpu", ["device", "simulated"], indirect=True, scope="session")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks simulated tests as pure: they take the limits and subgroups of no device."""
    call = getattr(item, "callspec", None)
    if call is not None and call.params.get("gpu") == "simulated":
        item.add_marker(pytest.mark.pure)


@pytest.fixture(scope="session")
def gpu(gpu: vkcompute.Runtime, request: pytest.FixtureRequest) -> vkcompute.Runtime | SimulatedRuntime:
    """The runtime, or what stands for one where kernels are simulated."""
    return SimulatedRuntime() if getattr(request, "param", "") == "simulated" else gpu


@pytest.fixture(autouse=True)
def _simulated(request: pytest.FixtureRequest) -> Iterator[None]:
    """Simulates all launches in the tests that are to, as VKCOMPUTE_SIMULATE=1 does."""
    call = getattr(request.node, "callspec", None)
    with pytest.MonkeyPatch.context() as patch:  # not the test's own, which it may undo
        if call is not None and call.params.get("gpu") == "simulated":
            patch.setattr(PythonKernel, "_launch", property(lambda kernel: kernel.simulate._launch))
        yield


@pytest.fixture(autouse=True)
def _checked_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = ir.lower

    def checked(function: ir.Function, *target: ir.Target) -> ir.KernelModule:
        ir.verify(function)
        result = lower(function, *target)
        module = Module.parse(result.spirv)
        if zlib.crc32(result.spirv) % 4 == 0:  # much of a test's time, and its modules are alike
            validate(module)  # at run time, only modules from outside are
        assert in_words(result.interface, target[0].missing_types if target else ()) == reflect(module)
        assert plain_data.loads(plain_data.dumps(result.interface)) == result.interface
        validator.expect(result.spirv)
        return result

    monkeypatch.setattr(ir, "lower", checked)
