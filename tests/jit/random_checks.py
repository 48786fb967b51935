"""Random programs and files against their oracles: the checks of `vkcompute.gpu_report`, and two of the host."""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute.gpu_report.random_programs import checks
from vkcompute.gpu_report.random_programs.checks import REFUSED, SAME, Launcher, outcome
from vkcompute.gpu_report.random_programs.integers import IntegerProgram, N, data_of, executed, run_exactly

CHANGED = "changed"


def run_by_numba(text: str, arrays: list[np.ndarray[Any, Any]], arguments: list[int]) -> list[Any]:
    """Returns the contents of the arrays after a program that Numba compiles; int of an unsigned number is unsigned."""
    import numba

    parameters = re.search(r"def kernel\((.*)\):", text)
    assert parameters is not None
    text = text.replace("def kernel(", "def kernel(i, ").replace("    i = vc.global_id(0)\n", "")
    scope = executed(re.sub(r"(?<![\w.])int\(", "np.int64(", text))
    for name in "h0", "h1", "kernel":
        scope[name] = numba.njit(scope[name])
    given = [array.copy() for array in arrays]
    for i in range(N):
        scope["kernel"](i, *given, *arguments)
    return [arg.tolist() for arg in given]


def by_numba(runtime: Any, launcher: Any, random: Random) -> str:
    """The same kernels by Numba, against Python's own ints."""
    from numba.core.errors import NumbaError

    program = IntegerProgram(random, narrow=random.random() < 0.8)
    text = program.text()
    arrays, arguments = data_of(program, random)

    def compare() -> None:
        assert run_by_numba(text, arrays, arguments) == run_exactly(text, arrays, arguments), arguments

    try:
        return outcome(compare, text)
    except NumbaError:
        return REFUSED


_HELPER = "def {name}(v, by={by}, *, plus={plus}):\n    return (v {one} by) {other} plus\n"
_KERNEL = """
@vc.kernel
def kernel(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = f0(f1(x[i]), plus=f2(3)) + f3(x[i], 2)
"""


def files(runtime: Any, launcher: Launcher, random: Random) -> str:
    """Helpers whose file changes, or whose parts are replaced, against what Python calls at that moment."""
    parts = ["import vkcompute as vc\n\n", *[_helper(f"f{k}", random) for k in range(4)], _KERNEL]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"changing_{random.getrandbits(64)}.py"
        path.write_text("".join(parts))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[path.stem] = mine = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(mine)
            return _changed_files(runtime, launcher, random, path, parts, mine)
        finally:
            del sys.modules[path.stem]


def _changed_files(runtime: Any, launcher: Launcher, random: Random, path: Path, parts: list[str], mine: Any) -> str:
    x = np.arange(-4, 4, dtype=np.int32)
    history = ["".join(parts)]
    for _ in range(random.randint(1, 4)):
        _CHANGES[random.choice([*_CHANGES])](path, parts, mine, random)
        history.append(path.read_text())
        expected = [mine.f0(mine.f1(v), plus=mine.f2(3)) + mine.f3(v, 2) for v in x.tolist()]
        out = runtime.zeros(8, np.int32)
        try:
            launcher(mine.kernel)(runtime.array(x), out)
        except vc.KernelError as error:
            if "has changed" in str(error):
                return CHANGED
            raise AssertionError("\n".join(history)) from error
        assert out.numpy().tolist() == expected, "\n".join(history)
    return SAME


def _helper(name: str, random: Random) -> str:
    one, other = random.choice("+-*^&|"), random.choice("+-*^&|")
    return _HELPER.format(name=name, one=one, other=other, by=random.randint(-5, 9), plus=random.randint(-5, 9))


def _helpers(parts: list[str]) -> list[int]:
    return [at for at, part in enumerate(parts) if part.startswith("def")]


def _swap(path: Path, parts: list[str], mine: Any, random: Random) -> None:
    one, other = random.sample(_helpers(parts), 2)
    parts[one], parts[other] = parts[other], parts[one]
    path.write_text("".join(parts))


def _replace(path: Path, parts: list[str], mine: Any, random: Random) -> None:
    at = random.choice(_helpers(parts))
    parts[at] = _helper(parts[at][4:6], random)
    path.write_text("".join(parts))


def _move(path: Path, parts: list[str], mine: Any, random: Random) -> None:
    parts.insert(random.randrange(1, len(parts)), random.choice(["\n", "# a comment\n", "X = 3\n\n"]))
    path.write_text("".join(parts))


def _defaults(path: Path, parts: list[str], mine: Any, random: Random) -> None:
    getattr(mine, f"f{random.randrange(4)}").__defaults__ = (random.randint(-5, 9),)


def _keyword_defaults(path: Path, parts: list[str], mine: Any, random: Random) -> None:
    getattr(mine, f"f{random.randrange(4)}").__kwdefaults__["plus"] = random.randint(-5, 9)


def _code(path: Path, parts: list[str], mine: Any, random: Random) -> None:
    one, other = (getattr(mine, f"f{random.randrange(4)}") for _ in range(2))
    one.__code__ = other.__code__


def _function(path: Path, parts: list[str], mine: Any, random: Random) -> None:
    setattr(mine, f"f{random.randrange(4)}", getattr(mine, f"f{random.randrange(4)}"))


_CHANGES: dict[str, Callable[..., None]] = {
    "swap": _swap, "replace": _replace, "move": _move, "defaults": _defaults, "keywords": _keyword_defaults,
    "code": _code, "function": _function, "nothing": lambda *_: None,
}  # fmt: skip
CHECKS: dict[str, Callable[..., str]] = {**checks.CHECKS, "files": files, "numba": by_numba}
