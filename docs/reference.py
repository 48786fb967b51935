"""The pages of the API reference: which names are on which page. `conf.py` writes them when the site is built."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vkcompute.operations.host import OWN

_SCALARS = "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 "
_SCALARS += "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
_VECTORS = " ".join(f"{each}x{n}" for each in ("float16", "float32", "float64", "int32", "uint32") for n in (2, 3, 4))
_VALUES = bool, int, float, str, type(None)


@dataclass(frozen=True)
class Section:
    """Names of a module with a heading; without names, all public ones."""

    title: str
    module: str
    names: str = ""
    text: str = ""

    def public(self) -> list[str]:
        """The names."""
        return self.names.split() or public_names(self.module)


PAGES: dict[str, tuple[str, tuple[Section, ...]]] = {
    "devices": (
        "Devices and memory",
        (
            Section(
                "Devices", "vkcompute", "devices DeviceInfo Runtime default_runtime set_default_runtime DeviceGroup"
            ),
            Section("Arrays", "vkcompute", "Array"),
            Section("Recorded and running work", "vkcompute", "Graph graph Future"),
            Section(
                "Profiles",
                "vkcompute.runtime.profiling.profile",
                "Profile",
                "`Runtime.profile` makes a profile; its rows are `TaskTime` and `HostTime`.",
            ),
            Section("Measurements", "vkcompute.runtime.profiling.trace", "TaskTime HostTime"),
        ),
    ),
    "kernels": (
        "Kernels",
        (
            Section("Making kernels", "vkcompute", "kernel function Kernel glsl elementwise vectorize reduce"),
            Section("Made kernels", "vkcompute.jit.kernel", "PythonKernel Simulation"),
            Section("Kernels of files that change", "vkcompute.runtime.launching.reloading", "ReloadingKernel"),
            Section("Made functions of arrays", "vkcompute.jit.elementwise.elementwise", "Elementwise"),
            Section("Made reductions", "vkcompute.jit.elementwise.reduction", "Reduction"),
            Section("Statistics of the compiler", "vkcompute.runtime.launching.statistics", "KernelStatistics"),
        ),
    ),
    "language": (
        "The language of kernels",
        (
            Section("Invocations", "vkcompute", "global_id group_id local_id local_size num_groups"),
            Section(
                "Memory and order",
                "vkcompute",
                "shared local barrier barrier_count barrier_all barrier_any grid_barrier memory_fence",
            ),
            Section("Numbers", "vkcompute", "fma popcount clz ctz bit_reverse bitcast"),
            Section("Functions of elements", "vkcompute", " ".join(OWN), "Kernels and block programs call them."),
            Section("Scalar types", "vkcompute", _SCALARS, "NumPy's types; `x: vc.float32[:]` annotates an array."),
            Section("Vector types", "vkcompute", _VECTORS, "Vectors of 2 to 4 numbers, which kernels make by a call."),
            Section("vc.atomic", "vkcompute.jit.library.atomic"),
            Section("vc.subgroup", "vkcompute.jit.library.subgroup"),
            Section("vc.warp", "vkcompute.jit.library.warp"),
            Section("vc.vector", "vkcompute.jit.library.vector", "dot cross length normalize"),
            Section("vc.random", "vkcompute.jit.library.random"),
            Section("Namespaces", "vkcompute", "atomic subgroup warp vector random"),
        ),
    ),
    "pipelines": (
        "Pipelines",
        (Section("Multiply and logistic regression", "vkcompute", "multiply multiply_files LogisticRegression"),),
    ),
    "dask": (
        "Dask",
        (
            Section("Clusters", "vkcompute.dask", "LocalCluster Client dask_setup"),
            Section("Collections", "vkcompute.dask", "Backend"),
        ),
    ),
    "errors": (
        "Errors and warnings",
        (
            Section(
                "Errors",
                "vkcompute",
                "VkComputeError NoDevice NoVulkanLoader NoCompiler MissingFeature DtypeError OutOfDeviceMemory "
                "DeviceLost VulkanError ValidationError CompileError SpirvError KernelError ClosedError DataError",
            ),
            Section("Warnings", "vkcompute", "HostCopyWarning CPUFallbackWarning SpillWarning UnlikeDevicesWarning"),
        ),
    ),
    "numpy": (
        "vkcompute.numpy",
        (
            Section("vkcompute.numpy", "vkcompute", "numpy"),
            Section("Arrays", "vkcompute.numpy"),
            Section("vkcompute.numpy.fft", "vkcompute.numpy.fft"),
            Section("vkcompute.numpy.linalg", "vkcompute.numpy.linalg"),
            Section("vkcompute.numpy.random", "vkcompute.numpy.random"),
        ),
    ),
    "nn": (
        "vkcompute.nn",
        (Section("vkcompute.nn", "vkcompute", "nn"), Section("Functions of neural networks", "vkcompute.nn")),
    ),
    "tables": (
        "vkcompute.rows, segments and neighbours",
        (
            Section("Rows of tables", "vkcompute", "rows segments neighbours"),
            Section("vkcompute.rows", "vkcompute.rows"),
            Section("vkcompute.segments", "vkcompute.segments"),
            Section("vkcompute.neighbours", "vkcompute.neighbours"),
        ),
    ),
    "compat": (
        "Interfaces of other libraries",
        (
            Section("Kompute from 0.7", "vkcompute.compat.kp"),
            Section("Kompute to 0.6", "vkcompute.compat.kp05"),
            Section("PyShader", "vkcompute.compat.pyshader"),
            Section("CuPy's extras", "vkcompute.compat.cupyx"),
            Section("Measurements as CuPy's", "vkcompute.compat.cupyx.profiler"),
            Section("Numba", "vkcompute.compat.numba", "cuda vectorize guvectorize install_as_numba"),
            Section("Numba's cuda", "vkcompute.compat.numba.cuda"),
            Section("Numba's types", "vkcompute.compat.numba.types", "signature typeof from_dtype as_dtype"),
            Section(
                "Numba's random numbers",
                "vkcompute.compat.numba.cuda.random",
                "create_xoroshiro128p_states init_xoroshiro128p_states xoroshiro128p_next "
                "xoroshiro128p_uniform_float32 xoroshiro128p_uniform_float64 "
                "xoroshiro128p_normal_float32 xoroshiro128p_normal_float64",
            ),
            Section("Triton", "vkcompute.compat.triton"),
            Section("Triton's language", "vkcompute.compat.triton.language"),
            Section(
                "Triton's tensor descriptors", "vkcompute.compat.triton.tools.tensor_descriptor", "TensorDescriptor"
            ),
            Section("Triton's testing", "vkcompute.compat.triton.testing"),
        ),
    ),
}
PUBLIC_MODULES = (
    "vkcompute",
    *[section.module for _, sections in PAGES.values() for section in sections if not section.names],
)


def public_names(module: str) -> list[str]:
    """Returns the public names of a module: those of `__all__`, or of `dir()` without what it imports."""
    imported = importlib.import_module(module)
    names = getattr(imported, "__all__", None) or [name for name in dir(imported) if _is_own(getattr(imported, name))]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def _is_own(value: Any) -> bool:
    """True for what a module defines or passes on, and False for its imports of Python's own modules."""
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
    first = str(home).partition(".")[0]
    return first not in sys.stdlib_module_names and not (inspect.ismodule(value) and first != "vkcompute")


def documented(module: str) -> set[str]:
    """Returns the names of a module that are on a page."""
    sections = [section for _, every in PAGES.values() for section in every if section.module == module]
    return {name for section in sections for name in section.public()}


def write(folder: Path) -> None:
    """Writes the pages, if they differ."""
    folder.mkdir(exist_ok=True)
    seen: dict[type, str] = {}
    for name, (title, sections) in PAGES.items():
        path, text = folder / f"{name}.rst", "\n".join(_page(title, sections, seen)) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _page(title: str, sections: tuple[Section, ...], seen: dict[type, str]) -> Iterator[str]:
    yield from _heading(title, "=")
    for section in sections:
        if section.title != title:
            yield from _heading(section.title, "-")
        yield from [section.text, ""] if section.text else []
        yield from [f".. py:currentmodule:: {section.module}", ""]
        for name in section.public():
            yield from _entry(section.module, name, seen)


def _heading(title: str, line: str) -> list[str]:
    return [title, line * len(title), ""]


def _entry(module: str, name: str, seen: dict[type, str]) -> list[str]:
    """Returns the directive of a name."""
    value: Any = getattr(importlib.import_module(module), name)
    full = f"{module}.{name}"
    if isinstance(value, type) and issubclass(value, BaseException):
        return [f".. autoexception:: {full}", "   :members:", ""]
    if isinstance(value, type) and _is_ours(value):
        if first := seen.get(value):
            return [f".. py:data:: {name}", "", f"   The class `{first}`.", ""]
        seen[value] = full
        inherited = ["   :inherited-members:"] if all(map(_is_ours, value.__mro__[1:-1])) else []
        return [f".. autoclass:: {full}", "   :members:", *inherited, ""]
    if inspect.ismodule(value):
        text = f"   {inspect.getdoc(value) or ''}".splitlines()[0]
        return [f".. py:module:: {full}", "", text, "", f".. py:currentmodule:: {module}", ""]
    if str(getattr(value, "__module__", "")).partition(".")[0] == "numpy" and not inspect.ismodule(value):
        return [f".. py:data:: {name}", "", f"   ``numpy.{name}`` itself.", ""]
    if callable(value) and not isinstance(value, type) and inspect.getdoc(value):
        return [f".. autofunction:: {full}", ""]
    is_plain = isinstance(value, _VALUES)
    kind = (inspect.getdoc(type(value)) or repr(value)).splitlines()[0]
    text = f"The value {value!r}." if is_plain else kind if " at 0x" in repr(value) else f"``{value!r}``"
    return [f".. py:data:: {name}", "", f"   {text}", ""]


def _is_ours(value: type) -> bool:
    return value.__module__.startswith("vkcompute") and bool(value.__doc__) and type(value).__name__ != "ScalarType"
