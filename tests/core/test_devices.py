"""The choice of a device: by index, name, environment; and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import vkcompute as vc
from vkcompute.core import cpu_fallback
from vkcompute.core import manifests as manifests_module
from vkcompute.core.instance import DRIVER_SELECTORS
from vkcompute.core.manifests import Manifest
from vkcompute.core.physical import choose
from vkcompute.dtypes import computes_float64

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
    vendor_id: int = 1

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
        ("cpu", 0),
        ("GPU", 2),
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
        (MANY[:1], "gpu", True, ["'gpu'", "[0] llvmpipe", "kind cpu, not gpu"]),
        (MANY[1:], "cpu", True, ["'cpu'", "UHD Graphics 770 (kind integrated, not cpu)"]),
        (MANY, "voodoo", True, ["'voodoo'", *(stub.name for stub in MANY)]),
        (MANY, 7, True, ["7", "index 0, not 7", "index 4, not 7"]),
        (MANY, -1, True, ["-1"]),
        (MANY, "tesla", True, ["Tesla K40 (Vulkan 1.1.0, at least 1.2 is needed)", "its name has no 'tesla'"]),
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


@pytest.fixture
def fallback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """The warnings of a runtime on the first of some devices, with these variables set."""

    def warned(
        devices: Sequence[Stub], manifests: int = 0, left_out: Sequence[Manifest] = (), **given: str
    ) -> list[str]:
        paths = [tmp_path / f"{number}.json" for number in range(manifests)]
        for path in paths:
            path.write_text('{"ICD": {"library_path": "libdriver.so"}}')
        for name in DRIVER_SELECTORS:
            monkeypatch.delenv(name, raising=False)
        if paths:
            given["VK_DRIVER_FILES"] = os.pathsep.join(map(str, paths))
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(cpu_fallback, "_warned", False)
        monkeypatch.setattr(manifests_module, "left_out", list(left_out))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(2):
                cpu_fallback.warn_once(devices[0], devices)
        assert all(item.category is vc.CPUFallbackWarning and item.filename == __file__ for item in said)
        return [str(item.message) for item in said]

    return warned


@pytest.mark.pure
def test_a_cpu_that_nobody_asked_for_is_told_once(fallback: Callable[..., list[str]], tmp_path: Path) -> None:
    cpu, other = MANY[0], Stub(1, "SwiftShader", "cpu", vendor_id=2)
    [said] = fallback([cpu])
    assert said.startswith("computing on a CPU, llvmpipe (LLVM 15.0.6, 256 bits): ")
    assert 'vc.Runtime("cpu") or VKCOMPUTE_DEVICE=cpu' in said
    [said] = fallback([cpu, MANY[4]], manifests=1)
    assert "NVIDIA Tesla K40 is not usable (Vulkan 1.1.0, at least 1.2 is needed)" in said
    [said] = fallback([cpu], left_out=[Manifest(tmp_path / "gpu.json", problem="is empty")], manifests=1)
    assert "gpu.json is empty" in said
    assert len(fallback([cpu], manifests=2)) == 1, "one of the two drivers that the variable names has no device"
    assert fallback([cpu], manifests=1) == [], "the only driver that the variable names"
    assert fallback([cpu, other], manifests=2) == []
    assert fallback([cpu], VK_LOADER_DRIVERS_SELECT="*lvp*") == []
    assert fallback([MANY[1], cpu]) == []


def test_devices_are_listed_and_opened(gpu: vc.Runtime) -> None:
    result = vc.devices()
    assert [item.index for item in result] == list(range(len(result)))
    [default] = [item for item in result if item.is_default]
    used = gpu.device.physical
    assert (default.name, default.kind, default.problems) == (used.name, used.kind, ())
    assert default.memory_nbytes == used.memory_nbytes > 0
    assert {"int32", "float32"} <= set(default.dtypes)
    assert ("float64" in default.dtypes) == computes_float64(gpu.device.features)
    with vc.Runtime(default) as runtime, vc.DeviceGroup([default]) as group:
        assert runtime.device.name == group.runtimes[0].device.name == used.name


def test_a_runtime_without_an_argument_warns_and_one_on_a_cpu_does_not(run_python: RunPython, gpu: vc.Runtime) -> None:
    if gpu.device.physical.kind != "cpu":
        pytest.skip("the device is a GPU")
    code = """
import warnings, vkcompute as vc
from vkcompute.core import cpu_fallback
cpu_fallback.asked_for_cpu = lambda devices: False
with warnings.catch_warnings(record=True) as said:
    vc.Runtime("cpu").close()
    vc.Runtime(0).close()
    print(len(said))
    vc.LogisticRegression(solver="gradient", max_iter=1, tol=None).fit([[0.0], [1.0]], [0, 1])  # contextlib
    vc.default_runtime(); vc.Runtime().close(); vc.DeviceGroup().close()
    print(len(said), said[0].category.__name__, said[0].lineno, said[0].filename)
"""
    done = run_python(code, env={name: value for name, value in os.environ.items() if name != "VKCOMPUTE_DEVICE"})
    assert (done.stdout, done.stderr) == ("0\n1 CPUFallbackWarning 9 <string>\n", "")


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


def test_features_disabled_by_the_environment(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    present = sorted(gpu.device.features)[:2]
    monkeypatch.setenv("VKCOMPUTE_DISABLE_FEATURES", f" {present[0]},,{present[1]} ")
    with vc.Runtime() as runtime:
        assert runtime.device.features == gpu.device.features - {*present}
    with pytest.raises(vc.MissingFeature, match=f"has no {present[0]}"):
        vc.Runtime(features=present)
    monkeypatch.setenv("VKCOMPUTE_DISABLE_FEATURES", "shaderFloat46")
    with pytest.raises(ValueError, match="'shaderFloat46' is none; did you mean shaderFloat"):
        vc.Runtime()


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
