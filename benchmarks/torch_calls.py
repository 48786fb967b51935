"""The host's time of an eager operator on PyTorch's device beside that of the same function of arrays, in one run.

    python benchmarks/torch_calls.py [--only sum] [--turns 6]

The calls are those of `host.py`, and the unit is a bare launch, as there, but of this checkout: less than that of the
unit's commit. The goal is that an operator takes at most one launch more than the function. Gradients are not
recorded. A time is the least of many short turns, in which the measurements alternate. The first row is what PyTorch
takes to call a kernel in Python, which does nothing; the second has an empty result, too. No kernel takes less.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import host  # puts this checkout first among the folders of packages
import numpy as np
import torch
from host_time import per_call_us

import vkcompute as vc
import vkcompute.torch  # the device
from vkcompute.torch.storage import compute_pending, view_of

GOAL = 1
_OTHER = "zeros", "arange", "linear, gelu", "x[rows, rows]", "x[indices]", "x[indices] = y", "take_along_axis"
"""Calls without an operand on a device, or of several operators: of two functions, or with indices to convert."""


def cases(gpu: vc.Runtime) -> Iterator[host.Case]:
    """Yields calls of arrays, and PyTorch's on tensors of the device."""
    values = host.values()
    arrays = host.Data(gpu.array, values)
    tensors = host.Data(lambda value: torch.tensor(value, device="vk"), values)
    for make in host.array_cases, host.index_cases, host.network_cases:
        yield from (case for case in make(arrays, tensors, torch) if case.name not in _OTHER)


def floors(x: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields calls of operators whose kernels do nothing: what PyTorch takes to call one, and to make a tensor."""
    library = torch.library.Library("vkcompute_benchmarks", "DEF")
    meta = torch.empty(0, device="meta")
    for name, made in (("nothing", lambda one, two: meta), ("tensor", lambda one, two: torch.empty_like(one))):
        library.define(f"{name}(Tensor one, Tensor two) -> Tensor")
        library.impl(name, made, "PrivateUse1")
        operator = getattr(torch.ops.vkcompute_benchmarks, name).default
        yield f"(a kernel: {name})", lambda operator=operator: operator(x, x)
    library._destroy()


def launched(call: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a call that launches what its results hold as expressions, as an operator that reads them does."""
    result = call()
    if not any(view_of(tensor).is_pending for tensor in _tensors(result)):
        return call
    if isinstance(result, torch.Tensor):
        return lambda: call().untyped_storage()._vk.whole.compute()  # in less time than `view_of` takes
    return lambda: [view_of(tensor).compute() for tensor in _tensors(call())]


def _tensors(result: Any) -> list[Any]:
    return [x for x in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(x, torch.Tensor)]


def measured(case: host.Case, bare: Callable[[], Any], wait: Callable[[], Any], turns: int) -> list[float]:
    """Returns microseconds of the operator, of the function and of a bare launch, measured by turns."""
    assert case.theirs is not None, case.name
    calls = launched(case.theirs), host.computing(case.ours), bare
    return [min(row) for row in zip(*[[per_call_us(call, wait) for call in calls] for _ in range(turns)], strict=True)]


def main() -> None:
    """Prints a line per call, and how many keep the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="calls whose name contains this text")
    parser.add_argument("--turns", type=int, default=6)
    options = parser.parse_args()
    gpu, more = vc.default_runtime(), []
    add = vc.elementwise("x + y")
    x, y, out = (gpu.array(np.ones((host.N, host.N), np.float32)) for _ in range(3))

    def launch() -> Any:
        return add(x, y, out=out)

    print(
        f"{gpu.device}; PyTorch {torch.__version__}; in bare launches",
        f"{'call':<28} operator function  more",
        sep="\n",
    )
    with torch.no_grad():
        for name, call in floors(torch.ones((host.N, host.N), device="vk")):
            times = [(per_call_us(call, gpu.wait), per_call_us(launch, gpu.wait)) for _ in range(options.turns)]
            least, unit = map(min, zip(*times, strict=True))
            print(f"{name:<28} {least / unit:8.2f}", flush=True)
        for case in cases(gpu):
            if options.only in case.name:
                operator, function, unit = measured(case, launch, gpu.wait, options.turns)
                more.append((operator - function) / unit)
                print(f"{case.name:<28} {operator / unit:8.2f} {function / unit:8.2f} {more[-1]:5.2f}", flush=True)
    compute_pending()
    print(f"{sum(n <= GOAL for n in more)} of {len(more)} at most {GOAL} more; median {statistics.median(more):.2f}")


if __name__ == "__main__":
    main()
