"""Executes a function of blocks by numpy, one program after the other, with bounds checked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vkcompute.errors import KernelError
from vkcompute.ir import Constant, Function, Memory, Value
from vkcompute.ir.function import Op, Push, Region
from vkcompute.ir.operations import converted
from vkcompute.ir.types import element_of
from vkcompute.tile.types import shape_of

_ATOMICS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exchange": lambda _, new: new,
}


class _Exit(Exception):
    """A break or continue of a loop, with the values that it passes, or the end of the program."""

    def __init__(self, code: str, loop: Op | None = None, values: Sequence[Any] = ()) -> None:
        super().__init__(code)
        self.code, self.loop, self.values = code, loop, values


def interpret(
    function: Function,
    arrays: Mapping[Memory, np.ndarray[Any, Any]],
    pushes: Mapping[Push, Any],
    grid: Sequence[int],
    machine: Callable[..., Machine] | None = None,
) -> None:
    """Runs all programs of a grid in order, x fastest.

    Args:
        arrays: the flat elements of each buffer; those that the function writes are changed.
        pushes: the values of the push constants.
        machine: makes the state of a program; by default `Machine`.

    Raises:
        KernelError: an element outside of its array is accessed where the mask is True.
    """
    sizes = (*grid, 1, 1)[:3]
    for z, y, x in itertools.product(*[range(n) for n in reversed(sizes)]):
        state = (machine or Machine)(arrays, pushes, (x, y, z), sizes)
        try:
            with np.errstate(all="ignore"):
                state.region(function.body)
        except _Exit:
            continue


class Machine:
    """The state of one program."""

    def __init__(
        self,
        arrays: Mapping[Memory, np.ndarray[Any, Any]],
        pushes: Mapping[Push, Any],
        program: tuple[int, ...],
        sizes: tuple[int, ...],
    ) -> None:
        self._arrays, self._program = arrays, program
        self._builtins = {"group_id": program, "n_groups": sizes}
        self._values: dict[Value, Any] = {push: _as(push, value) for push, value in pushes.items()}

    def value(self, value: Value) -> Any:
        """Returns a value: a numpy scalar or array."""
        return value.value if isinstance(value, Constant) else self._values[value]

    def region(self, region: Region) -> list[Any]:
        """Executes a region, and returns what it yields."""
        for op in region.ops:
            if op.code == "yield":
                return [self.value(arg) for arg in op.args]
            if op.code in ("break", "continue", "return"):
                loop = op.attribute if isinstance(op.attribute, Op) else None
                raise _Exit(op.code, loop, [self.value(arg) for arg in op.args])
            self._execute(op)
        return []

    def _execute(self, op: Op) -> None:
        step = _STEPS.get(op.code)
        if step is not None:
            step(self, op)
            return
        args = [self.value(arg) for arg in op.args]
        result = _COMPUTED[op.code](op, args) if op.code in _COMPUTED else self._evaluated(op, args)
        self._values[op] = np.asarray(result).astype(element_of(op.type).numpy)[()]

    def _evaluated(self, op: Op, args: list[Any]) -> Any:
        if op.code == "builtin":
            name, axis = op.attribute
            return self._builtins[name][axis]
        if op.code == "cast":
            return converted(args[0], element_of(op.type))
        evaluate = op.operation.evaluate
        if evaluate is None:
            raise NotImplementedError(op.code)
        if element_of(op.args[0].type).kind != "f" and op.code in ("div", "rem", "mod"):
            args = [args[0], np.where(args[1] == 0, args[1].dtype.type(1), args[1])]
        return evaluate(args, op.attribute)

    # -- control flow -------------------------------------------------------------------------------------------------

    def _if(self, op: Op) -> None:
        results = self.region(op.regions[0 if self.value(op.args[0]) else 1])
        self._values.update(zip(op.results, results, strict=True))

    def _loop(self, op: Op) -> None:
        carried = [self.value(arg) for arg in op.args]
        while True:
            self._values.update(zip(op.params, carried, strict=True))
            try:
                carried = self.region(op.regions[0])
            except _Exit as end:
                if end.loop is not op:
                    raise
                carried = list(end.values)
                if end.code == "break":
                    self._values.update(zip(op.results, carried, strict=True))
                    return

    # -- memory -------------------------------------------------------------------------------------------------------

    def _places(self, op: Op, mask: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Returns the array, the offsets and the mask, and checks the offsets under it."""
        array, offsets = self._arrays[op.attribute.memory], np.asarray(self.value(op.args[0]))
        inside = np.broadcast_to(True if mask is None else mask, offsets.shape)
        wrong = inside & ((offsets < 0) | (offsets >= array.size))
        if wrong.any():
            first = int(offsets[wrong].flat[0])
            message = (
                f"program {self._program} accesses element {first} of {op.attribute.memory.name}, which has "
                f"{array.size}; mask it, as mask=offsets < n"
            )
            raise _failed(op, message)
        return array, np.where(inside, offsets, 0), inside

    def _load(self, op: Op) -> None:
        masked = op.attribute.masked
        array, offsets, inside = self._places(op, self.value(op.args[1]) if masked else None)
        values = array[offsets] if array.size else np.zeros(offsets.shape, array.dtype)
        self._values[op] = np.where(inside, values, self.value(op.args[2]))[()] if masked else values[()]

    def _store(self, op: Op) -> None:
        array, offsets, inside = self._places(op, self.value(op.args[2]) if op.attribute.masked else None)
        values = np.broadcast_to(self.value(op.args[1]), offsets.shape)
        array[offsets[inside]] = values[inside]

    def _atomic(self, op: Op) -> None:
        access = op.attribute
        array, offsets, inside = self._places(op, self.value(op.args[-1]) if access.masked else None)
        operands = [
            np.broadcast_to(self.value(arg), offsets.shape) for arg in op.args[1 : -1 if access.masked else None]
        ]
        old = np.zeros(offsets.shape, array.dtype)
        for at in np.ndindex(offsets.shape):
            if not inside[at]:
                continue
            offset, before = offsets[at], array[offsets[at]]
            old[at] = before
            if access.name == "compare_exchange":
                array[offset] = operands[1][at] if before.tobytes() == operands[0][at].tobytes() else before
            else:
                array[offset] = _ATOMICS[access.name](before, operands[0][at])
        self._values[op] = old[()]

    # -- along axes ---------------------------------------------------------------------------------------------------

    def _combined(self, op: Op, one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
        """Combines all elements at once, or one by one if that takes branches."""
        if not np.ndim(one[0]) or not any(inner.regions for inner in op.regions[0].ops):
            self._values.update(zip(op.params, (*one, *other), strict=True))
            return self.region(op.regions[0])
        combined = [np.empty_like(array) for array in one]
        for at in np.ndindex(combined[0].shape):
            self._values.update(zip(op.params, [array[at] for array in (*one, *other)], strict=True))
            for whole, number in zip(combined, self.region(op.regions[0]), strict=True):
                whole[at] = number
        return combined

    def _reduce(self, op: Op) -> None:
        """Combines pairs over and over, so that sums round as little as on a device."""
        rows = [np.moveaxis(np.asarray(self.value(arg)), op.attribute.axis, 0) for arg in op.args]
        while len(rows[0]) > 1:
            pairs = self._combined(op, [row[:-1:2] for row in rows], [row[1::2] for row in rows])
            rows = [np.concatenate([pair, row[len(pair) * 2 :]]) for pair, row in zip(pairs, rows, strict=True)]
        self._values.update(zip(op.results, [row[0][()] for row in rows], strict=True))

    def _scan(self, op: Op) -> None:
        axis, reverse, _ = op.attribute
        rows = [np.moveaxis(np.asarray(self.value(arg)), axis, 0) for arg in op.args]
        if reverse:
            rows = [row[::-1] for row in rows]
        done = [[row[0] for row in rows]]
        for at in range(1, len(rows[0])):
            done.append(self._combined(op, done[-1], [row[at] for row in rows]))
        for n, result in enumerate(op.results):
            prefixes = np.stack([row[n] for row in done])
            self._values[result] = np.moveaxis(prefixes[::-1] if reverse else prefixes, 0, axis)

    def _gather(self, op: Op) -> None:
        source, index = (self.value(arg) for arg in op.args)
        n = source.shape[op.attribute]
        wrong = (index < 0) | (index >= n)
        if wrong.any():
            raise _failed(op, f"index {int(index[wrong].flat[0])} is outside of the axis of {n} that is gathered along")
        self._values[op] = np.take_along_axis(source, index, op.attribute)

    def _report(self, op: Op) -> None:
        rows = [np.asarray(self.value(arg)) for arg in op.args]
        mask = rows.pop() if op.attribute.masked else np.asarray(True)
        shape = np.broadcast_shapes(mask.shape, *[row.shape for row in rows])
        for index in np.argwhere(np.broadcast_to(mask, shape)).tolist() if shape else [()] * bool(mask):
            text = op.attribute.text.format(*self._program, *index, *[row[tuple(index)] for row in rows])
            if op.attribute.fails:
                raise KernelError(text)
            print(text, end="")


def _as(push: Push, value: Any) -> Any:
    return element_of(push.type).numpy.type(value)


def _dot(op: Op, args: list[Any]) -> Any:
    kind = element_of(op.type).numpy
    wide = np.float64 if kind.kind == "f" else kind
    return (args[0].astype(wide) @ args[1].astype(wide) + args[2]).astype(kind)


def _histogram(op: Op, args: list[Any]) -> Any:
    n_bins, values = shape_of(op.type)[0], args[0]
    inside = (values >= 0) & (values < n_bins) & (args[1] if len(args) > 1 else True)
    return np.bincount(values[inside], minlength=n_bins)


_COMPUTED: dict[str, Callable[[Op, list[Any]], Any]] = {
    "arange": lambda op, _: np.arange(math.prod(shape_of(op.type))),
    "splat": lambda op, args: np.broadcast_to(args[0], shape_of(op.type)),
    "reshape": lambda op, args: np.reshape(args[0], shape_of(op.type)),
    "broadcast": lambda op, args: np.broadcast_to(args[0], shape_of(op.type)),
    "permute": lambda op, args: np.transpose(args[0], op.attribute),
    "select": lambda _, args: np.where(*args),
    "dot": _dot,
    "mirror": lambda op, args: args[0].reshape(-1)[np.arange(args[0].size) ^ op.attribute].reshape(args[0].shape),
    "histogram": _histogram,
}


def _assume(machine: Machine, op: Op) -> None:
    """Checks an assumption."""
    if machine.value(op.args[0]) < 0:
        raise _failed(op, f"it is assumed not to be negative, and is {machine.value(op.args[0])}")


def _failed(op: Op, message: str) -> KernelError:
    location = str(op.loc) if op.loc is not None else ""
    return KernelError(location.replace("\0", message) if "\0" in location else message)


_STEPS: dict[str, Callable[[Machine, Op], None]] = {
    "if": Machine._if,
    "loop": Machine._loop,
    "load_block": Machine._load,
    "store_block": Machine._store,
    "atomic_block": Machine._atomic,
    "reduce": Machine._reduce,
    "scan": Machine._scan,
    "gather": Machine._gather,
    "report": Machine._report,
    "assume": _assume,
}
