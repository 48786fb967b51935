"""Fixtures: a shared manager, and shaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

import vkcompute as vc
from vkcompute.compat import kp
from vkcompute.dtypes import computes_float64

_FLOATS = "layout(std430, set = 0, binding = {}) buffer B{} {{ float v{}[]; }};\n"


@pytest.fixture(scope="session")
def mgr(_silence_at_the_end: None) -> Iterator[kp.Manager]:
    """A manager on the driver under test. Tests of lifetimes make their own."""
    manager = kp.Manager()
    yield manager
    manager.destroy()


@pytest.fixture(scope="session", params=["as it is", "three queues, staged"])
def any_mgr(request: pytest.FixtureRequest, mgr: kp.Manager) -> Iterator[kp.Manager]:
    """`mgr`, and a manager whose device has three queues and no host-visible memory."""
    if request.param == "as it is":
        yield mgr
        return
    from vkcompute.core.device_profile import emulated

    with emulated(timelines=(3, 1), staging=True):
        manager = kp.Manager()
    assert len(manager.runtime.device.queues) == 4
    yield manager
    manager.destroy()


@pytest.fixture
def cupy_device(gpu: vc.Runtime) -> Iterator[None]:
    """Makes the device under test the one that programs for CuPy find; skips on one that refuses float64."""
    if not computes_float64(gpu.device.features):
        pytest.skip("CuPy's floats are float64")
    vc.set_default_runtime(gpu)
    yield
    vc.set_default_runtime(None)


@cache
def _compiled(source: str) -> bytes:
    return vc.glsl(source)


@pytest.fixture(scope="session")
def spirv() -> Callable[..., bytes]:
    """Compiles a shader body in which `i` is the invocation and `v0`, `v1`, … are float arrays, one per binding."""

    def compiled(body: str, n_bindings: int = 0, declarations: str = "") -> bytes:
        buffers = "".join(_FLOATS.format(n, n, n) for n in range(n_bindings))
        main = f"void main() {{ uint i = gl_GlobalInvocationID.x; {body} }}"
        return _compiled(f"#version 450\nlayout(local_size_x = 1) in;\n{buffers}{declarations}\n{main}\n")

    return compiled


@pytest.fixture(scope="session")
def product(spirv: Callable[..., bytes]) -> bytes:
    """A shader that multiplies the first two bindings into the third."""
    return spirv("v2[i] = v0[i] * v1[i];", 3)


@pytest.fixture
def float64_device(gpu: vc.Runtime) -> vc.Runtime:
    """A runtime whose device computes in float64, as programs for Numba do by default."""
    if not computes_float64(gpu.device.features):
        pytest.skip("the device refuses float64")
    return gpu
