"""Programs of Triton's tutorials, by this library, and by Triton on the same GPU where it is installed.

Triton reads the source of its programs from a file. So one text is written to a folder, and imported twice.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute.gpu_report.figures.functions import cuda
from vkcompute.gpu_report.figures.timing import figures_of, milliseconds, rounded, seconds
from vkcompute.gpu_report.items import Items, Session, equal

_OURS = "import vkcompute.compat.triton as triton\nimport vkcompute.compat.triton.language as tl\n"
_THEIRS = "import triton\nimport triton.language as tl\n"
_PROGRAMS = """
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask), mask=mask)


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row, mask = tl.program_id(0) * columns, at < columns
    x = tl.load(x_ptr + row + at, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centered = tl.where(mask, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centered * centered, axis=0) / columns + 1e-5)
    weight, bias = tl.load(weight_ptr + at, mask=mask), tl.load(bias_ptr + at, mask=mask)
    tl.store(out_ptr + row + at, centered * scale * weight + bias, mask=mask)


@triton.jit
def matmul(a_ptr, b_ptr, out_ptr, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns, inner = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, n, BK):
        a = tl.load(a_ptr + rows[:, None] * n + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * n + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], total)
"""
_ENOUGH_S = 0.004  # a larger size is measured if the one before takes less
Arrays = tuple[np.ndarray[Any, Any], ...]


def items() -> Items:
    """Returns the items by name."""
    return {name: partial(_measured, name) for name in _CASES}


def _floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    n = int(np.prod(shape))
    return np.resize(np.random.default_rng(n).normal(size=min(n, 1_000_003)).astype(dtype), shape)


class _Case:
    """A program with its sizes, arguments, grid, and NumPy's results.

    Args:
        sizes: of growing work.
        arrays: makes the arguments of a size.
        numpy: computes the result.
        launch: launches the program of a module on arrays, an output and a size.
    """

    def __init__(
        self,
        sizes: tuple[Any, ...],
        arrays: Callable[[Any], Arrays],
        numpy: Callable[..., Any],
        launch: Callable[[Any, Any, Any, Any], Any],
    ) -> None:
        self.sizes, self.arrays, self.numpy, self.launch = sizes, arrays, numpy, launch


def _softmax(x: Any) -> Any:
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _normalized(x: Any, weight: Any, bias: Any) -> Any:
    exact = x.astype(np.float64)
    centered = exact - exact.mean(-1, keepdims=True)
    return centered / np.sqrt(exact.var(-1, keepdims=True) + 1e-5) * weight + bias


_ROWS = (256, 1000), (4096, 1000), (32768, 4096)
_BLOCK = 1024


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


_CASES: Mapping[str, _Case] = {
    "add": _Case(
        (1 << 16, 1 << 22, 1 << 26), lambda n: (_floats(n), _floats(n + 1)[1:].copy()), np.add,
        lambda module, arrays, out, n: module.add[(-(-n // _BLOCK),)](*arrays, out, n, BLOCK=_BLOCK),
    ),
    "softmax": _Case(
        _ROWS, lambda size: (_floats(*size),), _softmax,
        lambda module, arrays, out, size: module.softmax[(size[0],)](
            *arrays, out, size[1], BLOCK=_power_of_two(size[1])),
    ),
    "layer_norm": _Case(
        _ROWS, lambda size: (_floats(*size), _floats(size[1]), _floats(size[1])), _normalized,
        lambda module, arrays, out, size: module.layer_norm[(size[0],)](
            *arrays, out, size[1], BLOCK=_power_of_two(size[1])),
    ),
    "matmul float32": _Case(
        (128, 1024, 4096), lambda n: (_floats(n, n),) * 2, lambda a, b: a.astype(np.float64) @ b,
        lambda module, arrays, out, n: module.matmul[(n // 32, n // 32)](*arrays, out, n, BM=32, BN=32, BK=16),
    ),
    "matmul float16": _Case(
        (128, 1024, 4096), lambda n: (_floats(n, n, dtype="float16"),) * 2, lambda a, b: a.astype(np.float64) @ b,
        lambda module, arrays, out, n: module.matmul[(n // 64, n // 64)](*arrays, out, n, BM=64, BN=64, BK=32),
    ),
}  # fmt: skip


def _measured(name: str, session: Session) -> dict[str, Any]:
    """Measures the largest size that does not take too long; the first is compared with NumPy."""
    case, gpu = _CASES[name], session.gpu
    with tempfile.TemporaryDirectory() as folder:
        ours = _module(Path(folder), "ours", _OURS)
        size, call, out = case.sizes[0], *_prepared(case, ours, case.sizes[0], gpu)
        call()
        equal(out, case.numpy(*case.arrays(size)).astype(np.float32), 1e-2 if "16" in name else 1e-4)
        for larger in case.sizes[1:]:
            if seconds(call, gpu) > _ENOUGH_S:
                break
            size, call, out = larger, *_prepared(case, ours, larger, gpu)
            call()
        figures: dict[str, Any] = {"case": f"{name} {size}", **figures_of(call, gpu)}
        return figures | _beside(case, size, Path(folder))


def _prepared(case: _Case, module: Any, size: Any, gpu: vc.Runtime) -> tuple[Callable[[], Any], vc.Array]:
    hosts = case.arrays(size)
    arrays, out = [gpu.array(host) for host in hosts], gpu.empty(hosts[0].shape)
    return partial(case.launch, module, arrays, out, size), out


def _beside(case: _Case, size: Any, folder: Path) -> dict[str, Any]:
    """Measures Triton's own compiler on the same program, if it is installed with PyTorch for this GPU."""
    torch = cuda()
    if torch is None or importlib.util.find_spec("triton") is None:
        return {}
    theirs = _module(folder, "theirs", _THEIRS)
    arrays = [torch.from_numpy(host).cuda() for host in case.arrays(size)]
    out = torch.empty(arrays[0].shape, dtype=torch.float32, device="cuda")
    call = partial(case.launch, theirs, arrays, out, size)
    call()
    return {"triton_ms": rounded(milliseconds(call, torch.cuda.synchronize)[0])}


def _module(folder: Path, name: str, head: str) -> Any:
    """Imports the programs with the language of one of both."""
    path = folder / f"{name}_programs.py"
    path.write_text(f"{head}\n{_PROGRAMS}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
