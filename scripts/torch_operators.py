"""Compares the operators of PyTorch's device with the CPU's, by the samples of PyTorch's own operator database.

    python scripts/torch_operators.py build/torch.jsonl [--gradients] [--dtype float32] [--samples 6] [--only add,sum]
    python scripts/torch_operators.py build/gradcheck.jsonl --gradcheck --dtype float64

A result passes if it has the CPU's shape and dtype, and its elements up to a tolerance. In float16 and bfloat16 this is
the tolerance of `torch.testing`, or else the largest error against float64 is at most that of the CPU. Where PyTorch's
fake tensors have another dtype for the device than for the CPU, it may be this one. Indices of equal elements, which
PyTorch leaves open, are compared by the elements that they select.

With `--gradcheck`, gradients are compared with differences of the device's own results, of operators that draw no
random numbers. Results are lines of a file, which a later run continues: an operator that ended the process has the
state "running".
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import math
import os
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Checks = tuple[Callable[[Any], Any], Callable[[Any, Any], None]]
RANDOM = ("rand", "normal", "multinomial", "bernoulli", "dropout", "empty", "exponential", "cauchy", "geometric",
          "uniform", "rrelu", "Lazy", "fractional", "_lowrank")  # fmt: skip
"""Parts of names of operators of which only shapes and dtypes are compared."""
SELECTING = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1}
"""Operators that return indices of sorted elements, and which of their arguments is the axis."""


def moved(torch: Any, value: Any, device: str, *, needs_grad: bool = False) -> Any:
    """Returns a value with all its tensors and devices on a device."""

    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            copy = _copied(x.detach(), device)
            return copy.requires_grad_() if needs_grad and copy.is_floating_point() else copy
        return torch.device(device) if isinstance(x, torch.device) else x

    return torch.utils._pytree.tree_map(move, value)


def _copied(tensor: Any, device: str) -> Any:
    """Returns a copy of a tensor on a device; that of a part of a storage is one of a copy of the whole storage."""
    if str(tensor.layout) != "torch.strided" or tensor.is_conj() or tensor.is_neg():
        return tensor.to(device)
    n = tensor.untyped_storage().nbytes() // tensor.element_size()
    if n <= tensor.numel():
        return tensor.to(device)
    whole = tensor.as_strided((n,), (1,), 0).to(device, copy=True)
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def arguments_of(sample: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a sample."""
    return sample.input, tuple(sample.args), dict(sample.kwargs)


def widened(torch: Any, value: Any) -> Any:
    """Returns a value with all its tensors and dtypes of 16-bit floats as float64."""

    def widen(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.double() if x.dtype in (torch.float16, torch.bfloat16) else x
        return torch.float64 if x in (torch.float16, torch.bfloat16) else x

    return torch.utils._pytree.tree_map(widen, value)


def outcome(torch: Any, operator: Any, arguments: Any, device: str, gradients: bool) -> list[Any]:
    """Returns the results of an operator on a device, and the gradients of their sum by its tensors."""
    given = moved(torch, arguments, device, needs_grad=gradients)
    torch.manual_seed(0)
    results = torch.utils._pytree.tree_flatten(operator.op(given[0], *given[1], **given[2]))[0]
    if gradients:
        leaves = [x for x in torch.utils._pytree.tree_flatten(given)[0] if isinstance(x, torch.Tensor)]
        inputs = [x for x in leaves if x.requires_grad]
        outputs = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
        if inputs and outputs:
            total = sum((x.abs().square() if x.is_complex() else x.square()).sum() for x in outputs)
            results += torch.autograd.grad(total, inputs, allow_unused=True)
    return [x.detach().cpu() if isinstance(x, torch.Tensor) else x for x in results]


def fake_dtypes(torch: Any, operator: Any, arguments: Any) -> list[Any]:
    """Returns the dtypes of an operator's results on the device by PyTorch's fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    input_, args, kwargs = moved(torch, arguments, "vk")
    with mode:
        given = torch.utils._pytree.tree_map_only(torch.Tensor, mode.from_tensor, (input_, args, kwargs))
        results = torch.utils._pytree.tree_flatten(operator.op(given[0], *given[1], **given[2]))[0]
    return [getattr(x, "dtype", None) for x in results]


def selected(torch: Any, name: str, sample: Any, results: list[Any]) -> list[Any]:
    """Returns results with the elements that indices of an unstable sort select, in place of the indices."""
    if name not in SELECTING or sample.kwargs.get("stable") or not sample.input.dim():
        return results
    number = SELECTING[name]
    dim = sample.kwargs.get("dim", sample.args[number] if len(sample.args) > number else -1)
    at = results[-1] if results[-1].dim() == sample.input.dim() else results[-1].unsqueeze(dim)
    assert (at.sort(dim)[0].diff(dim=dim) > 0).all(), "an index is there twice"
    return [*results[:-1], sample.input.gather(dim, at)]


def compare(
    torch: Any,
    name: str,
    results: list[Any],
    expected: list[Any],
    exact: Callable[[], list[Any]] | None = None,
    dtypes: Callable[[], list[Any]] | None = None,
) -> None:
    """Raises AssertionError where results differ.

    Args:
        exact: the function of the results in float64; None to compare with the CPU's only.
        dtypes: the function of the dtypes that results may have, too.
    """
    assert len(results) == len(expected), (len(results), len(expected))
    for number, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        if isinstance(wanted, torch.Tensor) and str(wanted.layout) != "torch.strided":
            result, wanted = result.to_dense(), wanted.to_dense()
        if not isinstance(wanted, torch.Tensor):
            assert result == wanted, (result, wanted)
            continue
        if dtypes is not None and result.dtype != wanted.dtype and result.dtype == dtypes()[number]:
            result = result.to(wanted.dtype)
        if any(part in name for part in RANDOM):
            assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
            continue
        try:
            require_close(torch, result, wanted)
        except AssertionError:
            if exact is None or wanted.dtype not in (torch.float16, torch.bfloat16) or result.dtype != wanted.dtype:
                raise
            ours, theirs = (error(torch, x, exact()[number]) for x in (result, wanted))
            if not ours <= theirs < math.inf:
                raise


def require_close(torch: Any, result: Any, wanted: Any) -> None:
    """Raises AssertionError where a tensor differs by more than a tolerance."""
    if wanted.dtype in (torch.float16, torch.bfloat16):
        torch.testing.assert_close(result, wanted, equal_nan=True, check_stride=False)
        return
    is_inexact = wanted.is_floating_point() or wanted.is_complex()
    finite = wanted[wanted.isfinite()] if is_inexact else wanted.flatten()[:0]
    size = float(finite.abs().max()) if finite.numel() else 0.0
    tolerance = 1e-5 * max(1.0, size)  # sums of large terms may be small
    torch.testing.assert_close(result, wanted, equal_nan=True, rtol=1e-4, atol=tolerance, check_stride=False)


def error(torch: Any, result: Any, exact: Any) -> float:
    """Returns the largest error against float64; infinite if other elements are infinite or NaN."""
    if result.shape != exact.shape:
        return math.inf
    rounded = exact.to(result.dtype)
    is_finite = rounded.isfinite()
    with contextlib.suppress(AssertionError):
        torch.testing.assert_close(result[~is_finite], rounded[~is_finite], rtol=0, atol=0, equal_nan=True)
        errors = (result.double() - exact)[is_finite].abs()
        return float(errors.nan_to_num(math.inf).max()) if errors.numel() else 0.0
    return math.inf


def require_gradients(torch: Any, operator: Any, sample: Any, device: str) -> None:
    """Raises an error where the gradients of an operator on a device differ from differences of its results."""
    leaves, form = torch.utils._pytree.tree_flatten(moved(torch, arguments_of(sample), device, needs_grad=True))
    at = [number for number, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.requires_grad]

    def function(*values: Any) -> Any:
        replaced = dict(zip(at, values, strict=True))
        filled = [replaced.get(number, x) for number, x in enumerate(leaves)]
        input_, args, kwargs = torch.utils._pytree.tree_unflatten(filled, form)
        return sample.output_process_fn_grad(operator.gradcheck_wrapper(operator.op, input_, *args, **kwargs))

    tolerance = operator.gradcheck_nondet_tol
    torch.autograd.gradcheck(function, [leaves[number] for number in at], fast_mode=True, nondet_tol=tolerance)


def by_the_cpu(torch: Any, operator: Any, gradients: bool) -> Checks:
    """Returns the functions that compute the CPU's results of a sample, and compare the device's with them."""

    def expect(sample: Any) -> Any:
        return outcome(torch, operator, arguments_of(sample), "cpu", gradients)

    def require(sample: Any, expected: Any) -> None:
        name, arguments = full_name(operator), arguments_of(sample)
        results = outcome(torch, operator, arguments, "vk", gradients)
        kind = "dropout" if sample.kwargs.get("dropout_p") else name
        if not gradients:
            results, expected = (selected(torch, name, sample, list_) for list_ in (results, expected))

        def exact() -> list[Any]:
            return outcome(torch, operator, widened(torch, arguments), "cpu", gradients)

        compare(torch, kind, results, expected, exact, lambda: fake_dtypes(torch, operator, arguments))

    return expect, require


def by_differences(torch: Any, operator: Any) -> Checks:
    """Returns the functions that check gradients on the CPU, and on the device."""
    return (
        lambda sample: require_gradients(torch, operator, sample, "cpu"),
        lambda sample, _: require_gradients(torch, operator, sample, "vk"),
    )


def checked(torch: Any, operator: Any, dtype: Any, n_samples: int, checks: Checks) -> dict[str, Any]:
    """Returns the record of an operator."""
    name, start, n = full_name(operator), time.perf_counter(), 0
    expect, require = checks
    torch.vk.clear_fallbacks()
    torch.manual_seed(0)
    samples = list(itertools.islice(operator.sample_inputs("cpu", dtype, requires_grad=False), 200))
    record: dict[str, Any] = {"operator": name, "state": "pass"}
    for sample in samples[:: max(1, len(samples) // n_samples)][:n_samples]:
        try:
            expected = expect(sample)
        except Exception:  # the sample is for another device
            continue
        n += 1
        try:
            require(sample, expected)
        except Exception as error:
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            record.update(state="fail", why=why)
            break
    return record | {"n": n, "s": round(time.perf_counter() - start, 2), "host": sorted(torch.vk.fallbacks())}


def full_name(operator: Any) -> str:
    """Returns the name of an entry of the database."""
    return ".".join(filter(None, (operator.name, operator.variant_test_name)))


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the records of a file by operator; the last one counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["operator"]: record for record in map(json.loads, lines)}


def missing(operators: Any, known: dict[str, Any], dtype: Any, only: str, gradients: bool) -> Iterator[Any]:
    """Yields the operators of a dtype that are to be checked."""
    for operator in operators:
        name = full_name(operator)
        wanted = name in only.split(",") if only else name not in known
        if wanted and dtype in operator.dtypes and (operator.supports_autograd or not gradients):
            yield operator


def summary(records: dict[str, dict[str, Any]]) -> str:
    """Returns the numbers of operators by state, those without the host, and the failures."""
    states = collections.Counter(record["state"] for record in records.values())
    native = sum(record["state"] == "pass" and not record["host"] for record in records.values())
    failures = [f"  {name}: {record.get('why', '')}" for name, record in records.items() if record["state"] != "pass"]
    return "\n".join([f"{dict(states)}, {native} pass without the host", *failures])


def peak_of_memory() -> str:
    """Returns a line with the most memory that this process has had, also for its software driver."""
    return f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"


def main() -> None:
    """Checks the operators whose results the file lacks, and prints a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--gradcheck", action="store_true", help="compare gradients with differences")
    parser.add_argument("--every", type=int, default=1, help="check each N-th operator")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ.setdefault("VKCOMPUTE_TORCH_FALLBACK", "silent")
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    import vkcompute.torch  # noqa: F401

    options.results.parent.mkdir(parents=True, exist_ok=True)
    known, dtype = read(options.results), getattr(torch, options.dtype)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(options.results.open("a"))
        needs_gradients = options.gradients or options.gradcheck
        for operator in missing(op_db[:: options.every], known, dtype, options.only, needs_gradients):
            if options.gradcheck and any(part in full_name(operator) for part in RANDOM):
                continue
            by_cpu = by_the_cpu(torch, operator, options.gradients)
            checks = by_differences(torch, operator) if options.gradcheck else by_cpu
            print(json.dumps({"operator": full_name(operator), "state": "running", "host": []}), file=file, flush=True)
            record = checked(torch, operator, dtype, options.samples, checks)
            print(json.dumps(record), file=file, flush=True)
    print(summary(read(options.results)), peak_of_memory(), sep="\n")


if __name__ == "__main__":
    main()
