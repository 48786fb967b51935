"""Random functions of integers for vc.vectorize and vc.reduce, and arrays of many shapes and strides for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from vkcompute.gpu_report.random_programs.integers import CONVERSIONS, TYPES, IntegerProgram, executed, indented

_PREAMBLE = """
import numpy as np
import vkcompute as vc
FEW = (3, -1, 300, 40000)
"""
_START = """a0 = np.int8(n); c0 = np.uint8(m); g0 = np.int16(n); e0 = np.uint16(m); k0 = np.int32(n); u0 = np.uint32(m)
    a1, c1 = np.int8(m), np.uint8(n); k1, u1 = np.int32(m), np.uint32(n); v0, v1 = FEW[m & 3], FEW[n & 3]
    v2 = FEW[n & 1]; b0, b1 = n > m, m < 5; i = np.int32(n) & 7"""
COMBINED = ("a + b", "a * b", "a ^ b", "a & b", "a | b", "min(a, b)", "max(a, b)")
"""Expressions of reductions that are associative for integers that wrap."""


class Formula(IntegerProgram):
    """Draws a function f(n, m, p0, p1, p2) of two integers and three Python ints.

    Attributes:
        inputs, output: the letters of the types of n, of m, and of the result.
    """

    foreign = re.compile(r"\b([xo][acheku]?\[|h[01]\(|PAIRS|TABLE|LIMIT|xk)|x\[|o\[")
    kinds = ("if", "if", "for", "while", "match", "chain")

    def __init__(self, random: Random, *, narrow: bool = True) -> None:
        super().__init__(random, narrow=narrow)
        self.inputs = random.choice(self.letters) + random.choice(self.letters)
        self.output = random.choice(self.letters)

    def text(self) -> str:
        """A module with `f`."""
        lines = [part.strip() for line in _START.split("\n") for part in line.split(";")]
        lines = [line for line in lines if self._narrow or line[0] in "kuvbi"]
        if self._random.random() < 0.5:
            lines += self._block(2, 0, f"return {self._result()}")
        lines.append(f"return {self._result()}")
        return _PREAMBLE + "def f(n, m, p0, p1, p2):\n" + "\n".join(indented(lines)) + "\n"

    def _result(self) -> str:
        return self._filled(f"np.{TYPES[self.output]}({self._random.choice([self.output.upper(), 'V', 'K'])})", 3)


@dataclass(frozen=True)
class View:
    """A view of new memory: `shape` elements of a larger array, by a slice per axis and an order of the axes."""

    whole: tuple[int, ...]
    slices: tuple[slice, ...]
    order: tuple[int, ...]

    def of(self, array: Any) -> Any:
        """The view of an array of the shape `whole`."""
        return array[self.slices].transpose(self.order)


def view(random: Random, shape: tuple[int, ...]) -> View:
    """Draws a view of this shape."""
    order = list(range(len(shape)))
    if random.random() < 0.3:
        random.shuffle(order)
    lengths = [0] * len(shape)
    for axis, source in enumerate(order):
        lengths[source] = shape[axis]
    whole, slices = [], []
    for n in lengths:
        step, start, more = random.choice(
            [(1, 0, 0), (1, 0, 0), (1, 0, 0), (2, 0, 0), (3, 1, 1), (1, 1, 2), (-1, 0, 0)]
        )
        size = start + n * abs(step) + more
        selection = slice(start, start + n * step, step) if step > 0 else slice(None, None, -1)
        whole.append(size if step > 0 else n)
        slices.append(selection)
    return View(tuple(whole), tuple(slices), tuple(order))


@dataclass(frozen=True)
class Case:
    """Arguments of one call: numpy arrays with their views, and Python ints."""

    shape: tuple[int, ...]
    inputs: tuple[Any, ...]
    views: tuple[View, ...]
    output: tuple[Any, View]
    numbers: tuple[int, ...]
    aliases: int | None
    shift: int


def case(formula: Formula, random: Random) -> Case:
    """Draws arguments for a formula. `aliases` is the input in whose memory the result lies, moved by `shift` rows."""
    shape = tuple(random.choice([1, 2, 3, 5, 8, 17, 64]) for _ in range(random.randint(1, 3)))
    generator, inputs, views = np.random.default_rng(random.getrandbits(32)), [], []
    aliases = random.choice([None, None, 0, 1])
    if aliases is not None and formula.inputs[aliases] != formula.output:
        aliases = None
    shift = random.choice([0, 0, 1, -1]) if aliases is not None else 0
    for at, letter in enumerate(formula.inputs):
        mine = tuple(1 if random.random() < 0.25 else n for n in shape) if at != aliases else shape
        mine = mine[random.choice([0, 0, 1]) if at != aliases and len(mine) > 1 else 0 :]
        input_view = (
            view(random, mine)
            if at != aliases
            else View((shape[0] + abs(shift), *shape[1:]), (), (*range(len(shape)),))
        )
        limits = np.iinfo(TYPES[letter])
        data = generator.integers(limits.min, limits.max, input_view.whole, TYPES[letter], endpoint=True)
        small = generator.integers(0, 9, input_view.whole).astype(data.dtype)
        inputs.append(np.where(generator.random(input_view.whole) < 0.6, data, small))
        views.append(input_view)
    whole = view(random, shape)
    output = np.full(whole.whole, 7, TYPES[formula.output])
    numbers = random.randint(0, 127), random.choice([0, 1, 2, 100]), random.choice([1, 7, 127, -1, 300])
    return Case(shape, tuple(inputs), tuple(views), (output, whole), numbers, aliases, shift)


def arguments_of(case: Case, array: Any) -> tuple[list[Any], Any, Any]:
    """The arguments and the result of a call, with memory made by `array`; then the memory of the result."""
    memory = [array(host) for host in case.inputs]
    arguments = [strided.of(base) for strided, base in zip(case.views, memory, strict=True)]
    whole, strided = case.output
    if case.aliases is None:
        target = array(whole)
        return arguments, strided.of(target), target
    n, shared = case.shape[0], memory[case.aliases]
    low, high = (0, abs(case.shift)) if case.shift >= 0 else (abs(case.shift), 0)
    arguments[case.aliases] = shared[low : low + n]
    return arguments, shared[high : high + n], shared


def computed(text: str, case: Case, output: str) -> tuple[Any, Any]:
    """The results for each element by Python's own ints, and what the memory of the result then holds."""
    scope = executed(text)
    scope["np"] = SimpleNamespace(**CONVERSIONS)
    arguments, target, memory = arguments_of(case, np.array)
    rows = np.broadcast_arrays(*arguments, np.empty(case.shape))[:2]
    flat = [
        scope["f"](*map(int, operands), *case.numbers) for operands in zip(*[row.ravel() for row in rows], strict=True)
    ]
    results = np.array([CONVERSIONS[TYPES[output]](value) for value in flat], np.int64).reshape(case.shape)
    target[...] = results.astype(TYPES[output])
    return results, memory


def reduced(results: Any, expression: str, initial: int, axis: Any, dtype: str) -> Any:
    """The reduction of the results in integers of a dtype that wrap."""
    values = results.astype(np.int64).astype(dtype)
    name = {"a + b": "add", "a * b": "multiply", "a ^ b": "bitwise_xor", "a & b": "bitwise_and", "a | b": "bitwise_or"}
    function = getattr(np, name.get(expression, f"{expression[:3]}imum"))
    with np.errstate(all="ignore"):
        return function.reduce(values, axis=axis, dtype=dtype, initial=np.dtype(dtype).type(initial))
