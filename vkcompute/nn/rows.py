"""Block programs on the lines of an array along an axis: each element is read once and written once.

A block has whole lines, and adjacent ones where lines are short. Its length is a power of two, and lines may be
shorter, so one program serves many lengths. On lavapipe, a program per length would take up to 5 % less CPU time, but
0.3 to 0.6 s to compile.

The mean is found before the squared distances from it are added, both in registers: as accurate as two passes over
memory, and with fewer operations than Welford's update.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from vkcompute import ir
from vkcompute.arrays.block_offsets import LARGEST
from vkcompute.arrays.lines import is_cpu, lines_along
from vkcompute.arrays.matrix_product import MOST_GROUPS
from vkcompute.arrays.ufunc import astype
from vkcompute.blocks.launching.built import Built, Program, is_wide
from vkcompute.ir import INT32, Value
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.builder import Builder
from vkcompute.tile.registers import ADJACENT

LONGEST = 4096  # elements of a line that fit in the registers of a workgroup
_BLOCK = 1024  # elements of a block of short lines
_ALIGNED = 256  # lines, of which parts of an array have multiples: any device binds them
_WIDTH = 64  # columns of a block, at most
_PUSHES = "n_rows", "length", "n_columns"
_REPEATS = 16  # blocks of a program on a CPU, which loads weights once: 8.9 ms of CPU time on lavapipe, 10.4 with one
_BUSY = 16  # programs that keep a CPU busy


class Form(NamedTuple):
    """Constants of a program.

    Attributes:
        dtype: of the arrays.
        rows, length, columns: of a block; powers of two.
        whole: True if lines are as long as the block.
        last: True if lines are along the last axis.
        aligned: True if no group of four elements is cut by the end of a line.
        reduces: True if the result has one or a few elements per line.
        repeats: blocks of rows that a program computes one after the other.
    """

    dtype: str
    rows: int
    length: int
    columns: int
    whole: bool
    last: bool
    aligned: bool
    reduces: bool
    repeats: int = 1


class Lines:
    """The blocks of a program on lines.

    Attributes:
        c: the builder.
        working: the type in which they compute, of 32 bits at least.
        offsets, mask: of the elements.
    """

    def __init__(self, name: str, form: Form, inputs: Sequence[str]) -> None:
        self.form, self.function = form, ir.Function(name)
        element = ir.SCALARS[form.dtype]
        self.working = element if element.bits > 16 else ir.FLOAT32
        self.memories = {each: self.function.buffer(each, element) for each in (*inputs, "out")}
        self.pushes = {each: self.function.push(each, INT32) for each in _PUSHES}
        self.shape = form.rows, form.length, form.columns
        self.c = Builder(self.function)
        self._place(self._start(0, form.rows * form.repeats))

    def _place(self, row: Value) -> None:
        """Moves the block to a row."""
        c, form = self.c, self.form
        self.starts = row, c.const(0, INT32), self._start(1, form.columns)
        places = [self._spread(self._places(axis), axis) for axis in range(3)]
        found = c.compute("add", c.compute("mul", places[0], self._full(self.pushes["length"])), places[1])
        self.offsets = found if form.last else self._of_column(found, places[2])
        self.mask = self._mask(range(3))

    def _start(self, axis: int, n: int) -> Value:
        c = self.c
        return c.compute("mul", c.cast(c.builtin("group_id", axis), INT32), c.const(n, INT32))

    def _full(self, value: Value) -> Value:
        return self.c.full(value, self.shape)

    def _of_column(self, line: Value, column: Value) -> Value:
        return self.c.compute("add", self.c.compute("mul", line, self._full(self.pushes["n_columns"])), column)

    def _places(self, axis: int, unit: int = 1) -> Value:
        """Returns the place of every `unit`-th element along an axis."""
        c, n = self.c, self.shape[axis] // unit
        steps = c.compute("mul", c.arange(0, n), c.full(c.const(unit, INT32), (n,)))
        return c.compute("add", steps, c.full(self.starts[axis], (n,)))

    def _spread(self, along: Value, axis: int) -> Value:
        """Returns a block of what is given along an axis."""
        shape = [1, 1, 1]
        shape[axis] = self.shape[axis]
        return self.c.broadcast(self.c.reshape(along, tuple(shape)), self.shape)

    def _inside(self, axis: int) -> Value:
        """Returns along an axis True within the array; the same value for elements that are stored together."""
        c, is_inner = self.c, axis == (1 if self.form.last else 2)
        unit = min(ADJACENT, self.shape[axis]) if is_inner and self.form.aligned else 1
        n, bound = self.shape[axis] // unit, self.pushes[_PUSHES[axis]]
        inside = c.compute("lt", self._places(axis, unit), c.full(bound, (n,)))
        return c.reshape(c.broadcast(c.reshape(inside, (n, 1)), (n, unit)), (n * unit,))

    def _mask(self, axes: Sequence[int]) -> Value | None:
        """Returns True for elements of the array; None if it has all of the block."""
        needed = self.form.rows > 1, not self.form.whole, not self.form.last
        masks = [self._spread(self._inside(axis), axis) for axis in axes if needed[axis]]
        return reduce(lambda x, y: self.c.compute("and", x, y), masks) if masks else None

    @contextmanager
    def rows(self) -> Iterator[None]:
        """Computes what the body builds for each block of rows of the program."""
        c, form = self.c, self.form
        if form.repeats == 1:
            yield
            return
        first = self.starts[0]
        loop = c.loop(c.const(0, INT32))
        with loop.body:
            (at,) = loop.params
            row = c.compute("add", first, c.compute("mul", at, c.const(form.rows, INT32)))
            for end in (
                c.compute("ge", at, c.const(form.repeats, INT32)),
                c.compute("ge", row, self.pushes["n_rows"]),
            ):
                with c.if_(end).then:
                    c.break_(loop)
            self._place(row)
            yield
            c.yield_(c.compute("add", at, c.const(1, INT32)))

    # -- for programs -------------------------------------------------------------------------------------------------

    def load(self, name: str, other: float = 0.0) -> Value:
        """Returns the elements; `other` beyond the end of lines."""
        c, memory = self.c, self.memories[name]
        filler = None if self.mask is None else self._full(c.const(other, memory.element))
        return c.cast(c.load_block(memory, self.offsets, self.mask, filler), self.working)

    def load_along(self, name: str) -> Value:
        """Returns the elements of an array that has one per place along the lines."""
        c, memory = self.c, self.memories[name]
        mask = None if self.form.whole else self._inside(1)
        found = c.load_block(memory, c.arange(0, self.form.length), mask)
        return self._spread(c.cast(found, self.working), 1)

    def store(self, value: Value) -> None:
        """Stores the elements."""
        memory = self.memories["out"]
        self.c.store_block(memory, self.offsets, self.c.cast(value, memory.element), self.mask)

    def store_reduced(self, *values: Value) -> None:
        """Stores one or more numbers per line, along its axis."""
        c, memory, first = self.c, self.memories["out"], self.form._replace(length=1, whole=True)
        shape, self.shape = self.shape, (first.rows, 1, first.columns)
        rows, columns = (self._spread(self._places(axis), axis) for axis in (0, 2))
        for at, value in enumerate(values):
            line = c.compute("mul", rows, self._full(c.const(len(values), INT32)))
            place = self._of_column(c.compute("add", line, self._full(c.const(at, INT32))), columns)
            c.store_block(memory, place, c.cast(value, memory.element), self._mask((0, 2)))
        self.shape = shape

    def reduced(self, name: str, value: Value) -> Value:
        """Returns the elements of each line, combined by an operation: a block whose middle axis has length 1."""
        c, (rows, _, columns) = self.c, self.shape
        (found,) = c.reduce([value], 1, lambda x, y: [c.compute(name, x[0], y[0])])
        return c.reshape(found, (rows, 1, columns))

    def totals(self, *values: Value) -> list[Value]:
        """Returns the sums of several blocks along the lines, as `reduced`, with one exchange."""
        c, (rows, _, columns) = self.c, self.shape
        sums = c.reduce(list(values), 1, lambda x, y: [c.compute("add", *pair) for pair in zip(x, y, strict=True)])
        return [c.reshape(each, (rows, 1, columns)) for each in sums]

    def mean(self, value: Value) -> Value:
        """Returns the mean of each line, as `reduced`."""
        total = self.reduced("add", self.inside(value))
        n = self.c.cast(self.pushes["length"], self.working)
        return self.c.compute("div", total, self.c.full(n, total.type.shape))  # type: ignore[union-attr]

    def spread(self, value: Value) -> Value:
        """Returns a number per line, for each of its elements."""
        return self.c.broadcast(value, self.shape)

    def inside(self, value: Value) -> Value:
        """Returns the elements, and 0 beyond the end of lines."""
        return (
            value if self.mask is None else self.c.select(self.mask, value, self._full(self.c.const(0, self.working)))
        )

    def built(self) -> Built:
        """Returns the function with what holds in each launch."""
        if not self.form.aligned:
            return Built(self.function)
        wide = [each for name, each in self.memories.items() if name != "out" or not self.form.reduces]
        return Built(self.function, wide, {self.pushes["length" if self.form.last else "n_columns"]: ADJACENT})


def _softmax(*form: Any) -> Built:
    """Builds exp(x - max) * (1 / sum), of lines."""
    lines = Lines("softmax", Form(*form), ["x"])
    c, x = lines.c, lines.load("x", -np.inf)
    powers = c.compute("exp", c.compute("sub", x, lines.spread(lines.reduced("max", x))))
    total = lines.reduced("add", lines.inside(powers))
    one = c.full(c.const(1, lines.working), total.type.shape)  # type: ignore[union-attr]
    lines.store(c.compute("mul", powers, lines.spread(c.compute("div", one, total))))  # one quotient per line
    return lines.built()


def _log_softmax(*form: Any) -> Built:
    """Builds x - max - log(sum of exp(x - max)), of lines."""
    lines = Lines("log_softmax", Form(*form), ["x"])
    c, x = lines.c, lines.load("x", -np.inf)
    less = c.compute("sub", x, lines.spread(lines.reduced("max", x)))
    lines.store(c.compute("sub", less, lines.spread(_log_of_sum(lines, less))))
    return lines.built()


def _logsumexp(*form: Any) -> Built:
    """Builds max + log(sum of exp(x - max)), of lines."""
    lines = Lines("logsumexp", Form(*form), ["x"])
    c, x = lines.c, lines.load("x", -np.inf)
    largest = lines.reduced("max", x)
    zero = c.full(c.const(0, lines.working), largest.type.shape)  # type: ignore[union-attr]
    origin = c.select(c.compute("isinf", largest), zero, largest)
    lines.store_reduced(c.compute("add", origin, _log_of_sum(lines, c.compute("sub", x, lines.spread(origin)))))
    return lines.built()


def _log_of_sum(lines: Lines, x: Value) -> Value:
    """Builds log(sum of exp(x)), of lines whose largest element is 0.

    Zeros are counted apart from the sum of the others, whose digits would be lost beside them.
    """
    c = lines.c
    zero, one = (c.full(c.const(number, lines.working), lines.shape) for number in (0, 1))
    is_zero = c.compute("eq", x, zero)
    parts = [c.select(is_zero, one, zero), c.select(is_zero, zero, c.compute("exp", x))]
    count, rest = lines.totals(*map(lines.inside, parts))
    one = c.full(c.const(1, lines.working), count.type.shape)  # type: ignore[union-attr]
    return c.compute("log1p", c.compute("add", rest, c.compute("sub", count, one)))


def _layer_norm(has_weight: bool, has_bias: bool, eps: float, *form: Any) -> Built:
    """Builds (x - mean) / sqrt(variance + eps) * weight + bias, of lines along the last axis."""
    lines = Lines("layer_norm", Form(*form), ["x", *["weight"] * has_weight, *["bias"] * has_bias])
    c, along = lines.c, _along(lines)
    with lines.rows():
        x = lines.load("x")
        distances = lines.inside(c.compute("sub", x, lines.spread(lines.mean(x))))
        lines.store(_scaled(lines, distances, lines.mean(c.compute("mul", distances, distances)), eps, along))
    return lines.built()


def _rms_norm(has_weight: bool, eps: float, *form: Any) -> Built:
    """Builds x / sqrt(mean of squares + eps) * weight, of lines along the last axis."""
    lines = Lines("rms_norm", Form(*form), ["x", *["weight"] * has_weight])
    along = _along(lines)
    with lines.rows():
        x = lines.load("x")
        lines.store(_scaled(lines, x, lines.mean(lines.c.compute("mul", x, x)), eps, along))
    return lines.built()


def _var_mean(correction: float, *form: Any) -> Built:
    """Builds the sum of squared distances from the mean, divided by n - correction, and the mean, of lines."""
    lines = Lines("var_mean", Form(*form), ["x"])
    c, x = lines.c, lines.load("x")
    mean = lines.mean(x)
    distances = lines.inside(c.compute("sub", x, lines.spread(mean)))
    squares = lines.reduced("add", c.compute("mul", distances, distances))
    n = c.compute("sub", c.cast(lines.pushes["length"], lines.working), c.const(correction, lines.working))
    divisor = c.full(c.compute("max", n, c.const(0, lines.working)), squares.type.shape)  # type: ignore[union-attr]
    lines.store_reduced(c.compute("div", squares, divisor), mean)
    return lines.built()


def _along(lines: Lines) -> list[tuple[str, Value]]:
    """Loads the weight and the bias, if there are any: once for all rows of the program."""
    operations = ("weight", "mul"), ("bias", "add")
    return [(operation, lines.load_along(name)) for name, operation in operations if name in lines.memories]


def _scaled(lines: Lines, x: Value, squares: Value, eps: float, along: Sequence[tuple[str, Value]]) -> Value:
    """Builds x / sqrt(squares + eps), times the weight and plus the bias, if there are any."""
    c, shape = lines.c, squares.type.shape  # type: ignore[union-attr]
    root = c.compute("sqrt", c.compute("add", squares, c.full(c.const(eps, lines.working), shape)))
    factor = c.compute("div", c.full(c.const(1, lines.working), shape), root)
    found = c.compute("mul", x, lines.spread(factor))
    for operation, value in along:
        found = c.compute(operation, found, value)
    return found


SOFTMAX, LOG_SOFTMAX, LOGSUMEXP = Program(_softmax), Program(_log_softmax), Program(_logsumexp)
LAYER_NORM, RMS_NORM, VAR_MEAN = Program(_layer_norm), Program(_rms_norm), Program(_var_mean)


def over_lines(
    program: Program, x: Array, axis: int, others: Sequence[Array] = (), constants: tuple[Hashable, ...] = (),
    *, reduces: int = 0,
) -> Array | None:  # fmt: skip
    """Returns what a program computes of an array along an axis; None if its lines do not fit in a block.

    Args:
        x: an array with elements.
        others: arrays with an element per place along the lines.
        constants: of the program, before the form.
        reduces: elements of the result per line, along the axis; 0 for as many as the line has.
    """
    rows, length, columns = lines_along(x.shape, axis)
    most = min(x.runtime.device.max_binding_bytes // x.dtype.itemsize, LARGEST - 1) // (max(length, reduces) * columns)
    if length > LONGEST or most < min(rows, _ALIGNED):
        return None
    height, n, width = _block(rows, length, columns)
    repeats = _REPEATS if others and is_cpu(x.runtime) and rows >= _BUSY * _REPEATS * height else 1
    x, others = bindable(x), [bindable(each) for each in others]
    given = x.reshape((rows, length, columns))
    out = temporary(x.runtime, (rows, reduces or length, columns), x.dtype)
    step = min(most, MOST_GROUPS * height) // _ALIGNED * _ALIGNED or rows
    for start in range(0, rows, step):
        parts = [each if rows <= step else each[start : start + step] for each in (given, out)]
        last = columns == 1
        wide = parts[:1] if reduces else parts
        aligned = (length if last else columns) % ADJACENT == 0 and all(map(is_wide, [*wide, *others]))
        form = x.dtype.name, height, n, width, n == length, last, aligned, bool(reduces), repeats
        grid = -(-len(parts[0]) // (height * repeats)), -(-columns // width), 1
        numbers = len(parts[0]), length, columns
        program.launch((*constants, *form), [parts[0], *others, parts[1]], numbers, grid)
    return out.reshape((*x.shape[:axis], reduces or length, *x.shape[axis + 1 :]))


def bindable(x: Array) -> Array:
    """Returns an array, or a copy if a program cannot have it as it is."""
    return astype(x, x.dtype) if needs_strides(x) or not x.contiguous else x


def _block(rows: int, length: int, columns: int) -> tuple[int, int, int]:
    """Returns the lengths of a block: whole lines, of adjacent columns, and of several rows where they are short."""
    n = 1 << (length - 1).bit_length()
    width = min(1 << (columns - 1).bit_length(), _WIDTH)
    return min(max(_BLOCK // (n * width), 1), 1 << (rows - 1).bit_length()), n, width
