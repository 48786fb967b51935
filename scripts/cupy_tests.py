"""Runs CuPy's own tests with `vkcompute.compat.cupy` in CuPy's place, and counts outcomes.

    git clone https://github.com/cupy/cupy checkout
    python scripts/cupy_tests.py checkout [--only sorting_tests] [--every 20 --start 3] [--reasons]

The tests need NumPy and SciPy, pytest, and hypothesis. Tests that `LEFT_OUT` names are left out, with the reason.
Results are lines of a file, which a later run continues; `--summary` counts what it has.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import re
import signal
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

LEFT_OUT = {
    "kernels in C": r"core_tests/test_(raw|carray|include|mdspan|bfloat16|function|nvrtc)|test_texture|test_compiler"
    r"|Texture|fft_tests/test_callback|test_rational|test_manual_indexing|test_cached_code",
    "NVIDIA's libraries": r"cuda_tests/test_(cublas|cusolver|cutensor|cusparse|curand|nccl|nvrtc|nvtx|cufft|profile"
    r"|driver|graph|compiler_cache)|tests/test_cublas|fft_tests/test_cache|test_cub_reduction|test_gufuncs|test_scan"
    r"|TestCublas|TestCub|[Cc]utensor|CUB|cub_|Plan|Cufft|MultiGpu|multi_gpu|cuTENSOR",
    "CUDA's allocators and hooks": r"cuda_tests/(test_memory|test_pinned_memory|memory_hooks_tests|test_runtime"
    r"|test_unownedmemory)|test_syncdetect",
    "CuPy's private modules": r"core_tests/test_(internal|flags|core|reduction)|testing_tests"
    r"|fusion_tests/test_(kernel_cache|optimization)|TestFusionKernelName|test_polyutils|test_init\.py|test_typing|import_tests|install_tests|example_tests",
    "addresses of CUDA": r"TestCUDAArrayInterfaceCompliance|TestCUDAArrayInterfaceStream|TestCUDAStreamProtocol"
    r"|[Pp]inned|blocking",
    "records": r"core_tests/test_structured",
}
"""Patterns of the names of tests that are left out, by the reason."""
_OURS = "vkcompute.compat."


class Replacement(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `cupy` and `cupyx` from vkcompute, and `cupy.testing` from the checkout."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Returns the spec of a module of CuPy; None for others."""
        if fullname == "cupy.testing":
            folder = self.checkout / "cupy" / "testing"
            return importlib.util.spec_from_file_location(
                fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
            )
        if fullname.startswith("cupy.testing.") or fullname.partition(".")[0] not in ("cupy", "cupyx"):
            return None
        if importlib.util.find_spec(_OURS + fullname) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: Any) -> Any:
        """Returns our module."""
        module = importlib.import_module(_OURS + spec.name)
        self.real = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        """Leaves the module as it is."""
        module.__spec__ = self.real


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules of CuPy that are not ours, which the tests name at their top, with names that do nothing."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Returns the spec of a module that no other finder has."""
        if not re.match(r"(vkcompute\.compat\.)?cupyx?\.|cupy_backends\b", fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """Returns a module with any name."""
        return types.ModuleType(spec.name)

    def exec_module(self, module: Any) -> None:
        """Gives it its names."""
        vars(module).update(KNOWN.get(module.__name__.rpartition(".")[2], {}))

        def absent(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if name in KNOWN:
                return importlib.import_module(f"{module.__name__}.{name}")
            return mock.MagicMock(name=f"{module.__name__}.{name}")

        module.__getattr__ = absent


def _identities(shape: tuple[int, ...], n: int, dtype: Any) -> Any:
    """Returns a stack of identity matrices."""
    cupy: Any = importlib.import_module("cupy")
    return cupy.broadcast_to(cupy.eye(n, dtype=dtype), (*shape, n, n))


KNOWN: dict[str, dict[str, Any]] = {
    "driver": {"get_build_version": lambda: 12000},
    "internal": {"prod": math.prod},
    "_core": {"get_size": lambda size: (size,) if isinstance(size, int) else tuple(size)},
    "_accelerator": {"get_routine_accelerators": list, "get_reduction_accelerators": list},
    "_util": {"ENABLE_SLICE_COPY": True, "stacked_identity": lambda shape, n, dtype: _identities(shape, n, dtype)},
}
"""Names of private modules whose values matter."""


def replace(checkout: Path) -> None:
    """Makes the imports of the tests take our modules, and gives `cupy.testing` the private parts that it uses."""
    sys.meta_path.insert(0, Replacement(checkout))
    sys.meta_path.append(StandIns())
    cupy: Any = importlib.import_module("cupy")

    for name in ("fft", "linalg", "polynomial", "random"):
        vars(getattr(cupy, name)).setdefault("__path__", [])
    cupy.testing = importlib.import_module("cupy.testing")
    cupy._core = importlib.import_module("cupy._core")
    cupy._core.ndarray = cupy.ndarray
    states = importlib.import_module("vkcompute.compat.cupy.random_states")
    for name, module in (("generator", states), ("distributions", cupy.random), ("bit_generator", cupy.random)):
        setattr(cupy.random, f"_{name}", module)
        sys.modules[f"cupy.random._{name}"] = module
    sys.modules["cupy.cuda.device"] = cupy.cuda.device
    for name in ("cub", "nccl", "nvtx", "cutensor", "cusolver"):
        setattr(cupy.cuda, name, types.SimpleNamespace(available=False, get_version=lambda: 0))
    cupy.cuda.driver = importlib.import_module("cupy.cuda.driver")


def reason_left_out(name: str) -> str | None:
    """Returns the reason why a test is left out; None for one that runs."""
    return next((reason for reason, pattern in LEFT_OUT.items() if re.search(pattern, name)), None)


class Counting:
    """A plugin of pytest that chooses tests, and writes their outcomes."""

    def __init__(self, options: argparse.Namespace, known: set[str]) -> None:
        self.options, self.known = options, known
        self.out = options.out.open("a")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Drops tests that are left out, not chosen, or known from an earlier run."""
        chosen = items[self.options.start :: self.options.every]
        kept = []
        for item in chosen:
            reason = reason_left_out(item.nodeid)
            if item.nodeid in self.known:
                continue
            if reason is not None:
                self.write(item.nodeid, "left out", reason)
            else:
                kept.append(item)
        items[:] = kept

    def pytest_runtest_setup(self, item: Any) -> None:
        """Limits the time of a test."""
        signal.signal(signal.SIGALRM, _expired)
        signal.alarm(self.options.limit_s)

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Ends the limit."""
        signal.alarm(0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Writes the outcome of a test."""
        if report.when == "call" or report.outcome != "passed":
            if report.when == "teardown" and report.passed:
                return
            crash = getattr(report.longrepr, "reprcrash", None)
            text = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(getattr(crash, "message", ""))
            self.write(report.nodeid, report.outcome, text[:1500] if report.outcome == "failed" else text[:200])

    def pytest_collectreport(self, report: Any) -> None:
        """Writes a file that cannot be imported."""
        if report.failed:
            self.write(report.nodeid, "not collected", str(report.longrepr)[-1500:])

    def write(self, name: str, outcome: str, text: str) -> None:
        """Writes a line."""
        self.out.write(json.dumps([name, outcome, text]) + "\n")
        self.out.flush()


def _expired(*_: object) -> None:
    raise TimeoutError("the test takes too long")


def lines_of(path: Path) -> Iterator[tuple[str, str, str]]:
    """Returns the lines of a file of results."""
    if path.exists():
        for line in path.read_text().splitlines():
            name, outcome, text = json.loads(line)
            yield name, outcome, text


def cause(text: str) -> str:
    """Returns the first line of an error that says more than which side raised it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Warning|Found)\b", line)]
    if (lines and "Only cupy raises" in text) or "Only numpy raises" in text:
        return f"{'cupy' if 'Only cupy' in text else 'numpy'} only: {telling[-1] if telling else lines[-1]}"[:150]
    if "Different types of errors" in text:
        return "types of errors: " + " / ".join(telling[1:])[:150]
    return re.sub(r"0x\w+|\d+\.\d+", "#", " ".join(lines[:3]))[:150]


def summarize(path: Path, *, reasons: bool) -> None:
    """Prints the counts of outcomes, and of causes."""
    rows = {name: (outcome, text) for name, outcome, text in lines_of(path)}
    counts = collections.Counter(outcome for outcome, _ in rows.values())
    print(dict(counts))
    print(dict(collections.Counter(text for outcome, text in rows.values() if outcome == "left out")))
    if reasons:
        failed = [
            (cause(text), name) for name, (outcome, text) in rows.items() if outcome in ("failed", "not collected")
        ]
        by_cause = collections.Counter(text for text, _ in failed)
        for text, count in by_cause.most_common(120):
            print(f"{count:5} {text}\n        {next(name for why, name in failed if why == text)}")


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="a checkout of CuPy")
    parser.add_argument("--only", nargs="*", default=["cupy_tests"], help="folders or files below tests/")
    parser.add_argument("--every", type=int, default=1, help="run each N-th test")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--limit-s", type=int, default=60, help="seconds that a test may take")
    parser.add_argument("--out", type=Path, default=Path("build/cupy.jsonl"), help="the file of results")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    parser.add_argument("--reasons", action="store_true", help="print the causes of failures")
    parser.add_argument("--pytest", default="", help="further options of pytest")
    parser.add_argument("--kexpr", default="", help="names of tests, as pytest's -k")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command."""
    options = parsed(arguments)
    options.out = options.out.resolve()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not options.summary:
        import pytest

        os.chdir(options.checkout)
        sys.path.insert(0, str(Path("tests").resolve()))
        replace(Path.cwd())
        known = {name for name, _, _ in lines_of(options.out)}
        paths = [f"tests/{name}" for name in options.only]
        further = [*options.pytest.split(), "-k", options.kexpr]
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "--continue-on-collection-errors", *further,
             "-m", "not slow and not multi_gpu", *paths], plugins=[Counting(options, known)]
        )  # fmt: skip
    summarize(options.out, reasons=options.reasons)


if __name__ == "__main__":
    main()
