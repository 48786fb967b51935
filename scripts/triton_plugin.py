"""A plugin of pytest that runs Triton's tests of its language with our package, and writes each outcome as JSON.

The variables TRITON_TESTS_EACH, TRITON_TESTS_LIMIT_S and TRITON_TESTS_RESULTS give the parametrizations of a function,
the seconds of a test, and the file of outcomes. TRITON_CHECKOUT is the checkout.
"""

from __future__ import annotations

import atexit
import importlib.util
import inspect
import json
import linecache
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from triton_tests import TOO_SLOW

from vkcompute.blocks.compiler.types import DTYPES
from vkcompute.compat import triton

CHECKOUT = Path(os.environ["TRITON_CHECKOUT"])
EACH, LIMIT_S = int(os.environ["TRITON_TESTS_EACH"]), int(os.environ["TRITON_TESTS_LIMIT_S"])
RESULTS = Path(os.environ["TRITON_TESTS_RESULTS"])
FROM_CHECKOUT = {
    "triton._internal_testing": "python/triton/_internal_testing.py",
    "triton.tools.mxfp": "python/triton/tools/mxfp.py",
}
"""Modules of Triton that only its tests use, taken from the checkout."""
OTHERS = (
    ".asm[", "filecheck", "inline_asm", "ttgir", "run_parser", "ast_to_ttir", "ASTSource", "doesnt_compile",
    "fresh_knobs",
)  # fmt: skip
"""Texts in the source of tests of Triton's own compiler: its intermediate forms, settings, or a vendor's assembly."""


class TooSlow(TimeoutError):
    """A test takes more than its limit."""


def install() -> None:
    """Makes `import triton` take our package, with what only Triton's tests need beside it."""
    triton.install_as_triton()
    jit, names = sys.modules["triton.runtime.jit"], {str(dtype): dtype for dtype in DTYPES.values()}
    canonical = {dtype.long_name: short for short, dtype in names.items()} | {"bool": "int1"}
    jit.type_canonicalisation_dict = canonical | {short: short for short in names}  # type: ignore[attr-defined]
    triton.JITFunction._unsafe_update_src = update_source  # type: ignore[attr-defined]
    knobs = ModuleType("triton.knobs")
    knobs.base_knobs, knobs.propagate_env = SimpleNamespace, True  # type: ignore[attr-defined]
    sys.modules["triton.knobs"] = triton.knobs = knobs  # type: ignore[attr-defined]
    torch.cuda.device, torch.cuda.get_device_capability = lambda *_: nullcontext(), lambda *_: (9, 0)
    _install_in_subprocesses()
    text = ModuleType("triton._filecheck")
    for name in ("filecheck_test", "run_filecheck_test", "run_parser", "run_filecheck"):
        setattr(text, name, lambda function, *_, **__: function)
    sys.modules["triton._filecheck"] = text
    for name, path in FROM_CHECKOUT.items():
        if (CHECKOUT / path).exists():
            _load(name, CHECKOUT / path)


def _install_in_subprocesses() -> None:
    """Makes `import triton` take our package in processes that tests start, too."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "sitecustomize.py").write_text("from vkcompute.compat import triton\ntriton.install_as_triton()\n")
    paths = [str(folder), str(Path(triton.__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def update_source(program: Any, text: str) -> None:
    """Gives a program another text, as Triton's tests do with templates."""
    file = f"<program {len(linecache.cache)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    outer = dict(_cells(program.fn))
    made: dict[str, Any] = {}
    exec(compile(text, file, "exec"), program.fn.__globals__ | outer, made)
    program.__init__(made[program.__name__])


def _cells(function: Any) -> Iterator[tuple[str, Any]]:
    """Yields the variables around a function that have values."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents


def _load(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


install()


@pytest.fixture
def device() -> str:
    """The tests' tensors are in host memory, which launches copy."""
    return "cpu"


@pytest.fixture
def with_allocator() -> None:
    """Descriptors take no memory."""


def is_foreign(function: Any) -> bool:
    """True for a test of Triton's intermediate forms, or of a vendor's assembly."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return False
    return any(text in source for text in OTHERS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keeps some parametrizations of each function, evenly spread, which have no outcome yet."""
    functions: dict[str, list[Any]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    done = {row["test"] for row in outcomes(RESULTS)}
    kept: list[Any] = []
    for of_function in functions.values():
        n = min(EACH, len(of_function))
        chosen = [of_function[k * len(of_function) // n] for k in range(n)]
        kept += [item for item in chosen if item.nodeid not in done]
    items[:] = kept


def outcomes(path: Path) -> list[dict[str, Any]]:
    """Returns the outcomes in a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    """Interrupts a test that takes too long."""

    def stop(*_: Any) -> None:
        raise TooSlow(f"the test takes more than {LIMIT_S} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    """Writes the outcome of a test."""
    report = yield
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
        reason = "" if call.excinfo is None else f"{call.excinfo.typename}: {call.excinfo.value}".split("\n")[0]
        row = {
            "test": item.nodeid,
            "outcome": report.outcome,
            "reason": reason[:300],
            "seconds": round(call.duration, 2),
            "foreign": is_foreign(item.function),
        }
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if call.excinfo is not None and call.excinfo.errisinstance(TooSlow):
            os._exit(TOO_SLOW)  # the device is still busy, and would keep later tests waiting
    return report
