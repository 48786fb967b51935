"""Runs the tests of numba-cuda's public interface against `vkcompute.compat.numba`.

    python scripts/numba_tests.py CHECKOUT [NAME…] [--for-s 400]

CHECKOUT is a checkout of github:NVIDIA/numba-cuda; its tests run in place. Results are lines of a file, one per file of
tests. A later run continues: it runs the files that have no results, or those that are named. Files of what other
devices cannot have are left out, with the reason: see `LEFT_OUT`. With `--beside FILE`, it prints the name of each test
that passes in the results of another driver, and does not here, by the reason.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import linecache
import math
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import types as python_types
import unittest
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

_TESTS = "numba_cuda/numba/cuda/tests"
_FOLDERS = "cudapy", "cudadrv", "doc_examples"
_LIMIT_S = 500
_EXEC = exec
_SITE = """
import sys
from pathlib import Path
if not any("numba_tests" in argument for argument in sys.orig_argv):
    sys.path.insert(0, {0!r})
    import numba_tests
    numba_tests.install(Path({1!r}))
"""
_NO_PTX = "no SASS or linked PTX"
_INSIDE = "_type_annotation"
_CODE = "inspects PTX, LLVM's code or debugging information of NVIDIA's compiler"
_LINKS = "links code in C or PTX"
_INTERNAL = "tests the inside of Numba's compiler"
_DRIVER = "tests the inside of NVIDIA's driver and memory managers"
_EXTENSION = "extends Numba's compiler by its own interface"
LEFT_OUT = {
    **dict.fromkeys(
        "analysis byteflow copy_propagate ir ir_utils make_function_to_jit_function tracing typeconv typeinfer "
        "compiler serialize caching gufunc_scheduling".split(),
        _INTERNAL,
    ),
    **dict.fromkeys(
        "debuginfo debuginfo_types lineinfo inspect optimization cache_hints const_string alignment fastmath_asm "
        "launch_config_sensitive".split(),
        _CODE,
    ),
    **dict.fromkeys(
        "cffi linker linkable_code nvjitlink nvrtc nvvm_driver inline_ptx module_callbacks cpointer ffi".split(), _LINKS
    ),
    **dict.fromkeys(
        "context_stack cuda_driver cuda_memory deallocations emm_plugins init runtime ipc host_alloc managed_alloc "
        "is_fp16 reset_device cuda_auto_context array_alignment multiprocessing stream_api".split(),
        _DRIVER,
    ),
    **dict.fromkeys("extending extending_types overload".split(), _EXTENSION),
    **dict.fromkeys(
        "events bfloat16 bfloat16_bindings fp8_bindings cupy_bfloat16_interop numba_interop cpu_gpu_compat "
        "libdevice".split(),
        "needs NVIDIA's libraries, CuPy or Numba",
    ),
}
"""Name of a file, less `test_` and `.py` -> why its tests are left out."""


_TESTS_LEFT_OUT = (
    ("_ptx", _CODE), ("inspect_", _CODE), ("dump_", _CODE), ("declare", _LINKS), ("link", _LINKS),
    ("cuda_header", _LINKS), ("cpu_dispatcher", "calls functions of Numba for CPUs"), ("cupy", "needs CuPy"),
    ("lineinfo", _CODE), ("TestCFGraph", _INTERNAL), ("TestRealCodeDomFront", _INTERNAL),
    ("kernel_with_", "needs NVIDIA's cuda.core"), ("external_cooperative", _LINKS),
    ("compile_", _INTERNAL), ("pickl", _INTERNAL), ("_linker", _LINKS), ("launch_config", _INTERNAL),
    ("launch_bounds_", _CODE), ("cpointer", _LINKS),
)  # fmt: skip
"""Part of a test's name -> why it is left out."""


_LACKS = (
    ("Int64Atomics", "atomic operations of 64 bits, which the device lacks"),
    ("has workgroups of", "a block with more threads than a workgroup of the device has"),
    ("coop grid", "a grid that waits, of more threads than a workgroup of the device has"),
    ("memory", "more memory than the device has"),
    ("took too long", f"the file took longer than {_LIMIT_S} s"),
)  # fmt: skip
"""Part of the text of a failure -> what the device lacks."""


class Missing:
    """A name of Numba's inside, which tests import: it takes calls, and means nothing.

    Attributes:
        n_uses: of all such names so far; a test that uses one says nothing.
    """

    n_uses = 0

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        Missing.n_uses += 1
        return Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **named: Any) -> Any:
        Missing.n_uses += 1
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()


class _MissingModule(python_types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {}) if name.endswith("Error") else Missing(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of Numba that this package lacks."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if not f"{name}.".startswith(("numba.", "llvmlite.", "cuda.")) or name.startswith("numba.cuda.tests."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        module = _MissingModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: Any) -> None:
        pass


def _passed_on(reason: Any) -> Any:
    return reason if callable(reason) else lambda test: test


def _skipping(reason: Any) -> Any:
    return (
        unittest.skip("needs NVIDIA's tools") if not callable(reason) else unittest.skip("needs NVIDIA's tools")(reason)
    )


@contextlib.contextmanager
def captured_stdout() -> Iterator[io.StringIO]:
    """Captures what is printed."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        yield text


@contextlib.contextmanager
def override_config(name: str, value: Any) -> Iterator[None]:
    """Sets an option for a block."""
    config = importlib.import_module("numba.cuda.core.config")
    before = getattr(config, name, None)
    setattr(config, name, value)
    try:
        yield
    finally:
        setattr(config, name, before)


class TestCase(unittest.TestCase):
    """Numba's assertions."""

    FLOAT16_RTOL = np.finfo(np.float16).eps

    def assertPreciseEqual(self, first: Any, second: Any, *args: Any, **named: Any) -> None:  # noqa: N802
        one, other = np.asarray(first), np.asarray(second)
        is_split = "c" in (one.dtype.kind, other.dtype.kind) and not np.isfinite(other).all()
        for part in ("real", "imag") if is_split else ("",):
            actual, desired = [getattr(value, part) if part else value for value in (one, other)]
            np.testing.assert_allclose(actual, desired, rtol=1e-6, equal_nan=True)

    @contextlib.contextmanager
    def assertTypingError(self) -> Iterator[Any]:  # noqa: N802
        with self.assertRaises(  # noqa: PT027
            importlib.import_module("numba.core.errors").TypingError
        ) as caught:
            yield caught

    def reset_module_warnings(self, module: Any) -> None:
        """Forgets the warnings that a module has given."""
        vars(sys.modules[module] if isinstance(module, str) else module).pop("__warningregistry__", None)

    @contextlib.contextmanager
    def check_warnings(self, messages: Any, category: Any = RuntimeWarning) -> Iterator[None]:
        """Checks that a block gives these warnings."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        texts = [str(warning.message) for warning in caught]
        self.assertEqual(sum(part in text for text in texts for part in messages), len(messages))  # noqa: PT009


class ForeignArray:
    """An array of another library, by the interface alone."""

    def __init__(self, array: Any) -> None:
        self._arr = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def install(checkout: Path) -> None:
    """Makes the tests import this package in place of Numba."""
    from vkcompute.compat.numba import install_as_numba

    install_as_numba()
    for name in ("asm", "llvm"):  # ours show our operations
        setattr(importlib.import_module("numba.cuda.dispatcher").CUDADispatcher, f"inspect_{name}", _no_code)
    builtins.exec = _executed
    for module in {id(module): module for name, module in sys.modules.items() if name.startswith("numba")}.values():
        module.__getattr__ = _missing  # type: ignore[method-assign]
    for name in ("numba.extending", "numba.cuda.extending"):  # the tests extend Numba's compiler
        sys.modules.pop(name)
    sys.meta_path.append(_Finder())
    testing = python_types.ModuleType("numba.cuda.testing")
    for name in unittest.__all__:
        setattr(testing, name, getattr(unittest, name))
    text = (checkout / _TESTS).parent.joinpath("testing.py").read_text()
    for line in text.splitlines():
        if line.startswith(("def skip_", "skip_", "def xfail_")):
            name = line.replace("def ", "").partition("(")[0].partition(" ")[0]
            setattr(
                testing, name, _skipping if ("cudasim" in name and "unless" in name) or "conda" in name else _passed_on
            )
    testing.unittest, testing.CUDATestCase, testing.ForeignArray = unittest, TestCase, ForeignArray  # type: ignore[attr-defined]
    testing.NonCUDATestCase = testing.ContextResettingTestCase = testing.DeprecatedDeviceArrayApiTest = TestCase  # type: ignore[attr-defined]
    testing.cc_X_or_above = lambda major, minor: (major, minor) <= (7, 5)  # type: ignore[attr-defined]
    testing.test_data_dir = checkout / _TESTS / "data"  # type: ignore[attr-defined]
    support = python_types.ModuleType("numba.cuda.tests.support")
    support.TestCase, support.captured_stdout, support.override_config = TestCase, captured_stdout, override_config  # type: ignore[attr-defined]
    support.skip_unless_cffi = support.linux_only = support.skip_if_py314 = _passed_on  # type: ignore[attr-defined]
    support.__getattr__ = lambda name: Missing(name)  # type: ignore[method-assign]
    tests = python_types.ModuleType("numba.cuda.tests")
    tests.__path__ = [str(checkout / _TESTS)]
    tests.load_testsuite = None  # type: ignore[attr-defined]
    sys.modules |= {"numba.cuda.testing": testing, "numba.cuda.tests": tests, "numba.cuda.tests.support": support}


def _no_code(*args: Any, **named: Any) -> None:
    raise NotImplementedError(f"kernels are SPIR-V here, which has {_NO_PTX}")


def _missing(name: str) -> Missing:
    """Returns a name that a module lacks."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(name)


def _executed(source: Any, scope: Any = None, names: Any = None, **named: Any) -> None:
    """Executes a text that is kept for its functions, which are compiled from their source."""
    caller = sys._getframe(1)
    scope = caller.f_globals if scope is None else scope
    if isinstance(source, str):
        file = f"<text {len(linecache.cache)}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        source = compile(source, file, "exec")
    _EXEC(source, scope, scope if names is None else names)


class _Results(unittest.TestResult):
    """Prints an outcome per test."""

    def _note(self, test: Any, outcome: str, reason: str = "") -> None:
        row = json.dumps([test.id().removeprefix("numba.cuda.tests."), outcome, reason])
        print(f"\0{row}", file=sys.__stdout__, flush=True)

    def startTest(self, test: Any) -> None:  # noqa: N802
        super().startTest(test)
        self._n_uses = Missing.n_uses

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        is_real = Missing.n_uses == self._n_uses
        self._note(test, *(("passed",) if is_real else ("left out", _INTERNAL)))

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note(test, "failed", _reason(err))

    addFailure = addError  # noqa: N815

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._note(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note(test, "passed")

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self._note(test, "passed")  # Numba fails what it wants

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._note(test, "failed", _reason(err))


def _reason(error: Any) -> str:
    kind, value, _ = error
    lines = [line.strip() for line in str(value).splitlines() if line.strip()]
    return f"{kind.__name__}: {' '.join(lines[:2])}"[:300]


def run_file(checkout: Path, module: str) -> None:
    """Runs the tests of one file in this process."""
    install(checkout)
    name = f"numba.cuda.tests.{module}"
    tests = importlib.import_module(name)
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    functions = [value for key, value in vars(tests).items() if key.startswith("test_") and not isinstance(value, type)]
    for function in functions:  # as pytest finds them
        if isinstance(function, python_types.FunctionType) and not function.__code__.co_argcount:
            suite.addTest(
                type("Functions", (TestCase,), {function.__name__: staticmethod(function)})(function.__name__)
            )
    suite.run(_Results())


def outcomes(checkout: Path, module: str) -> dict[str, tuple[str, str]]:
    """Runs a file in a process, and returns test -> outcome and reason."""
    command = [sys.executable, "-W", "ignore", __file__, str(checkout), "--file", module]
    with tempfile.TemporaryDirectory() as folder:  # for the programs that tests start
        Path(folder, "sitecustomize.py").write_text(_SITE.format(str(Path(__file__).resolve().parent), str(checkout)))
        env = {**os.environ, "PYTHONPATH": folder}
        return _outcomes(module, command, env)


def _outcomes(module: str, command: list[str], env: dict[str, str]) -> dict[str, tuple[str, str]]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, errors="replace", env=env)
        output, error = done.stdout, done.stderr
    except subprocess.TimeoutExpired as expired:
        output, error = (expired.stdout or b"").decode(errors="replace"), "took too long"
    rows = [json.loads(line.partition("\0")[2]) for line in output.splitlines() if "\0" in line]
    results: dict[str, tuple[str, str]] = {}
    for test, outcome, reason in rows:
        left_out = next((why for part, why in _TESTS_LEFT_OUT if part in test), None)
        if _NO_PTX in reason or _INSIDE in reason or left_out:
            outcome, reason = "left out", left_out or (_INTERNAL if _INSIDE in reason else _CODE)
        if results.get(test, ("", ""))[0] != "failed":
            results[test] = outcome, reason
    if not rows or "took too long" in error or "Fatal" in error:
        results[f"{module}"] = "failed", f"the file ends: {error.strip()[-200:]}"
    return results


def known_results(path: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """Returns file -> test -> outcome and reason, from the lines of results; of a file that ran again, the last."""
    modules: dict[str, dict[str, tuple[str, str]]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        module, results = json.loads(line)
        modules[module] = {test: (outcome, reason) for test, (outcome, reason) in results.items()}
    return modules


def summarize(modules: dict[str, dict[str, tuple[str, str]]], *, shows_reasons: bool) -> None:
    """Prints the counts of outcomes, by file with the reasons if these are asked for."""
    total: Counter[str] = Counter()
    for module, results in sorted(modules.items()):
        counts = Counter(outcome for outcome, _ in results.values())
        total += counts
        if not shows_reasons:
            continue
        print(f"{module.replace('.', '/', 1)}: {dict(counts)}")
        for test, (outcome, reason) in results.items():
            if outcome != "passed":
                print(f"    {outcome} {test.partition('.')[2].partition('.')[2]}: {reason}")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped", flush=True)


def lacking(
    modules: dict[str, dict[str, tuple[str, str]]], beside: dict[str, dict[str, tuple[str, str]]]
) -> dict[str, list[str]]:
    """Returns reason -> names of the tests that pass in the other results, and do not in these."""
    tests: dict[str, list[str]] = {}
    for module, results in sorted(modules.items()):
        for test, (outcome, _) in sorted(beside.get(module, {}).items()):
            ours, reason = results.get(test, results.get(module, ("failed", "it did not run")))
            if outcome == "passed" and ours != "passed":
                why = next((why for part, why in _LACKS if part in reason), reason)
                tests.setdefault(why, []).append(test.partition(".")[2])
    return tests


def print_lacking(tests: dict[str, list[str]]) -> None:
    """Prints the names of tests by the reason."""
    for reason, names in sorted(tests.items(), key=lambda row: -len(row[1])):
        print(f"{len(names)}: {reason}")
        print(textwrap.fill(", ".join(names), 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))


def chosen_modules(options: argparse.Namespace, known: Collection[str]) -> Iterator[str]:
    """Yields the files that run: those that are named, or else those without results."""
    for folder in _FOLDERS:
        for path in sorted((options.checkout / _TESTS / folder).glob("test_*.py")):
            name, module = path.stem.removeprefix("test_"), f"{folder}.{path.stem}"
            if name not in LEFT_OUT and (name in options.names if options.names else module not in known):
                yield module


def main() -> None:
    """Runs the files, and prints counts and reasons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*", help="of files, less test_ and .py; these run again")
    parser.add_argument("--out", type=Path, default=Path("build/numba.jsonl"), help="the file of results")
    parser.add_argument("--for-s", type=float, default=math.inf, help="start no file after these seconds")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--beside", type=Path, help="the results of another driver, for what this one lacks")
    options = parser.parse_args()
    if options.file:
        run_file(options.checkout, options.file)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    begun, known = time.monotonic(), known_results(options.out)
    for module in () if options.summary else chosen_modules(options, known):
        if time.monotonic() - begun > options.for_s:
            break
        known[module] = outcomes(options.checkout, module)
        with options.out.open("a") as out:
            print(json.dumps([module, known[module]]), file=out)
        if options.names:
            summarize({module: known[module]}, shows_reasons=True)
    summarize(known, shows_reasons=not (options.names or options.beside))
    if options.beside:
        print_lacking(lacking(known, known_results(options.beside)))


if __name__ == "__main__":
    main()
