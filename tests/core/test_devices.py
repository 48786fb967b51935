"""The choice of a device: by index, name, environment; and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

import vkcompute as vc
from vkcompute.core.physical import choose

RunPython = Callable[..., subprocess.CompletedProcess[str]]
GIB = 1 << 30


@dataclass
class Stub:
    """What `choose` asks of a device."""

    index: int
    name: str
    kind: str = "discrete"
    nbytes: int = GIB
    reasons: list[str] = field(default_factory=list)

    @property
    def score(self) -> tuple[int, int]:
        return {"discrete": 4, "integrated": 3, "virtual": 2, "other": 1, "cpu": 0}[self.kind], self.nbytes

    def unfit(self) -> list[str]:
        return self.reasons


MANY = [
    Stub(0, "llvmpipe (LLVM 15.0.6, 256 bits)", "cpu", 64 * GIB),
    Stub(1, "Intel(R) UHD Graphics 770", "integrated", 16 * GIB),
    Stub(2, "NVIDIA GeForce RTX 4090", nbytes=24 * GIB),
    Stub(3, "AMD Radeon RX 7900 XTX", nbytes=24 * GIB),
    Stub(4, "NVIDIA Tesla K40", nbytes=12 * GIB, reasons=["Vulkan 1.1.0, at least 1.2 is needed"]),
]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (None, 2),
        (0, 0),
        (3, 3),
        ("radeon", 3),
        ("NVIDIA", 2),
        ("uhd graphics", 1),
        ("LLVMPIPE", 0),
        ("1", 1),
        (" 3 ", 3),
    ],
)
def test_choice(wanted: int | str | None, index: int) -> None:
    assert choose(MANY, wanted).index == index


@pytest.mark.pure
def test_the_best_is_a_discrete_one_then_the_one_with_most_memory_then_the_first() -> None:
    assert choose(MANY[:2]).index == 1, "an integrated one before a CPU with more memory"
    assert choose([Stub(0, "a", nbytes=1), Stub(1, "b", nbytes=2)]).index == 1
    assert choose([Stub(0, "a"), Stub(1, "b")]).index == 0


@pytest.mark.pure
@pytest.mark.parametrize(
    ("devices", "wanted", "allow_cpu", "says"),
    [
        ([], None, True, ["no device", "apt install mesa-vulkan-drivers"]),
        (MANY[:1], None, False, ["[0] llvmpipe", "a CPU, allow_cpu=False"]),
        (MANY, "voodoo", True, ["'voodoo'", *(stub.name for stub in MANY)]),
        (MANY, 7, True, ["7", "index 0, not 7", "index 4, not 7"]),
        (MANY, -1, True, ["-1"]),
        (MANY, "tesla", True, ["Tesla K40 (Vulkan 1.1.0, at least 1.2 is needed)", "name without 'tesla'"]),
        (MANY, 0, False, ["llvmpipe", "allow_cpu=False", "index 2, not 0"]),
    ],
)
def test_no_device_fits_and_every_reason_is_given(
    devices: Sequence[Stub], wanted: int | str | None, allow_cpu: bool, says: list[str]
) -> None:
    with pytest.raises(vc.NoDevice) as caught:
        choose(devices, wanted, allow_cpu=allow_cpu)
    for text in says:
        assert text in str(caught.value)


@pytest.mark.pure
@pytest.mark.parametrize("wanted", [1.0, True, b"nvidia", ["nvidia"]])
def test_what_names_no_device(wanted: object) -> None:
    with pytest.raises(TypeError, match="by index"):
        choose(MANY, wanted)


def test_the_real_one_by_index_name_and_environment(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    name, index = gpu.device.name, gpu.device.physical.index
    for wanted in (index, str(index), name, name.upper(), name[: len(name) // 2]):
        with vc.Runtime(wanted) as runtime:
            assert runtime.device.name == name
    monkeypatch.setenv("VKCOMPUTE_DEVICE", "no such thing")
    with pytest.raises(vc.NoDevice, match="no device fits 'no such thing', from VKCOMPUTE_DEVICE: "):
        vc.Runtime()
    with pytest.raises(vc.NoDevice, match="no device fits 'no such thing': "):
        vc.Runtime("no such thing")
    with vc.Runtime(name) as runtime:
        assert runtime.device.name == name, "an argument comes before the environment"
    monkeypatch.setenv("VKCOMPUTE_DEVICE", "")
    with vc.Runtime() as runtime:
        assert runtime.device.name


def test_two_drivers_at_once(run_python: RunPython, all_drivers_env: dict[str, str]) -> None:
    code = """
import numpy as np, vkcompute as vc
with vc.Runtime("llvmpipe") as one, vc.Runtime("swiftshader") as two:
    assert "llvmpipe" in one.device.name and "SwiftShader" in two.device.name
    a = one.full(1000, 2.0); b = two.array(a)
    b.fill(3); a.write(b)
    print(a.numpy().sum(), {vc.Runtime(i).device.name.split()[0] for i in range(2)})
try:
    vc.Runtime("voodoo")
except vc.NoDevice as error:
    print(error)
"""
    done = run_python(code, env=all_drivers_env)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first in ("3000.0 {'llvmpipe', 'SwiftShader'}", "3000.0 {'SwiftShader', 'llvmpipe'}")
    assert "llvmpipe" in second
    assert "SwiftShader" in second


def test_features_by_name(gpu: vc.Runtime) -> None:
    has = gpu.device.physical.features
    present = next(name for name in sorted(gpu.device.features) if has[name])
    missing = [name for name, there in sorted(has.items()) if not there][:2]
    with vc.Runtime(features=[present]) as runtime:
        assert present in runtime.device.features
    with pytest.raises(vc.MissingFeature) as caught:
        vc.Runtime(features=[present, *missing, "noSuchFeature"])
    for text in (*(f"has no {name}" for name in missing), "is called noSuchFeature"):
        assert text in str(caught.value)
    assert present not in str(caught.value).split()
    with pytest.raises(TypeError, match="a collection of names"):
        vc.Runtime(features=present)


TELL = """
import vkcompute as vc
try:
    vc.Runtime()
except Exception as error:
    print(type(error).__name__, isinstance(error, vc.VkComputeError), error)
"""


def test_a_loader_without_drivers(run_python: RunPython) -> None:
    nowhere = {"VK_ICD_FILENAMES": "/nonexistent.json", "VK_DRIVER_FILES": "/nonexistent.json"}
    for validation in ("off", "error"):
        done = run_python(TELL, env=os.environ | nowhere | {"VKCOMPUTE_VALIDATION": validation})
        assert done.stdout.startswith("NoDevice True "), done
        assert "VK_ICD_FILENAMES=/nonexistent.json restricts the choice: correct or unset it" in done.stdout
        assert "apt install mesa-vulkan-drivers" in done.stdout
        assert "Traceback" not in done.stderr


def test_no_loader(run_python: RunPython) -> None:
    """The binding opens the library when it is imported; here there is none to be found."""
    code = f"""
import sys, types
class NoLibrary:
    def __getattr__(self, name):
        if name == "dlopen":
            raise OSError("libvulkan.so.1: cannot open shared object file: No such file or directory")
sys.modules["vulkan._vulkancache"] = types.SimpleNamespace(ffi=NoLibrary())
{TELL}
import vkcompute.glsl, vkcompute.errors
print(vc.__version__ is not None)
"""
    done = run_python(code)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first.startswith("NoVulkanLoader True ")
    for text in ("libvulkan.so.1", "apt install libvulkan1", "dnf", "brew"):
        assert text in first
    assert second == "True"
