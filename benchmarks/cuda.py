"""Functions of arrays on a GPU beside PyTorch's by CUDA on the same GPU: milliseconds per call.

Calls are enqueued eight at a time, and the fastest of five rounds counts. The column "device" has the time between
timestamps around the launches of a call; the rest is the host's. PyTorch is left out if it is not installed, or sees no
GPU; else all results are compared with its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]  # measures this checkout

from machine import describe  # noqa: E402

import vkcompute as vc  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402
from vkcompute import nn  # noqa: E402
from vkcompute.compat.triton.testing import do_bench  # noqa: E402

CALLS, ROUNDS = 8, 5


class Case(NamedTuple):
    """A function of this library, PyTorch's, and their arguments."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[[Any], Callable[..., Any]]
    arrays: tuple[np.ndarray[Any, Any], ...]


def cases(scale: int) -> Iterator[Case]:
    """Yields the cases; sizes are divided by a number."""
    rng = np.random.default_rng(0)

    def floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
        return rng.normal(size=shape).astype(dtype)

    for n, dtype in ((1024, "float32"), (4096, "float32"), (1024, "float16"), (4096, "float16"), (8192, "float16")):
        n //= scale
        pair = floats(n, n, dtype=dtype), floats(n, n, dtype=dtype)
        yield Case(f"matmul {n} {dtype}", vnp.matmul, lambda torch: torch.matmul, pair)
    for rows, columns in ((4096, 1024), (65536, 4096)):
        x, line = floats(rows // scale, columns), floats(columns)
        normal = partial(_layer_norm, nn.layer_norm)
        yield Case(
            f"softmax {x.shape}", partial(nn.softmax, dim=-1), lambda torch: partial(torch.softmax, dim=-1), (x,)
        )
        yield Case(
            f"layer_norm {x.shape}", normal, lambda torch: partial(_layer_norm, torch.nn.functional.layer_norm),
            (x, line, line),
        )  # fmt: skip
    x, y = floats((64 << 20) // scale), floats((64 << 20) // scale)
    table = x[: (16 << 20) // scale].reshape(-1, 4096)
    yield Case(f"add {x.size}", vnp.add, lambda torch: torch.add, (x, y))
    yield Case(f"expression {x.size}", _expression, lambda torch: _expression, (x, y))
    for name in ("sum", "var"):
        for axis in (0, 1):
            named = {"correction": 0} if name == "var" else {}
            theirs = partial(lambda torch, function, more: partial(getattr(torch, function), **more), function=name,
                             more={"dim": axis, **named})  # fmt: skip
            yield Case(f"{name} {table.shape}, axis {axis}", partial(getattr(vnp, name), axis=axis), theirs, (table,))
    yield Case(f"cumsum {x.size}", vnp.cumsum, lambda torch: partial(torch.cumsum, dim=0), (np.abs(x),))
    for n in (1_000_000 // scale, x.size):
        yield Case(f"sort {n}", vnp.sort, lambda torch: lambda given: torch.sort(given)[0], (x[:n],))
    images, filters = floats(32, 64, 56, 56)[: max(32 // scale, 1)], floats(64, 64, 3, 3)
    yield Case(
        f"conv2d {images.shape}", partial(nn.conv2d, padding=1),
        lambda torch: partial(torch.nn.functional.conv2d, padding=1), (images, filters),
    )  # fmt: skip


def _layer_norm(function: Callable[..., Any], x: Any, weight: Any, bias: Any) -> Any:
    return function(x, (x.shape[-1],), weight, bias)


def _expression(x: Any, y: Any) -> Any:
    return ((x + y) * 2.0 - x) * y + 1.5


def milliseconds(call: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Returns the time of a call, of which several are enqueued before a wait."""
    found = []
    for _ in range(ROUNDS + 1):  # the first compiles
        start = perf_counter()
        kept = [call() for _ in range(CALLS)]
        wait()
        found.append((perf_counter() - start) / CALLS * 1e3)
        del kept
    return min(found[1:])


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


def measured(case: Case, runtime: vc.Runtime, torch: Any) -> dict[str, Any]:
    """Measures a case, and compares the results.

    Raises:
        ValueError: they differ.
    """
    given = [runtime.array(each) for each in case.arrays]
    call = partial(case.ours, *given)
    row: dict[str, Any] = {"name": case.name, "ms": milliseconds(call, runtime.wait), "device_ms": do_bench(call)}
    if torch is None:
        return row
    theirs = partial(case.theirs(torch), *[torch.from_numpy(each).cuda() for each in case.arrays])
    row["torch_ms"] = milliseconds(theirs, torch.cuda.synchronize)
    found, wanted = call().numpy().astype(np.float64), theirs().cpu().numpy().astype(np.float64)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    limit = 1e-2 if case.arrays[0].dtype == np.float16 else 1e-3
    if not error <= limit:
        raise ValueError(f"{case.name}: results differ from PyTorch's by {error:.1e} of the largest, at most {limit}")
    return row


def main(argv: list[str] | None = None) -> int:
    """Measures all cases, prints them, and writes them to a file if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", help="index or part of the name (default: the best)")
    parser.add_argument("--smoke", action="store_true", help="tiny, to see if it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    options = parser.parse_args(argv)
    torch, rows = cuda(), []
    with vc.Runtime(options.device) as runtime:
        print(f"{runtime.device.physical.name}\n{'':32s} {'ms':>9s} {'device':>9s} {'PyTorch':>9s}")
        for case in cases(512 if options.smoke else 1):
            row = measured(case, runtime, torch)
            rows.append(row)
            print(
                f"{row['name']:32s} {row['ms']:9.3f} {row['device_ms']:9.3f} {row.get('torch_ms', np.nan):9.3f}",
                flush=True,
            )
        about = describe(runtime) | ({"torch": torch.__version__} if torch else {})
    if options.json:
        options.json.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
