"""What the pages of Numba and CuPy say is not there: each point is tried, and its error has a reason or a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute.compat.cupy as cp
import vkcompute.compat.cupyx as cupyx
from vkcompute.compat.numba import cuda, extending

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("gpu"),
]
DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@cuda.jit
def write(x):
    x[0] = 1


@cuda.jit(device=True)
def one(n):
    return two(n - 1) if n > 0 else 0


@cuda.jit(device=True)
def two(n):
    return one(n - 1) if n > 0 else 1


@cuda.jit
def recursive(x, n):
    x[0] = one(n)


@cuda.jit
def hinted(x):
    x[0] = cuda.ldcg(x, 0)


def element(text: str, **options: Any) -> Any:
    return cp.ElementwiseKernel("T x", "T y", text, "f", **options)(cp.ones(2))


def reduced(inputs: str, outputs: str, text: str) -> Any:
    return cp.ReductionKernel(inputs, outputs, text, "a + b", "y = a", "0", "f")(cp.ones(2))


# The first words of a point of the page -> uses, and what the errors say.
NUMBA: dict[str, dict[str, Callable[[], Any]]] = {
    "`datetime64` and `timedelta64`": {
        r"datetime64\[D\].*x\.view\(np\.int64\)": lambda: write[1, 1](np.zeros(2, "M8[D]")),
        r"timedelta64\[s\].*x\.view\(np\.int64\)": lambda: cuda.to_device(np.zeros(2, "m8[s]")),
    },
    "Two device functions that call each other": {"one calls itself": lambda: recursive[1, 1](np.zeros(1), 5)},
    "Registers of a kernel": {
        "get_regs_per_thread": lambda: write.get_regs_per_thread(),
        "SPIR-V here.*no SASS": lambda: write.inspect_sass(),
        "extends Numba's compiler": lambda: extending.overload(len),
        "not shared with other processes": lambda: cuda.device_array(2).get_ipc_handle(),
        "out of range": lambda: cuda.select_device(1),
    },
    "`cuda.compile` and its relatives": {
        "compile.*SPIR-V": lambda: cuda.compile(write, ()),
        "declare_device.*in Python": lambda: cuda.declare_device("f", "int32(int32)"),
        "LinkableCode.*in Python": lambda: cuda.LinkableCode,
        "set_memory_manager.*pool": lambda: cuda.set_memory_manager(None),
    },
    "`cuda.bf16`": {
        "bf16.*float16": lambda: cuda.bf16,
        r"ldcg.*write x\[i\]": lambda: cuda.ldcg,
        "no attribute ldcg": lambda: hinted[1, 1](np.zeros(2)),
    },
}
CUPY: dict[str, dict[str, Callable[[], Any]]] = {
    "Kernels in C": {
        "RawKernel f is a kernel in C.*in Python": lambda: cp.RawKernel("extern", "f"),
        "RawModule is code in C": lambda: cp.RawModule(code="x"),
        r"pointers that are no parameters.*write vc\.kernel": lambda: element("T* p = &x; y = *p"),
        "structs": lambda: element("y = x", preamble="struct P { float x; };"),
        "#ifdef A": lambda: element("#ifdef A\ny = A\n#endif"),
        "no after_loop": lambda: element("y = x", after_loop="y = 1"),
    },
    "A `ReductionKernel`": {
        r"no raw arrays; write vc\.reduce": lambda: reduced("raw T x", "T y", "x[i]"),
        "one result": lambda: reduced("T x", "T y, T z", "x"),
    },
    "Arrays of records": {
        "void64": lambda: cp.zeros(2, "i4,f4").sum(), "str32": lambda: cp.array(["a"]),
        "object": lambda: cp.array([object()]),
    },
    "NVIDIA's libraries": {
        rf"{name}.*docs/cupy\.md": lambda name=name: getattr(cp.cuda, name)
        for name in ("cublas", "cufft", "cusolver", "cusparse", "nccl", "texture")
    },
    "`cupyx.scipy`": {r"has no sparse; docs/cupy\.md": lambda: cupyx.scipy.sparse},
    "Several devices": {r"one device, 0; got 1.*vc\.Runtime\(1\)": lambda: cp.cuda.Device(1).use()},
    "Indices": {"out of bounds": lambda: cp.ones(3)[5]},
    "Numbers of CUDA": {},
}  # fmt: skip


def points(page: str) -> list[str]:
    """Returns the points of the page's list of what is not there."""
    section = (DOCS / page).read_text().split("## What is not there\n")[1].split("\n## ")[0]
    return re.findall(r"^- (.*)", section, re.MULTILINE)


@pytest.mark.parametrize(("page", "uses"), [("numba.md", NUMBA), ("cupy.md", CUPY)])
def test_each_point_of_the_page_is_tried(page: str, uses: dict[str, Any]) -> None:
    listed = points(page)
    assert len(listed) == len(uses)
    for point, start in zip(listed, uses, strict=True):
        assert point.startswith(start)


@pytest.mark.parametrize(
    ("expected", "use"), [row for page in (NUMBA, CUPY) for uses in page.values() for row in uses.items()]
)
def test_what_is_not_there_is_refused(expected: str, use: Callable[[], Any]) -> None:
    with pytest.raises(Exception, match=f"(?s){expected}"):
        use()


def test_numbers_of_cuda_are_none() -> None:
    assert cp.cuda.Device().compute_capability == "00"
    assert not hasattr(cp.cuda, "cublas")
