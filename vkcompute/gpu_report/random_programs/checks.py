"""Random programs against their oracles: one check per kind.

A check takes a runtime, a function that gives what launches a kernel (the kernel itself, or its simulation), and a
random generator. It returns SAME or why there was nothing to compare, and raises AssertionError for a difference.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute.gpu_report.random_programs import formulas as random_formulas
from vkcompute.gpu_report.random_programs import groups as random_groups
from vkcompute.gpu_report.random_programs import kernels as random_kernels
from vkcompute.gpu_report.random_programs import warps as random_warps
from vkcompute.gpu_report.random_programs.formulas import COMBINED, Formula
from vkcompute.gpu_report.random_programs.integers import TYPES, IntegerProgram, N, data_of, run_exactly
from vkcompute.gpu_report.random_programs.oracle import check, module

SAME, BEYOND, REFUSED, MISSING = "same", "beyond the types", "refused", "missing"
Launcher = Callable[[Any], Any]
_REFUSALS = "does not fit", "out of bounds", "nested too deeply", "inactive here or does not exist"
"""Of constants that only the compiler knows, chains that are longer than Python's own stack, and simulated lanes."""


def outcome(run: Callable[[], None], text: str) -> str:
    """Runs a comparison, whose failure gets the text of the program."""
    try:
        run()
    except OverflowError:
        return BEYOND
    except vc.MissingFeature:
        return MISSING
    except vc.KernelError as error:
        if not any(refusal in str(error) for refusal in _REFUSALS):
            raise AssertionError(f"{error}\n{text}") from error
        return REFUSED
    except AssertionError as error:
        raise AssertionError(f"{text}\n{error}") from None
    return SAME


def _require(holds: bool, about: object) -> None:
    """Raises AssertionError, under `python -O`, too."""
    if not holds:
        raise AssertionError(str(about))


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
    n, text = random_kernels.N, random_kernels.RandomProgram(random, halves=random.random() < 0.3).text()
    memory = random.choice([runtime, Strided(runtime)])
    data = np.random.default_rng(random.getrandbits(32))
    few = data.random((2, n)) < 0.6
    x = np.where(few[0], data.integers(-20, 20, n), data.integers(-(2**31) + 1, 2**31, n)).astype(np.int32)
    y = np.where(few[1], data.integers(0, 20, n), data.integers(0, 2**32, n)).astype(np.uint32)
    z = (data.integers(-32, 33, n) * 0.25).astype(np.float32)
    out = np.full((n, 6), -7, np.int32), np.full(n, 7, np.uint32), np.full((n, 4), -7, np.float32)
    kernel = launcher(vc.kernel(module(text).kernel))
    return outcome(lambda: check(memory, kernel, x, y, z, *out, local_size=(n, 1, 1), rtol=0, atol=0), text)


def groups(runtime: Any, launcher: Launcher, random: Random) -> str:
    """Kernels whose invocations share memory, by barriers, atomic and subgroup operations, against Python in step."""
    program = random_groups.GroupProgram(random, halves=random.random() < 0.3)
    text, data = program.text(), np.random.default_rng(random.getrandbits(32))
    arguments = random_groups.data_of(data)
    size = runtime.device.physical.subgroup_size

    def compare() -> None:
        arrays = [runtime.array(argument) for argument in arguments]
        launcher(vc.kernel(module(text).kernel))[random_groups.N_GROUPS, random_kernels.N](*arrays)
        for array, expected in zip(arrays, random_groups.run_in_step(text, arguments, size), strict=True):
            np.testing.assert_array_equal(array.numpy(), expected)

    return outcome(compare, text)


def warps(runtime: Any, launcher: Launcher, random: Random) -> str:
    """Kernels with early returns, barriers in loops, warps in branches, views and records, against Python by keys."""
    text = random_warps.WarpProgram(random, halves=random.random() < 0.2).text()
    arguments = random_warps.data_of(np.random.default_rng(random.getrandbits(32)))

    def compare() -> None:
        given = [runtime.array(argument) if isinstance(argument, np.ndarray) else argument for argument in arguments]
        kernel = launcher(vc.kernel(module(random_warps.of_device(text)).kernel))
        kernel[random_warps.N_GROUPS, random_warps.LENGTH](*given)
        for array, expected in zip(given, random_warps.run_by_keys(text, arguments), strict=True):
            if isinstance(expected, np.ndarray):
                np.testing.assert_array_equal(array.numpy(), expected)

    return outcome(compare, text)


def integers(runtime: Any, launcher: Launcher, random: Random) -> str:
    """Kernels of integers of all sizes, against Python's own ints."""
    text, arrays, arguments = integer_case(random)

    def compare() -> None:
        given = [runtime.array(array) for array in arrays]
        launcher(vc.kernel(module(text).kernel))[1, N](*given, *arguments)
        _require([array.numpy().tolist() for array in given] == run_exactly(text, arrays, arguments), arguments)

    return outcome(compare, text)


def integer_case(random: Random) -> tuple[str, list[np.ndarray[Any, Any]], list[int]]:
    """Returns the text of a kernel of integers, its arrays and its numbers."""
    program = IntegerProgram(random, narrow=random.random() < 0.8)
    return program.text(), *data_of(program, random)


def formulas(runtime: vc.Runtime, launcher: Launcher, random: Random) -> str:
    """Functions of elements, and reductions, of views that may overlap the result, against Python's own ints."""
    formula = Formula(random, narrow=random.random() < 0.8)
    text, dtype = formula.text(), TYPES[formula.output]
    case = random_formulas.case(formula, random)
    combine, initial = random.choice(COMBINED), random.choice([0, 1, 100])
    function = module(text).f

    def compare() -> None:
        results, expected = random_formulas.computed(text, case, formula.output)
        arguments, target, memory = random_formulas.arguments_of(case, runtime.array)
        values = vc.vectorize(function)(*arguments, *case.numbers).numpy()
        _require(values.dtype == dtype, case)
        np.testing.assert_array_equal(np.broadcast_to(values, case.shape), results, str(case))
        vc.vectorize(function)(*arguments, *case.numbers, out=target)
        np.testing.assert_array_equal(memory.numpy(), expected, str(case))
        arguments, *_ = random_formulas.arguments_of(case, runtime.array)
        axis = random.choice([None, *range(values.ndim)])
        wide = dtype if dtype == "uint32" else "int32"
        sums = vc.reduce(combine, initial, map=function)(*arguments, *case.numbers, axis=axis).numpy()
        _require(sums.dtype == wide, case)
        np.testing.assert_array_equal(
            sums, random_formulas.reduced(values, combine, initial, axis, wide), f"{combine} {initial} {axis} {case}"
        )

    return outcome(compare, text)


CHECKS: dict[str, Callable[[Any, Launcher, Random], str]] = {
    "integers": integers,
    "programs": programs,
    "groups": groups,
    "warps": warps,
    "formulas": formulas,
}
