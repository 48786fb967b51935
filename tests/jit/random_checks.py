"""Random programs, formulas and files against their oracles: one check per kind.

A check takes a runtime, a function that gives what launches a kernel (the kernel itself, or its simulation), and a
random generator. It returns SAME or why there was nothing to compare, and raises AssertionError for a difference.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import random_formulas
import random_groups
import random_kernels
from oracle import check, module
from random_formulas import COMBINED, Formula
from random_integers import TYPES, IntegerProgram, N, data_of, run_by_numba, run_exactly

import vkcompute as vc

SAME, BEYOND, REFUSED, CHANGED = "same", "beyond the types", "refused", "changed"
Launcher = Callable[[Any], Any]
_REFUSALS = "does not fit", "out of bounds", "nested too deeply"
"""Of constants that only the compiler knows, and of chains that are longer than Python's own stack."""


def _outcome(run: Callable[[], None], text: str) -> str:
    """Runs a comparison, whose failure gets the text of the program."""
    try:
        run()
    except OverflowError:
        return BEYOND
    except (vc.MissingFeature, pytest.skip.Exception):
        return "missing"
    except vc.KernelError as error:
        if not any(each in str(error) for each in _REFUSALS):
            raise AssertionError(f"{error}\n{text}") from error
        return REFUSED
    except AssertionError as error:
        raise AssertionError(f"{text}\n{error}") from None
    return SAME


class Strided:
    """Makes arrays as a runtime, which are views with gaps."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime

    def array(self, data: np.ndarray[Any, Any]) -> Any:
        """A view of every second element along each axis of an array."""
        whole = np.full([2 * n + 3 for n in data.shape], 77, data.dtype)
        inner = tuple([slice(1, 2 * n + 1, 2) for n in data.shape])
        whole[inner] = data
        return self._runtime.array(whole)[inner]


def programs(runtime: Any, launcher: Launcher, random: Random) -> str:
    """Kernels of all types, against Python on numpy's scalars."""
    n, text = random_kernels.N, random_kernels.Program(random, halves=random.random() < 0.3).text()
    memory = random.choice([runtime, Strided(runtime)])
    data = np.random.default_rng(random.getrandbits(32))
    few = data.random((2, n)) < 0.6
    x = np.where(few[0], data.integers(-20, 20, n), data.integers(-(2**31) + 1, 2**31, n)).astype(np.int32)
    y = np.where(few[1], data.integers(0, 20, n), data.integers(0, 2**32, n)).astype(np.uint32)
    z = (data.integers(-32, 33, n) * 0.25).astype(np.float32)
    out = np.full((n, 6), -7, np.int32), np.full(n, 7, np.uint32), np.full((n, 4), -7, np.float32)
    kernel = launcher(vc.kernel(module(text).kernel))
    return _outcome(lambda: check(memory, kernel, x, y, z, *out, local_size=(n, 1, 1), rtol=0, atol=0), text)


def groups(runtime: Any, launcher: Launcher, random: Random) -> str:
    """Kernels whose invocations share memory, by barriers, atomic and subgroup operations, against Python in step."""
    program = random_groups.GroupProgram(random, halves=random.random() < 0.3)
    text, data = program.text(), np.random.default_rng(random.getrandbits(32))
    arguments = random_groups.data_of(data)
    size = runtime.device.physical.subgroup_size

    def compare() -> None:
        arrays = [runtime.array(each) for each in arguments]
        launcher(vc.kernel(module(text).kernel))[random_groups.N_GROUPS, random_kernels.N](*arrays)
        for array, expected in zip(arrays, random_groups.run_in_step(text, arguments, size), strict=True):
            np.testing.assert_array_equal(array.numpy(), expected)

    return _outcome(compare, text)


def integers(runtime: Any, launcher: Launcher, random: Random) -> str:
    """Kernels of integers of all sizes, against Python's own ints."""
    program = IntegerProgram(random, narrow=random.random() < 0.8)
    text = program.text()
    arrays, arguments = data_of(program, random)

    def compare() -> None:
        given = [runtime.array(array) for array in arrays]
        launcher(vc.kernel(module(text).kernel))[1, N](*given, *arguments)
        assert [each.numpy().tolist() for each in given] == run_exactly(text, arrays, arguments), arguments

    return _outcome(compare, text)


def by_numba(runtime: Any, launcher: Any, random: Random) -> str:
    """The same kernels by Numba, against Python's own ints."""
    from numba.core.errors import NumbaError

    program = IntegerProgram(random, narrow=random.random() < 0.8)
    text = program.text()
    arrays, arguments = data_of(program, random)

    def compare() -> None:
        assert run_by_numba(text, arrays, arguments) == run_exactly(text, arrays, arguments), arguments

    try:
        return _outcome(compare, text)
    except NumbaError:
        return REFUSED


def formulas(runtime: vc.Runtime, launcher: Launcher, random: Random) -> str:
    """Functions of elements, and reductions, of views that may overlap the result, against Python's own ints."""
    formula = Formula(random, narrow=random.random() < 0.8)
    text, dtype = formula.text(), TYPES[formula.output]
    case = random_formulas.case(formula, random)
    combine, initial = random.choice(COMBINED), random.choice([0, 1, 100])
    function = module(text).f

    def compare() -> None:
        results, expected = random_formulas.computed(text, case, formula.output)
        arguments, target, memory = random_formulas.placed(case, runtime.array)
        found = vc.vectorize(function)(*arguments, *case.numbers).numpy()
        assert found.dtype == dtype, case
        np.testing.assert_array_equal(np.broadcast_to(found, case.shape), results, str(case))
        vc.vectorize(function)(*arguments, *case.numbers, out=target)
        np.testing.assert_array_equal(memory.numpy(), expected, str(case))
        arguments, *_ = random_formulas.placed(case, runtime.array)
        axis = random.choice([None, *range(found.ndim)])
        wide = dtype if dtype == "uint32" else "int32"
        sums = vc.reduce(combine, initial, map=function)(*arguments, *case.numbers, axis=axis).numpy()
        assert sums.dtype == wide, case
        np.testing.assert_array_equal(
            sums, random_formulas.reduced(found, combine, initial, axis, wide), f"{combine} {initial} {axis} {case}"
        )

    return _outcome(compare, text)


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
CHECKS = {
    "integers": integers,
    "programs": programs,
    "groups": groups,
    "formulas": formulas,
    "files": files,
    "numba": by_numba,
}
