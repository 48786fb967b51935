"""How far the results of a block program may differ between its interpreter and a device.

Beside each number, `Bounds` carries a bound of the absolute difference: a running error analysis (N. J. Higham:
Accuracy and Stability of Numerical Algorithms, 2002, section 3.3). It is 0 where both have the same bits, and infinite
where nothing is known. An operation adds the roundings of both sides to the differences of its operands:

- Sums, products and conversions are correctly rounded, so equal operands have equal results.
- A quotient and a root are up to 2.5 ulp off on a device (Vulkan, Precision of SPIR-V Instructions), functions 2 ulp
  (docs/kernels.md); NumPy's functions of float32 are within 4 ulp.
- A sum of n elements in any order has an error of (n - 1) eps / 2 times the sum of magnitudes. It is 0 if all of them
  are multiples of a number in which the sum has no more digits than the dtype.

Where a comparison could have another result, so that it has an infinite bound, a selection has the distance of both
operands. Bits of floats are integers with bounds, so conversions to bfloat16 and the keys of sorts have them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from vkcompute.blocks.launching import interpretation
from vkcompute.ir import Constant, Function, Memory, Value
from vkcompute.ir.function import Op, Push, walk
from vkcompute.ir.types import element_of
from vkcompute.tile.interpreter import _COMPUTED, Machine, interpret

Array = np.ndarray[Any, Any]
_QUOTIENT, _FUNCTION = 3, 6
"""Units of eps, for both sides: half an ulp and 2.5; 4 ulp and 2."""
_HALVES = 4
"""Units of eps per term of products of float16, which cooperative matrices may add with truncation."""
_SAME_PLACES = "reshape", "broadcast", "permute", "splat", "mirror"


class Undecided(Exception):
    """A branch depends on a number that may be another one on a device."""


class Pair(NamedTuple):
    """A number or block, and the bounds of its elements."""

    number: Any
    bound: Any

    def __bool__(self) -> bool:
        if np.any(self.bound > 0):
            raise Undecided("a branch is undecided")
        return bool(self.number)


class Bounds(Machine):
    """The state of one program: all values are pairs.

    Attributes:
        bounds: of the elements of each buffer.
    """

    def __init__(
        self,
        arrays: Mapping[Memory, Array],
        pushes: Mapping[Push, Any],
        program: tuple[int, ...],
        sizes: tuple[int, ...],
        bounds: dict[Memory, Array],
    ) -> None:
        super().__init__(arrays, pushes, program, sizes)
        self._numbers = Machine(arrays, pushes, program, sizes)
        self._values = {push: Pair(number, 0.0) for push, number in self._values.items()}
        self.bounds = bounds

    def value(self, value: Value) -> Pair:
        """Returns a pair."""
        return Pair(value.value, 0.0) if isinstance(value, Constant) else self._values[value]

    def _execute(self, op: Op) -> None:
        if op.code in ("if", "loop"):
            super()._execute(op)
            return
        used = [*op.args, *[arg for region in op.regions for each in walk(region) for arg in each.args]]
        self._numbers._values.update({item: self._values[item].number for item in used if item in self._values})
        self._numbers._execute(op)
        args = [self.value(each) for each in op.args]
        with np.errstate(all="ignore"):
            if op.code in ("reduce", "scan"):
                self._along(op, args)
            elif op.code in ("store_block", "atomic_block"):
                self._written(op, args)
            if op.has_result:
                number = self._numbers.value(op)
                bound = np.asarray(self._bound(op, args, number), np.float64)
                bound = np.where(np.isnan(bound), np.inf, bound)
                self._values[op] = Pair(number, np.broadcast_to(bound, np.shape(number)))

    def _bound(self, op: Op, args: list[Pair], number: Any) -> Any:
        code = op.code
        if code == "load_block":
            return self._loaded(op, args)
        if code == "atomic_block":
            return np.inf
        if code in _SAME_PLACES:
            return _COMPUTED[code](op, [np.broadcast_to(args[0].bound, np.shape(args[0].number))])
        if code == "gather":
            source, index = args
            spread = np.broadcast_to(source.bound, source.number.shape)
            return np.take_along_axis(spread, index.number, op.attribute) + _unknown(index.bound)
        if code == "dot":
            return _dot(args, number)
        row = _RULES.get((code, element_of(op.args[0].type).kind)) if op.args else None
        if row is not None:
            return row(args, number, op)
        unknown = _unknown(sum(arg.bound for arg in args)) if args else 0.0
        return np.max(unknown) if code == "histogram" else unknown

    # -- memory -------------------------------------------------------------------------------------------------------

    def _loaded(self, op: Op, args: list[Pair]) -> Any:
        bounds, offsets = self.bounds[op.attribute.memory], np.asarray(args[0].number)
        if not op.attribute.masked:
            return bounds[offsets] + _unknown(args[0].bound)
        inside = np.broadcast_to(args[1].number, offsets.shape)
        result = np.where(inside, bounds[np.where(inside, offsets, 0)] if bounds.size else 0.0, args[2].bound)
        return result + _unknown(args[0].bound) + _unknown(args[1].bound)

    def _written(self, op: Op, args: list[Pair]) -> None:
        bounds, offsets = self.bounds[op.attribute.memory], np.asarray(args[0].number)
        mask = args[-1] if op.attribute.masked else Pair(True, 0.0)
        inside = np.broadcast_to(mask.number, offsets.shape)
        unsure = np.broadcast_to(_unknown(mask.bound), offsets.shape)
        if np.any(np.broadcast_to(args[0].bound, offsets.shape)[inside | (unsure > 0)] > 0):
            bounds[:] = np.inf
            return
        places = offsets[unsure > 0]
        bounds[places[(places >= 0) & (places < bounds.size)]] = np.inf
        sure = inside & (unsure == 0)
        value = np.broadcast_to(args[1].bound, offsets.shape)
        if op.code == "store_block":
            bounds[offsets[sure]] = value[sure]
        else:
            bounds[offsets[sure & (value > 0)]] = np.inf

    # -- along axes ---------------------------------------------------------------------------------------------------

    def _along(self, op: Op, args: list[Pair]) -> None:
        axis, reverse = op.attribute.axis, op.attribute.reverse
        rows = [
            Pair(*[np.moveaxis(np.broadcast_to(part, np.shape(arg.number)), axis, 0) for part in arg]) for arg in args
        ]
        rows = [Pair(*[part[::-1] for part in row]) for row in rows] if reverse else rows
        if [each.code for each in op.regions[0].ops] == ["add", "yield"] and element_of(op.args[0].type).kind == "f":
            computed = [_sums(rows[0]) if op.code == "scan" else _sums(rows[0])[-1]]
        else:
            shapes = [row.number.shape if op.code == "scan" else row.number.shape[1:] for row in rows]
            if any(each.has_result and _rounds(each) for each in walk(op.regions[0])):  # in an unknown order
                computed = [np.full(shape, np.inf) for shape in shapes]
            elif any(np.any(arg.bound > 0) for arg in args):
                computed = self._combined_along(op, rows)
            else:
                computed = [np.zeros(shape) for shape in shapes]
        for result, bound in zip(op.results, computed, strict=True):
            if op.code == "scan":
                bound = np.moveaxis(bound[::-1] if reverse else bound, 0, axis)
            self._values[result] = Pair(self._numbers.value(result), np.where(np.isnan(bound), np.inf, bound))

    def _combined_along(self, op: Op, rows: list[Pair]) -> list[Array]:
        """Returns the bounds of elements that are combined as the interpreter does."""
        if op.code == "scan":
            done = [[Pair(row.number[0], row.bound[0]) for row in rows]]
            for at in range(1, len(rows[0].number)):
                done.append(self._pairs(op, done[-1], [Pair(row.number[at], row.bound[at]) for row in rows]))
            return [np.stack([item[n].bound for item in done]) for n in range(len(rows))]
        while len(rows[0].number) > 1:
            halves = [
                [Pair(*[part[start:stop:2] for part in row]) for row in rows] for start, stop in ((0, -1), (1, None))
            ]
            pairs = self._pairs(op, *halves)
            rows = [
                Pair(*[np.concatenate([one, other[2 * len(one) :]]) for one, other in zip(pair, row, strict=True)])
                for pair, row in zip(pairs, rows, strict=True)
            ]
        return [row.bound[0] for row in rows]

    def _pairs(self, op: Op, one: Sequence[Pair], other: Sequence[Pair]) -> list[Pair]:
        self._values.update(zip(op.params, (*one, *other), strict=True))
        return self.region(op.regions[0])


def _unknown(bound: Any) -> Any:
    """Returns infinity where a place or a condition may be another one."""
    return np.where(np.asarray(bound) > 0, np.inf, 0.0)


def _rounds(op: Op) -> bool:
    return element_of(op.type).kind == "f" and op.code in ("add", "sub", "mul", "div", "fma", "sqrt", "exp", "log")


def _eps(number: Any) -> float:
    return float(np.finfo(np.asarray(number).dtype).eps)


def _tiny(number: Any) -> float:
    """Returns the smallest normal number: below, devices may round to 0."""
    return float(np.finfo(np.asarray(number).dtype).tiny)


def _wide(number: Any) -> Any:
    return np.abs(np.asarray(number).astype(np.float64))


def _rounded(bound: Any, number: Any, units: float = 1) -> Any:
    """Returns a bound with the roundings of both sides; no bound if the result is not finite."""
    result = np.asarray(bound + units * _eps(number) * (_wide(number) + bound) + _tiny(number))
    return np.where(np.isfinite(number), result, np.inf)


def _where_different(args: list[Pair], bound: Any) -> Any:
    """Returns a bound, and 0 where the operands are the same on both sides."""
    return np.where(sum(np.asarray(arg.bound) for arg in args) > 0, bound, 0.0)


def _sums(row: Pair) -> Array:
    """Returns the bounds of the sums of the first elements along the first axis, in any order."""
    magnitudes = np.cumsum(_wide(row.number) + row.bound, 0)
    differences = np.cumsum(row.bound, 0)
    counts = np.arange(len(magnitudes)).reshape(-1, *[1] * (magnitudes.ndim - 1))
    result = differences + counts * (_eps(row.number) * magnitudes + _tiny(row.number))
    unit = _unit(magnitudes[-1], row.number)
    exact = np.all((np.fmod(_wide(row.number), unit) == 0) & (row.bound == 0), 0)
    result = np.where(exact, 0.0, result)
    return np.where(np.isfinite(np.cumsum(row.number.astype(np.float64), 0)), result, np.inf)


def _unit(largest: Any, number: Any) -> Any:
    """Returns the unit in the last place of the largest sum."""
    return np.exp2(np.floor(np.log2(np.maximum(largest, 1e-300)))) * _eps(number)


def _dot(args: list[Pair], number: Any) -> Any:
    one, other, start = args
    if np.asarray(number).dtype.kind != "f":
        return _unknown(sum(np.max(arg.bound) for arg in args))
    x, y, z = (_wide(arg.number) for arg in args)
    products, n = x @ y + z, np.shape(one.number)[-1] + 1
    total = np.max(products)
    steps = [_step(item) for item in (one, other, start)]
    is_exact = all(not np.any(arg.bound > 0) for arg in args)
    if is_exact and min(steps[0] * steps[1], steps[2]) >= _unit(total, number):
        return 0.0
    dx, dy, dz = (np.broadcast_to(arg.bound, np.shape(arg.number)) for arg in args)
    differences = dx @ y + x @ dy + dx @ dy + dz
    units = (n + 1) * (_HALVES if one.number.dtype == np.float16 else 1)
    result = differences + units * (_eps(number) * (products + differences) + _tiny(number))
    return np.where(np.isfinite(number), result, np.inf)


def _step(pair: Pair) -> float:
    """Returns a power of two of which all numbers are multiples."""
    numbers = _wide(pair.number)
    step = 1.0
    while step > 1e-12 and np.any(np.fmod(numbers, step)):
        step /= 2
    return step if step > 1e-12 else 0.0


# -- elements ---------------------------------------------------------------------------------------------------------

_Rule = Callable[[list[Pair], Any, Op], Any]


def _add(args: list[Pair], number: Any, _: Op) -> Any:
    return _where_different(args, _rounded(args[0].bound + args[1].bound, number))


def _product(args: list[Pair]) -> Any:
    (x, dx), (y, dy) = args
    return np.where(dy > 0, _wide(x) * dy, 0) + np.where(dx > 0, _wide(y) * dx, 0) + np.where(dx > 0, dx * dy, 0)


def _multiply(args: list[Pair], number: Any, _: Op) -> Any:
    return _where_different(args, _rounded(_product(args), number))


def _divide(args: list[Pair], number: Any, _: Op) -> Any:
    (_, dx), (y, dy) = args
    rest = _wide(y) - dy
    return np.where(rest > 0, _rounded((dx + _wide(number) * dy) / rest, number, _QUOTIENT), np.inf)


def _sqrt(args: list[Pair], number: Any, _: Op) -> Any:
    x, dx = np.asarray(args[0].number, np.float64), args[0].bound
    least = np.sqrt(np.maximum(x - dx, 0))
    return np.where(x - dx >= 0, _rounded(np.where(dx > 0, dx / (least + np.sqrt(x)), 0), number, _QUOTIENT), np.inf)


def _exp(args: list[Pair], number: Any, _: Op) -> Any:
    return _rounded(_wide(number) * np.expm1(args[0].bound), number, _FUNCTION)


def _log(args: list[Pair], number: Any, _: Op) -> Any:
    x, dx = np.asarray(args[0].number, np.float64), args[0].bound
    return np.where(x - dx > 0, _rounded(-np.log1p(-dx / x), number, _FUNCTION), np.inf)


def _wave(args: list[Pair], number: Any, _: Op) -> Any:
    return _rounded(args[0].bound, number, _FUNCTION)


def _first(args: list[Pair], _: Any, __: Op) -> Any:
    return args[0].bound


def _largest(args: list[Pair], _: Any, __: Op) -> Any:
    return np.maximum(args[0].bound, args[1].bound)


def _at_ends(args: list[Pair], number: Any, function: Callable[[Any], Any]) -> Any:
    """Returns the distance to the results of a monotonic function at both ends."""
    x, dx = np.asarray(args[0].number, np.float64), args[0].bound
    ends = [np.abs(function(x + item) - np.asarray(number, np.float64)) for item in (-dx, dx)]
    return np.where(np.isfinite(dx), np.maximum(*ends), np.inf)


def _is_ordered(args: list[Pair], _: Any, __: Op) -> Any:
    x, y = (np.asarray(arg.number, np.float64) for arg in args)
    bound = np.asarray(args[0].bound + args[1].bound)
    known = np.isnan(x) | np.isnan(y) | (np.abs(x - y) > bound)
    return np.where((bound == 0) | (known & np.isfinite(bound)), 0.0, np.inf)


def _is_special(args: list[Pair], _: Any, __: Op) -> Any:
    return np.where(np.isfinite(args[0].bound), 0.0, np.inf)


def _logic(absorbing: bool) -> _Rule:
    def rule(args: list[Pair], _: Any, __: Op) -> Any:
        (x, dx), (y, dy) = args
        decided = ((dx == 0) & (np.asarray(x) == absorbing)) | ((dy == 0) & (np.asarray(y) == absorbing))
        return np.where(decided, 0.0, _unknown(dx + dy))

    return rule


def _select(args: list[Pair], number: Any, _: Op) -> Any:
    condition, one, other = args
    chosen = np.where(condition.number, one.bound, other.bound)
    if np.asarray(number).dtype.kind == "b":
        either = np.where(np.equal(one.number, other.number), one.bound + other.bound, np.inf)
    else:
        either = np.abs(np.asarray(one.number, np.float64) - np.asarray(other.number, np.float64))
        either = either + np.maximum(one.bound, other.bound)
    return np.where(np.asarray(condition.bound) > 0, np.where(np.isnan(either), np.inf, either), chosen)


def _cast(args: list[Pair], number: Any, op: Op) -> Any:
    source, target = element_of(op.args[0].type), element_of(op.type)
    if target.kind == "b":
        return np.where(_wide(args[0].number) > args[0].bound, 0.0, _unknown(args[0].bound))
    if target.kind == "f" and source.kind != "b":
        is_wider = source.kind == "f" and target.bits >= source.bits
        return args[0].bound if is_wider else _where_different(args, _rounded(args[0].bound, number))
    if source.kind == "f":
        return _in_range(_at_ends(args, number, np.trunc), number)
    return _unknown(args[0].bound) if source.kind == "b" else _in_range(args[0].bound, number)


def _in_range(bound: Any, number: Any) -> Any:
    """Returns the bound of an integer; none if it might wrap."""
    limits, value = np.iinfo(np.asarray(number).dtype), np.asarray(number, np.float64)
    inside = (value - bound >= limits.min) & (value + bound <= limits.max)
    return np.where(inside | (np.asarray(bound) == 0), bound, np.inf)


def _integers(rule: Callable[[list[Pair]], Any]) -> _Rule:
    return lambda args, number, _: _in_range(rule(args), number)


def _shifted(args: list[Pair], number: Any, op: Op) -> Any:
    steps = np.asarray(args[1].number, np.float64)
    if op.code == "shl":
        result = args[0].bound * np.exp2(steps)
    else:
        result = _at_ends(args, number, lambda x: np.floor(x / np.exp2(steps)))
    return np.where(np.asarray(args[1].bound) > 0, np.inf, _in_range(result, number))


def _masked(args: list[Pair], number: Any, _: Op) -> Any:
    """Of `x & mask`: a mask of the upper bits rounds down, one of the lower bits leaves a number up to the mask."""
    (_, dx), (mask, dy) = args
    bits = np.asarray(mask).view(f"u{np.asarray(mask).dtype.itemsize}")
    below = ~bits
    upper, lower = (below & (below + 1)) == 0, (bits & (bits + 1)) == 0
    result = np.where(upper, dx + below.astype(np.float64), np.where(lower, bits.astype(np.float64), np.inf))
    return np.where(dx + dy == 0, 0.0, np.where(np.asarray(dy) > 0, np.inf, result))


def _inverted(args: list[Pair], number: Any, _: Op) -> Any:
    """Of `x ^ mask`: a mask of all bits, or all but the sign's, changes the direction only."""
    (_, dx), (mask, dy) = args
    info = np.iinfo(np.asarray(number).dtype)
    whole = (np.asarray(mask) == 0) | (np.asarray(mask) == info.max) | (np.asarray(mask) == -1)
    return np.where(dx + dy == 0, 0.0, np.where((np.asarray(dy) == 0) & whole, _in_range(dx, number), np.inf))


def _bits(args: list[Pair], number: Any, op: Op) -> Any:
    """Of numbers of 32 bits: the distance of the bits of both ends."""
    x, dx = np.asarray(args[0].number), np.broadcast_to(args[0].bound, np.shape(args[0].number))
    source = x.dtype
    if not np.any(dx > 0):
        return 0.0
    if "f" not in (source.kind, np.asarray(number).dtype.kind):
        return _in_range(dx, number)
    if source.itemsize != 4:
        return _unknown(dx)
    value = x.astype(np.float64)
    result = np.zeros(x.shape)
    for end in (value - dx, value + dx):
        if source.kind == "f":
            given = np.nextafter(end.astype(np.float32), np.float32(np.inf) * np.sign(end - value).astype(np.float32))
        else:
            info = np.iinfo(source)
            given = np.clip(end, info.min, info.max).astype(source)
        moved = given.view(np.asarray(number).dtype).astype(np.float64)
        result = np.maximum(result, np.abs(moved - np.asarray(number, np.float64)))
        same_sign = np.signbit(given.view(np.float32)) == np.signbit(x.view(np.float32))
        result = np.where(same_sign & np.isfinite(moved), result, np.inf)
    return np.where(dx > 0, result, 0.0)


def _rules() -> Iterator[tuple[str, str, _Rule]]:
    """Yields operations, the kinds of their first operands, and their rules; others are unknown unless exact."""
    for code, rule in {
        "add": _add, "sub": _add, "mul": _multiply, "div": _divide, "sqrt": _sqrt, "exp": _exp, "log": _log,
        "sin": _wave, "cos": _wave, "neg": _first, "abs": _first, "min": _largest, "max": _largest,
        "isnan": _is_special, "isinf": _is_special, "bitcast": _bits,
    }.items():  # fmt: skip
        yield code, "f", rule
    for code, function in {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}.items():
        yield code, "f", lambda args, number, _, function=function: _at_ends(args, number, function)
    for code, rule in {
        "add": _integers(lambda args: args[0].bound + args[1].bound),
        "sub": _integers(lambda args: args[0].bound + args[1].bound),
        "mul": _integers(_product), "neg": _integers(lambda args: args[0].bound),
        "abs": _integers(lambda args: args[0].bound), "min": _largest, "max": _largest, "shl": _shifted,
        "shr": _shifted, "and": _masked, "xor": _inverted, "bitcast": _bits,
    }.items():  # fmt: skip
        yield code, "iu", rule
    for code in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield code, "iuf", _is_ordered
    yield "cast", "biuf", _cast
    yield "select", "b", _select
    yield "and", "b", _logic(absorbing=False)
    yield "or", "b", _logic(absorbing=True)


_RULES = {(code, kind): rule for code, kinds, rule in _rules() for kind in kinds}


@contextmanager
def bounded() -> Iterator[dict[str, Array]]:
    """Lets interpreted launches in its body find bounds; gives those of the elements of each array, by its name."""
    results: dict[str, Array] = {}

    def execute(
        function: Function, arrays: Mapping[Memory, Array], pushes: Mapping[Push, Any], grid: Sequence[int]
    ) -> None:
        bounds = {memory: np.zeros(array.shape) for memory, array in arrays.items()}
        interpret(function, arrays, pushes, grid, partial(Bounds, bounds=bounds))
        results.update({memory.name: bound for memory, bound in bounds.items()})

    with mock.patch.object(interpretation, "interpret", execute):
        yield results
