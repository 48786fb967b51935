"""Runs a function of the intermediate form in Python, one invocation after the other, by numpy's arithmetic."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vkcompute.ir import Constant, Function, Memory, Scalar, Value
from vkcompute.ir.function import Op, Region
from vkcompute.ir.types import element_of


def _of_words(function: Callable[..., int]) -> Callable[..., Any]:
    """A function of ints, of uint32 numbers."""
    return lambda *args: np.vectorize(lambda *row: function(*map(int, row)) % 2**32, otypes=[np.uint32])(*args)[()]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "mod": np.mod, "rem": np.fmod, "pow": np.power, "atan2": np.arctan2,
    "div": lambda p, q: p / q if p.dtype.kind == "f" else (p - np.fmod(p, q)) // q,
    "neg": np.negative, "abs": np.abs, "not": np.invert, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.rint, "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "log": np.log,
    "log2": np.log2, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "isnan": np.isnan, "isinf": np.isinf, "rsqrt": lambda p: 1 / np.sqrt(p),
    "mul_high": _of_words(lambda p, q: p * q >> 32), "bit_count": _of_words(int.bit_count),
    "bit_reverse": _of_words(lambda p: int(f"{p:032b}"[::-1], 2)), "find_msb": _of_words(lambda p: p.bit_length() - 1),
    "find_lsb": _of_words(lambda p: (p & -p).bit_length() - 1),
}  # fmt: skip
MAX_STEPS = 100_000
Trace = dict[Op, list["Trace"]]
"""The loops that an invocation entered, each with its iterations, and the loops that it entered in these"""


def compute(code: str, args: Sequence[Any], attribute: Any = None) -> Any:
    """The result of an operation on numpy's scalars or arrays."""
    with np.errstate(all="ignore"):
        if code == "cast":
            return args[0].astype(attribute.numpy)
        if code == "bitcast":
            return args[0].view(attribute.numpy)
        if code == "select":
            return np.where(*args)[()] if np.ndim(args[0]) else args[1] if args[0] else args[2]
        return OPERATIONS[code](*args)


class _Left(Exception):  # a way out, not an error
    """A terminator that leads further than to its region's owner."""

    def __init__(self, op: Op, values: tuple[Any, ...]) -> None:
        self.op, self.values = op, values


class _Invocation:
    def __init__(
        self, function: Function, arrays: Mapping[str, Any], invocation: int, n: int, pushes: Mapping[str, Any]
    ) -> None:
        self._arrays, self._steps = arrays, 0
        self.barriers: Counter[Op] = Counter()
        self._private: dict[Memory, Any] = {}
        self._groups = n // function.local_size[0], 1, 1
        self.trace: Trace = {}
        self._where = {"global_id": invocation, "group_id": invocation // function.local_size[0]}
        self._where["local_id"] = self._where["local_index"] = invocation % function.local_size[0]
        self._values: dict[Value, Any] = {
            push: element_of(push.type).numpy.type(pushes[push.name]) for push in function.pushes
        }

    def get(self, value: Value) -> Any:
        return value.value if isinstance(value, Constant) else self._values[value]

    def region(self, region: Region) -> tuple[Any, ...]:
        """What it yields."""
        for op in region.ops:
            self._steps += 1
            assert self._steps < MAX_STEPS, "the program does not end"
            args = tuple(self.get(value) for value in op.args)
            if op.code == "yield":
                return args
            if op.code in ("break", "continue", "return"):
                raise _Left(op, args)
            self._op(op, args)
        return ()

    def _op(self, op: Op, args: tuple[Any, ...]) -> None:
        assert op.code != "unreachable", "unreachable code is reached"
        if op.code == "if":
            given = self.region(op.regions[not args[0]])
            self._bind(op.results, given if op.results else ())
        elif op.code == "loop":
            given = self._loop(op, args)
            self._bind(op.results, given if op.results else ())
        elif op.code == "load":
            self._values[op] = self._array(op.attribute)[int(args[0])]
        elif op.code == "store":
            self._array(op.attribute)[int(args[0])] = args[1]
        elif op.code == "fill":
            self._private[op.attribute] = np.full(op.attribute.length, args[0])
        elif op.operation.collective:
            self.barriers[op] += 1
            if op.has_result:
                self._values[op] = np.uint32(1)  # of invocations that have not returned, at least one
        elif op.code == "length":
            self._values[op] = np.uint32(len(self._array(op.attribute)))
        elif op.code == "builtin":
            name, axis = op.attribute
            result = self._groups[axis] if name == "n_groups" else 0 if axis else self._where[name]
            self._values[op] = np.uint32(result)
        else:
            self._values[op] = compute(op.code, args, op.attribute)
        if op.has_result:
            assert isinstance(op.type, Scalar)
            assert np.asarray(self._values[op]).dtype == op.type.numpy, f"{op.code} gives {op.type}"

    def _loop(self, op: Op, carried: tuple[Any, ...]) -> tuple[Any, ...]:
        outer = self.trace
        iterations = outer[op] = []
        try:
            while True:
                self.trace = {}
                iterations.append(self.trace)
                self._bind(op.params, carried)
                try:
                    carried = self.region(op.regions[0])
                except _Left as left:
                    if left.op.attribute is not op:
                        raise
                    if left.op.code == "break":
                        return left.values
                    carried = left.values
        finally:
            self.trace = outer

    def _bind(self, values: Sequence[Value], numbers: tuple[Any, ...]) -> None:
        self._values.update(zip(values, numbers, strict=True))

    def _array(self, memory: Memory) -> Any:
        if not memory.private:
            return self._arrays[memory.name]
        return self._private.setdefault(memory, np.zeros(memory.length or 0, memory.element.numpy))


def run(
    function: Function, arrays: Mapping[str, np.ndarray[Any, Any]], n: int, pushes: Mapping[str, Any] | None = None
) -> list[Trace]:
    """Runs `n` invocations along x on the arrays, by name of the memory; they are changed. Gives their loops."""
    return [invocation.trace for invocation in _run(function, arrays, n, pushes)]


def barriers_of(
    function: Function, arrays: Mapping[str, np.ndarray[Any, Any]], n: int, pushes: Mapping[str, Any] | None = None
) -> list[Counter[Op]]:
    """Runs it likewise. Gives the number of times that each invocation reaches each barrier; nobody waits there."""
    return [invocation.barriers for invocation in _run(function, arrays, n, pushes)]


def _run(
    function: Function, arrays: Mapping[str, np.ndarray[Any, Any]], n: int, pushes: Mapping[str, Any] | None
) -> list[_Invocation]:
    results = []
    for number in range(n):
        invocation = _Invocation(function, arrays, number, n, pushes or {})
        results.append(invocation)
        with contextlib.suppress(_Left):  # by a return; the verifier lets nothing else lead out of the body
            invocation.region(function.body)
    return results


def iterations_in_step(region: Region, traces: Sequence[Trace]) -> int:
    """How often a driver that masks goes through bodies of loops, if it runs these invocations in step.

    It goes through what is in branches whether they are taken or not, and at least once through each loop.
    """
    total = 0
    for op in region.ops:
        if op.code == "loop":
            lists = [trace[op] for trace in traces if op in trace]
            for n in range(max([1, *map(len, lists)])):
                total += 1 + iterations_in_step(op.regions[0], [each[n] for each in lists if n < len(each)])
        else:
            total += sum(iterations_in_step(inner, traces) for inner in op.regions)
    return total
