"""Functions of arrays: time with and without the host, beside PyTorch's by CUDA where it is installed.

Each function has growing sizes, and the last one that does not take too long is measured: devices differ by a factor of
10,000. The first size is compared with NumPy, the measured one with PyTorch, if present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.compat.triton.testing import do_bench
from vkcompute.gpu_report.figures.timing import CALLS, figures_of, milliseconds, rounded
from vkcompute.gpu_report.items import Items, Session, equal

_MOST_MS = 100.0
"""A size is measured if a call is expected to take less than this on the device, by the time of the size before."""
_MiB = 1 << 20
Arrays = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True)
class Case:
    """A function of this library, NumPy's and PyTorch's, and its arguments.

    Attributes:
        name: without the size.
        sizes: of growing work.
        arrays: makes the arguments of a size.
        ours, numpy: the functions.
        torch: the function of PyTorch's module that returns its function.
        nbytes, flop: bytes that are read and written at least, and operations, of a size; one of them is None.
        title: the name with a size, as in earlier reports.
        rtol: of the comparisons, relative to the largest element.
    """

    name: str
    sizes: tuple[Any, ...]
    arrays: Callable[[Any], Arrays]
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[[Any], Callable[..., Any]]
    title: str = "{name} {size}"
    nbytes: Callable[[Any], int] | None = None
    flop: Callable[[Any], int] | None = None
    rtol: float = 1e-4

    def work(self, size: Any) -> int:
        """Returns the bytes or operations of a size."""
        counted = self.flop or self.nbytes
        return counted(size) if counted else 1

    def label(self, size: Any) -> str:
        """Returns the name with a size."""
        return self.title.format(name=self.name, size=size)


def items() -> Items:
    """Returns the items by name."""
    return {case.name: partial(_measured, case) for case in cases()}


def _measured(case: Case, session: Session) -> dict[str, Any]:
    gpu, size = session.gpu, case.sizes[0]
    given = [gpu.array(array) for array in case.arrays(size)]
    call = partial(case.ours, *given)
    equal(call(), case.numpy(*case.arrays(size)).astype(given[0].dtype), case.rtol)
    for larger in case.sizes[1:]:
        expected_ms = do_bench(call, warmup=0, rep=10, return_mode="min") * case.work(larger) / case.work(size)
        hosts = case.arrays(larger)
        # Results of the calls that are enqueued together are at most as large as their arguments.
        if expected_ms > _MOST_MS or (CALLS + 2) * sum(host.nbytes for host in hosts) > gpu.memory().free:
            break
        more = [gpu.array(host) for host in hosts]
        size, given, call = larger, more, partial(case.ours, *more)
    figures: dict[str, Any] = {"case": case.label(size), **figures_of(call, gpu)}
    if case.flop:
        figures["gop_per_s"] = rounded(case.flop(size) / figures["device_ms"] / 1e6)
    elif case.nbytes:
        figures["gb_per_s"] = rounded(case.nbytes(size) / figures["device_ms"] / 1e6)
    return figures | _beside(case, size, call)


def _beside(case: Case, size: Any, call: Callable[[], Any]) -> dict[str, Any]:
    """Measures PyTorch's function on the same GPU, and compares the results."""
    torch = cuda()
    if torch is None:
        return {}
    theirs = partial(case.torch(torch), *[torch.from_numpy(array).cuda() for array in case.arrays(size)])
    expected = theirs().cpu().numpy()
    equal(call(), expected, 1e-2 if expected.dtype == np.float16 else 1e-3)
    return {"torch_ms": rounded(milliseconds(theirs, torch.cuda.synchronize)[0])}


@cache
def cuda() -> Any:
    """Returns PyTorch, or None if it is not installed or sees no GPU."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return torch


def _floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Returns normal numbers, of which at most a million differ: more would take longer than the measurement."""
    n = int(np.prod(shape))
    some = np.random.default_rng(n).normal(size=min(n, 1_000_003)).astype(dtype)
    return np.resize(some, shape)


def cases() -> Iterator[Case]:
    """Yields the cases, those that depend on most of the library first."""
    yield from _tables()
    yield from _products()
    yield from _vectors()
    yield from _reductions()
    yield from _networks()


def _products() -> Iterator[Case]:
    for dtype in ("float16", "float32"):
        yield Case(
            f"matmul {dtype}", (256, 1024, 4096, 8192), partial(_square, dtype), vnp.matmul, _matmul,
            lambda torch: torch.matmul, f"matmul {{size}} {dtype}", flop=lambda n: 2 * n**3,
            rtol=1e-2 if dtype == "float16" else 1e-4,
        )  # fmt: skip


def _square(dtype: str, n: int) -> Arrays:
    return (_floats(n, n, dtype=dtype),) * 2


def _matmul(a: Any, b: Any) -> Any:
    return a.astype(np.float64) @ b


def _tables() -> Iterator[Case]:
    sizes = (256, 1024), (4096, 1024), (65536, 4096)

    def nbytes(shape: tuple[int, int]) -> int:
        return 8 * shape[0] * shape[1]

    yield Case(
        "softmax", sizes, lambda shape: (_floats(*shape),), partial(nn.softmax, dim=-1), _softmax,
        lambda torch: partial(torch.softmax, dim=-1), nbytes=nbytes,
    )  # fmt: skip
    yield Case(
        "layer_norm", sizes, lambda shape: (_floats(*shape), *[_floats(shape[1])] * 2), partial(_normal, nn.layer_norm),
        _normalized, lambda torch: partial(_normal, torch.nn.functional.layer_norm), nbytes=nbytes,
    )  # fmt: skip


def _softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _normal(function: Callable[..., Any], x: Any, weight: Any, bias: Any) -> Any:
    return function(x, (x.shape[-1],), weight, bias)


def _normalized(x: Any, weight: Any, bias: Any) -> Any:
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def _vectors() -> Iterator[Case]:
    sizes = tuple(n * _MiB for n in (1, 16, 64))
    yield Case("add", sizes, lambda n: (_floats(n), _floats(n)), vnp.add, np.add, lambda torch: torch.add,
               nbytes=lambda n: 12 * n)  # fmt: skip
    yield Case("expression", sizes, lambda n: (_floats(n), _floats(n)), _expression, _expression,
               lambda torch: _expression, nbytes=lambda n: 12 * n)  # fmt: skip
    yield Case("cumsum", sizes, lambda n: (np.abs(_floats(n)),), vnp.cumsum, _cumsum,
               lambda torch: partial(torch.cumsum, dim=0), nbytes=lambda n: 8 * n)  # fmt: skip
    yield Case("sort", (100_000, 1_000_000, 64 * _MiB), lambda n: (_floats(n),), vnp.sort, np.sort,
               lambda torch: lambda x: torch.sort(x)[0], nbytes=lambda n: 8 * n)  # fmt: skip
    yield Case("take", sizes, _taken, vnp.take, np.take, lambda torch: torch.take,
               nbytes=lambda n: 16 * n)  # fmt: skip  # the indices are int64


def _expression(x: Any, y: Any) -> Any:
    return ((x + y) * 2.0 - x) * y + 1.5


def _cumsum(x: Any) -> Any:
    return np.cumsum(x, dtype=np.float64)


def _taken(n: int) -> Arrays:
    return _floats(n), np.random.default_rng(n).integers(0, n, n, np.int32).astype(np.int64)


def _reductions() -> Iterator[Case]:
    sizes = (512, 4096), (4096, 4096), (16384, 4096)
    for name in ("sum", "var"):
        for axis in (0, 1):
            named = {"correction": 0} if name == "var" else {}
            yield Case(
                f"{name}, axis {axis}", sizes, lambda shape: (_floats(*shape),),
                partial(getattr(vnp, name), axis=axis), partial(getattr(np, name), axis=axis, dtype=np.float64),
                partial(_torch_reduction, name=name, named={"dim": axis, **named}), f"{name} {{size}}, axis {axis}",
                nbytes=lambda shape: 4 * shape[0] * shape[1],
            )  # fmt: skip


def _torch_reduction(torch: Any, name: str, named: dict[str, Any]) -> Any:
    return partial(getattr(torch, name), **named)


def _networks() -> Iterator[Case]:
    yield Case(
        "conv2d", (1, 8, 32), lambda n: (_floats(n, 64, 56, 56), _floats(64, 64, 3, 3)),
        partial(nn.conv2d, padding=1), _convolution, lambda torch: partial(torch.nn.functional.conv2d, padding=1),
        "conv2d ({size}, 64, 56, 56)", flop=lambda n: 2 * n * 64 * 64 * 9 * 56 * 56,
    )  # fmt: skip


def _convolution(images: Any, filters: Any) -> Any:
    padded = np.pad(images.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,fcij->nfhw", windows, filters.astype(np.float64), optimize=True)
