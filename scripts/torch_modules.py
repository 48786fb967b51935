"""Compares the modules and the optimizers of PyTorch's own databases on its device with the CPU's.

    python scripts/torch_modules.py build/torch_modules.jsonl [--only Linear,Adam] [--samples 4]

Results are lines of a file, which a later run continues, as those of `torch_operators.py`.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch_operators import compare, moved, peak_of_memory, read, summary

RANDOM = "Dropout", "RReLU"
N_STEPS = 4


def module_outcome(torch: Any, module: Any, sample: Any, device: str) -> list[Any]:
    """Returns the results of a module on a device, and the gradients of its parameters."""
    made = copy.deepcopy(module).to(device)
    forward = sample.forward_input
    torch.manual_seed(0)
    args, kwargs = moved(torch, (forward.args, forward.kwargs), device)
    results = [x for x in torch.utils._pytree.tree_flatten(made(*args, **kwargs))[0] if isinstance(x, torch.Tensor)]
    total = [x.abs().square().sum() for x in results if x.requires_grad]
    parameters = [x for x in made.parameters() if x.requires_grad]
    if total and parameters:
        results += [g for g in torch.autograd.grad(sum(total), parameters, allow_unused=True) if g is not None]
    return [x.detach().cpu() for x in results]


def module_checks(torch: Any, database: Any) -> Iterator[tuple[str, Callable[[int], int]]]:
    """Yields a name and a function that checks samples of a module, and returns their number."""
    for info in database:
        for training in (True, False):

            def check(n_samples: int, info: Any = info, training: bool = training) -> int:
                torch.manual_seed(0)
                samples = info.module_inputs_func(
                    info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
                )
                n = 0
                for sample in samples[:: max(1, len(samples) // n_samples)][:n_samples]:
                    made = sample.constructor_input
                    module = info.module_cls(*made.args, **made.kwargs).train(training)
                    if sample.forward_input is None:
                        continue
                    try:
                        expected = module_outcome(torch, module, sample, "cpu")
                    except RuntimeError:  # the sample is for another device
                        continue
                    kind = "dropout" if training and any(part in info.name for part in RANDOM) else info.name
                    compare(torch, kind, module_outcome(torch, module, sample, "vk"), expected)
                    n += 1
                return n

            yield f"{info.name}{'' if training else ' (eval)'}", check


def trained(torch: Any, info: Any, options: dict[str, Any], device: str) -> list[Any]:
    """Returns parameters after some steps of an optimizer on a device."""
    torch.manual_seed(0)
    parameters = [torch.randn(3, 2), torch.randn(4)][: 1 if info.optim_cls is torch.optim.Muon else 2]
    parameters = [torch.nn.Parameter(x.to(device)) for x in parameters]
    given = {name: moved(torch, value, device) for name, value in options.items()}
    optimizer = info.optim_cls(parameters, **given)

    def loss() -> Any:
        optimizer.zero_grad()
        total = sum(((x - 0.5) ** 2).sum() for x in parameters)
        total.backward()
        return total

    for _ in range(N_STEPS):
        if info.step_requires_closure:
            optimizer.step(loss)
        else:
            loss()
            optimizer.step()
    return [x.detach().cpu() for x in parameters]


def optimizer_checks(torch: Any, database: Any) -> Iterator[tuple[str, Callable[[int], int]]]:
    """Yields a name and a function that checks the options of an optimizer, and returns their number."""
    for info in database:
        if info.only_supports_sparse_grads:
            continue
        for form in ("", "foreach", "fused"):
            if form and form not in info.supported_impls:
                continue

            def check(n_samples: int, info: Any = info, form: str = form) -> int:
                inputs = info.optim_inputs_func(device="cpu")
                for given in inputs:
                    options = dict(given.kwargs) | ({form: True} if form else {"foreach": False})
                    if not info.supported_impls or "foreach" not in info.supported_impls:
                        options.pop("foreach", None)
                    compare(torch, "", trained(torch, info, options, "vk"), trained(torch, info, options, "cpu"))
                return len(inputs)

            yield f"{info.optim_cls.__name__} {form}".strip(), check


def main() -> None:
    """Checks the modules and optimizers whose results the file lacks, and prints a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ.setdefault("VKCOMPUTE_TORCH_FALLBACK", "silent")
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_modules import module_db
    from torch.testing._internal.common_optimizers import optim_db

    import vkcompute.torch  # noqa: F401

    options.results.parent.mkdir(parents=True, exist_ok=True)
    known = read(options.results)
    with options.results.open("a") as file:
        for name, check in [*module_checks(torch, module_db), *optimizer_checks(torch, optim_db)]:
            if name not in options.only.split(",") if options.only else name in known:
                continue
            print(json.dumps({"operator": name, "state": "running", "host": []}), file=file, flush=True)
            torch.vk.clear_fallbacks()
            start = time.perf_counter()
            record: dict[str, Any] = {"operator": name, "state": "pass"}
            try:
                record["n"] = check(options.samples)
            except Exception as error:
                record |= {"state": "fail", "why": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
            record |= {"s": round(time.perf_counter() - start, 2), "host": sorted(torch.vk.fallbacks())}
            print(json.dumps(record), file=file, flush=True)
    print(summary(read(options.results)), peak_of_memory(), sep="\n")


if __name__ == "__main__":
    main()
