"""Expressions: each node of the syntax tree has its value."""

from __future__ import annotations

import ast
import builtins
import difflib
import math
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from vkcompute import ir
from vkcompute.errors import IrError, KernelError
from vkcompute.ir import BOOL, INT32, INT64, UINT32, Scalar, Value
from vkcompute.jit import library, passes
from vkcompute.jit.arithmetic import Arithmetic
from vkcompute.jit.bounds import access, checked
from vkcompute.jit.functions import FUNCTIONS, INSTEAD, Function, call
from vkcompute.jit.printing import formatted, printed
from vkcompute.jit.report import Site
from vkcompute.jit.sequences import BUILTIN, Walker
from vkcompute.jit.source import Refused, Source, Written
from vkcompute.jit.values import PLAIN, Array, Kind, Number, Row, Unset, Vector, describe, is_named
from vkcompute.jit.vectors import element, sliced, swizzled

Build = Callable[[], object]


class Read(NamedTuple):
    """Something from outside of a kernel: how a name was looked up, the name, what was found, and what had it."""

    lookup: Callable[[str], Any]
    name: str
    found: Any
    owner: Any


SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.UAdd: "+", ast.USub: "-", ast.Invert: "~",
    ast.Not: "not",
}  # fmt: skip
_INSTEAD: dict[type[ast.AST], str] = {
    ast.List: "a list; use a tuple",
    ast.Dict: "a dict; use variables",
    ast.Set: "a set; use a tuple",
    ast.Lambda: "a lambda; write a function with def outside of the kernel",
    ast.NamedExpr: "an assignment in an expression; write a statement of its own",
    ast.Starred: "unpacking with *; name each value",
    ast.Await: "await; a kernel runs on the device",
    **dict.fromkeys((ast.Yield, ast.YieldFrom), "a generator; write values to a tensor"),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), "a comprehension; write a for loop"),
}
GOES_OVER = "a for loop goes over range(…), enumerate(…), zip(…), a tuple, a vector or a tensor"
_LASTING = ("vkcompute", "numpy", "math")  # modules whose names mean the same as long as they are installed
_RESULT = "value of the expression"  # a variable that no program can name


@dataclass(slots=True)
class Frame:
    """A function while its body is compiled.

    Attributes:
        locals: names that it assigns to.
        loops: those around the present statement, the innermost last.
        call: the call that it is inlined at, None in the kernel itself.
    """

    function: FunctionType
    source: Source
    locals: set[str]
    call: ast.AST | None = None
    loops: list[Any] = field(default_factory=list)


class Expressions(Arithmetic):
    """Evaluates expressions.

    Attributes:
        function: that is being built.
        frames: of the kernel and the functions that are being inlined, the innermost last.
        node: that is being compiled.
        env: the variables of the innermost.
        alive: whether control comes to the present place.
        folded: whether groups along the first axis go on along the second.
        sources: of the functions that have been inlined.
        sites: places that report, and `reports` the buffer in which they do, if there are any.
        checked: whether indices are compared with the shape; None where nothing can be reported.
        inside: by the place, whether there is an element, where that has been checked.
        reads: constants and functions from outside, by the id of what has them, whether as an item, and the name.
        extents: push constants for lengths, by (position of the tensor, axis or -1 for the whole).
    """

    def __init__(self, function: ir.Function, real: Scalar, *, folded: bool) -> None:
        super().__init__(function, real)
        self.function, self.folded = function, folded
        self.checked: bool | None = None
        self.inside: dict[Value, Value] = {}
        self.sites: list[Site] = []
        self.reports: ir.Memory | None = None
        self.frames: list[Frame] = []
        self.sources: dict[FunctionType, Source] = {}
        self.node: ast.AST = ast.Pass()
        self.env: dict[str, Any] = {}
        self.alive = True
        self.reads: dict[tuple[int, bool, Any], Read] = {}
        self.written: dict[int, bool] = {}
        self.extents: dict[tuple[int, int], Value] = {}

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """The value of a call of a Python function."""
        raise NotImplementedError

    def branch(self, condition: Value, then: Build, otherwise: Build, node: ast.AST) -> None:
        """An `if`, whose parts are built by these."""
        raise NotImplementedError

    @property
    def at_top(self) -> bool:
        """Whether the present place is in no branch and no loop."""
        return self.builder.checkpoint()[0] is self.function.body

    # -- nodes --------------------------------------------------------------------------------------------------------

    def located(self, work: Callable[[Any], Any], node: ast.AST) -> Any:
        """`work(node)`; what it refuses becomes an error at this node."""
        outer, self.node = self.node, node
        try:
            return work(node)
        except (Refused, IrError) as refusal:
            raise self.error(node, refusal) from None
        finally:
            self.node = outer

    def error(self, node: ast.AST, message: object) -> KernelError:
        """An error at a node, with the calls that led there; what the library itself calls is where it was called."""
        frames = list(self.frames)
        while len(frames) > 1 and frames[-1].function.__module__ == library.__name__:
            node = frames.pop().call or node
        frames = [frame for frame in frames if frame.function.__module__ != passes.__name__] or frames
        text = str(frames[-1].source.error(node, message))
        for outer, inner in zip(frames[-2::-1], frames[:0:-1], strict=True):
            text += f"\n{outer.source.error(inner.call or node, f'in this call of {inner.function.__name__}')}"
        return KernelError(text)

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for.

        Raises:
            KernelError: kernels cannot do this.
        """
        return self.located(partial(_NODES.get(type(node), Expressions._unsupported), self), node)

    def _unsupported(self, node: ast.AST) -> Any:
        what = _INSTEAD.get(type(node), f"{type(node).__name__}; see vc.kernel for what is")
        raise Refused(f"not supported in kernels: {what}")

    def _constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, (complex, bytes)) or node.value is Ellipsis:
            raise Refused(f"not supported in kernels: {node.value!r}; numbers are bools, ints and floats")
        return node.value

    def _tuple(self, node: ast.Tuple) -> Any:
        return tuple([self.value(each) for each in node.elts])

    def _binary(self, node: ast.BinOp) -> Any:
        return self.binary(SIGNS[type(node.op)], self.value(node.left), self.value(node.right))

    def _unary(self, node: ast.UnaryOp) -> Any:
        return self.unary(SIGNS[type(node.op)], self.value(node.operand))

    def _compare(self, node: ast.Compare) -> Any:
        def chain(left: Any, at: int) -> Any:
            right = self.value(node.comparators[at])
            first = self.compare(SIGNS[type(node.ops[at])], left, right)
            rest = node.comparators[at + 1 :]
            return self._connect(True, first, lambda: chain(right, at + 1), rest, node) if rest else first

        return chain(self.value(node.left), 0)

    def _bool_op(self, node: ast.BoolOp) -> Any:
        def chain(at: int) -> Any:
            first, rest = self.value(node.values[at]), node.values[at + 1 :]
            is_and = isinstance(node.op, ast.And)
            return self._connect(is_and, first, lambda: chain(at + 1), rest, node) if rest else first

        return chain(0)

    def _connect(
        self, is_and: bool, first: Any, second: Callable[[], Any], written: list[ast.expr], node: ast.AST
    ) -> Any:
        """`first and second()` or `first or second()`; the second, written so, is computed only if it matters."""
        truth = self.truth(first)
        if isinstance(truth, bool):
            return second() if truth == is_and else first
        if not _is_plain(*written):
            ways = (second, lambda: first) if is_and else (lambda: first, second)
            return self._choose(truth, *ways, node)
        other = second()
        if self.kind(first) == self.kind(other) == Kind(BOOL):
            return self.binary("&" if is_and else "|", first, other)
        return self.where(first, *((other, first) if is_and else (first, other)))

    def _if_exp(self, node: ast.IfExp) -> Any:
        truth = self.truth(self.value(node.test))
        if isinstance(truth, bool):
            return self.value(node.body if truth else node.orelse)
        if _is_plain(node.body, node.orelse):
            return self.where(Number(truth, Kind(BOOL)), self.value(node.body), self.value(node.orelse))
        return self._choose(truth, partial(self.value, node.body), partial(self.value, node.orelse), node)

    def _choose(self, truth: Value, then: Callable[[], Any], otherwise: Callable[[], Any], node: ast.AST) -> Any:
        """The value of the one that the condition picks; the other is not computed."""

        def keep(way: Callable[[], Any]) -> None:
            self.env[_RESULT] = way()

        self.branch(truth, partial(keep, then), partial(keep, otherwise), node)
        result = self.env.pop(_RESULT, None)
        if isinstance(result, Unset):
            raise Refused(f"the value is {result.why}")
        return result

    # -- names --------------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> Any:
        frame, name = self.frames[-1], node.id
        if name.startswith(BUILTIN):
            return getattr(builtins, name.removeprefix(BUILTIN))
        if name in self.env:
            found = self.env[name]
            if isinstance(found, Unset):
                raise Refused(f"{name} has no value that can be used here: {found.why}")
            return found
        if name in frame.locals:
            raise Refused(f"{name} is used before it is assigned")
        function = frame.function
        if name in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
            return self._read(cell, "cell_contents", name)
        if name in function.__globals__:
            return self._read(function.__globals__, name, name, item=True)
        if hasattr(builtins, name):
            self._read(function.__globals__, name, name, item=True)  # which may hide it later
            return getattr(builtins, name)
        own = {each.function.__name__ for each in self.frames}
        known = {*frame.locals, *function.__globals__, *dir(builtins)} - own  # none of which may be called
        raise Refused(f"the name {name} is not defined{_meant(name, known)}")

    def _walker(self, node: Walker) -> Any:
        found = self._name(node)
        if found is not getattr(builtins, node.id):
            raise Refused(f"{node.id} is not Python's own here, but {describe(found)}; {GOES_OVER}")
        return found

    def _read(self, owner: Any, key: Any, name: str, *, item: bool = False) -> Any:
        """A value from outside of the kernel, an attribute or an `item`; the launch looks whether it has changed."""
        lookup = lookup_in(owner, item=item)
        try:
            found = lookup(key)
        except AttributeError:
            raise Refused(f"{name.rpartition('.')[0]} has no attribute {key}{_meant(key, dir(owner))}") from None
        except ValueError:
            raise Refused(f"{name} has no value when the kernel is compiled") from None
        if hasattr(found, "__array__") and not isinstance(found, (np.generic, type)):
            raise Refused(f"{name} comes from outside of the kernel; a kernel takes tensors as arguments")
        module = owner if item else vars(owner) if isinstance(owner, ModuleType) else {}
        if str(module.get("__name__")).partition(".")[0] not in _LASTING:
            self.reads[id(owner), item, key] = Read(lookup, key, found, owner)
        return found

    def _attribute(self, node: ast.Attribute) -> Any:
        base, name = self.value(node.value), node.attr
        if isinstance(base, (ModuleType, type)):
            return self._read(base, name, f"{base.__name__}.{name}")
        if isinstance(base, Array) and name == "shape":
            return tuple([self.extent(base, axis) for axis in range(base.ndim)])
        if isinstance(base, Array) and name in ("ndim", "dtype"):
            return base.ndim if name == "ndim" else base.element.numpy
        if isinstance(base, Array) and name == "size":
            return self.extent(base, -1)
        if isinstance(base, Vector):
            return swizzled(base, name)
        if is_named(type(base)):
            if name not in base._fields:
                fields = ", ".join(base._fields)
                raise Refused(f"{type(base).__name__} has no attribute {name}; its fields are {fields}")
            return getattr(base, name)
        if isinstance(base, Enum) or not isinstance(base, (Number, Array, Row, tuple, *PLAIN)):
            return self._read(base, name, f"{type(base).__name__}.{name}")
        has = "a tensor has shape, size, ndim, dtype" if isinstance(base, Array) else "call functions, as vc.int32(x)"
        raise Refused(f"{describe(base)} has no attribute {name} that a kernel can use; {has}")

    def extent(self, array: Array, axis: int) -> Any:
        """The length along an axis, or with -1 the number of elements: int32; of a shared array a Python int."""
        if array.shape is not None:
            return math.prod(array.shape) if axis < 0 else array.shape[axis]
        if array.ndim == 0:
            return 1
        key = array.position, 0 if array.ndim == 1 else axis
        if key not in self.extents:
            name = f"{array.name}.size" if axis < 0 else f"{array.name}.shape[{axis}]"
            self.extents[key] = self.function.push(name, INT32)
        return Number(self.extents[key], Kind(INT32))

    # -- elements and calls -------------------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript) -> Any:
        base, index = self.value(node.value), self.value(node.slice)
        if isinstance(base, tuple):
            return sliced(base, index) if isinstance(index, slice) else element(self, base, index)
        return self._entry(base, index) if isinstance(base, dict) else self.item(base, index)

    def _entry(self, base: dict[Any, Any], index: Any) -> Any:
        """What a dict from outside has under a key."""
        if not isinstance(index, (str, int)):
            raise Refused(f"keys of dicts are strings and ints, known at compile time; got {describe(index)}")
        if index not in base:
            keys = textwrap.shorten(", ".join(map(repr, base)), 200, placeholder=" …") or "none"
            raise Refused(f"the {type(base).__name__} has no key {index!r}; it has {keys}")
        return self._read(base, index, repr(index), item=True)

    def item(self, base: Any, index: Any) -> Any:
        """An element, or without the last index a row."""
        array, indices, is_row = indexed(base, index)
        return Row(array, indices) if is_row else self.load(array, self.place(array, indices))

    def assign(self, base: Any, index: Any, value: Any) -> None:
        """Writes an element, or a vector (or tuple) to a row, which is as long."""
        array, indices, is_row = indexed(base, index)
        if not is_row:
            self.store(array, self.place(array, indices), value)
            return
        if not isinstance(value, tuple):
            rule = f"{array.name} takes {array.ndim} indices; a row, with one less, takes a vector or a tuple"
            raise Refused(f"{rule}; got {describe(value)}")
        _demand_length(array, len(value))
        for k, each in enumerate(value):
            self.store(array, self.place(array, (*indices, k)), each)

    def loaded(self, row: Row, n: int) -> Vector:
        """The first elements of a row, which are to be all that it has."""
        _demand_length(row.array, n)
        return Vector([self.load(row.array, self.place(row.array, (*row.indices, k))) for k in range(n)])

    def _slice(self, node: ast.Slice) -> slice:
        return slice(*[each and self.value(each) for each in (node.lower, node.upper, node.step)])

    def place(self, array: Any, index: Any) -> Value:
        """Where the element lies that these indices name, in a row-major tensor; a constant may count from the end."""
        indices = index if isinstance(index, tuple) else (index,)
        if not isinstance(array, Array):
            remedy = "; make it a tuple" if isinstance(array, list) else ""
            raise Refused(f"only tensors, shared arrays and tuples are indexed; got {describe(array)}{remedy}")
        if len(indices) != array.ndim:
            example = f"{array.name}[{', '.join('ijklmnopq'[: array.ndim]) or '()'}]"
            raise Refused(f"{array.name} takes {array.ndim} indices, one per axis; got {len(indices)}; write {example}")
        if any(isinstance(each, slice) for each in indices):
            raise Refused("only vectors and tuples have slices; index single elements, in a for loop")
        for each, length in zip(indices, array.shape or (), strict=False):
            if isinstance(each, int) and not -length <= each < length:
                raise Refused(f"{array.name} has {length} elements along this axis; got {each}")
        along = [self._from_end(array, axis, each) for axis, each in enumerate(indices)]
        return checked(self, array, along) if self.checked and along else self.offset(array, along)

    def _from_end(self, array: Array, axis: int, index: Any) -> Any:
        """An index along an axis; a negative constant counts from the end."""
        if isinstance(index, (int, np.integer)) and index < 0:
            return self.binary("+", self.extent(array, axis), int(index))
        return index

    def offset(self, array: Array, indices: Sequence[Any]) -> Value:
        """Where the element lies, by indices that count from the start."""
        found: Any = 0
        for axis, each in enumerate(indices):
            at = self.index(each)
            if len(indices) == 1:
                return at
            at = self.builder.cast(at, INT32 if at.type in (INT32, UINT32) else INT64)
            before = self.binary("*", found, self.extent(array, axis)) if axis else 0
            found = self.binary("+", before, Number(at, Kind(at.type)))  # type: ignore[arg-type]
        return self.index(found)

    def load(self, array: Array, place: Value) -> Number:
        """An element."""
        found = access(self, place, lambda: self.builder.load(array.memory, place), array.memory.element)
        return Number(self.builder.cast(found, array.element), Kind(array.element))

    def store(self, array: Array, place: Value, value: Any) -> None:
        """Writes an element, converted as numpy's `astype` does."""
        self.mark_written(array)
        number = self.builder.cast(self.cast(value, array.element), array.memory.element)
        access(self, place, lambda: self.builder.store(array.memory, place, number))

    def mark_written(self, array: Array, *, assigned: bool = True) -> None:
        """Notes a tensor that the kernel writes, and whether it assigns to its elements or only counts in them."""
        if array.shape is None:
            self.written[array.position] = assigned or self.written.get(array.position, False)

    def _call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if function is print:
            return printed(self, node)
        args = [self.value(each) for each in node.args]
        if any(each.arg is None for each in node.keywords):
            raise Refused("not supported in kernels: unpacking with **; name each argument")
        named = {each.arg or "": self.value(each.value) for each in node.keywords}
        if isinstance(function, Callable) and function in FUNCTIONS:  # type: ignore[arg-type]
            if named and function in library.NAMED:
                return self.inline(library.NAMED[function], args, named, node)
            if named:
                raise Refused(f"{function.__name__} takes its arguments by position in kernels")
            return call(self, function, args)
        if isinstance(function, Function):  # of the compiler itself, handed to what it inlines
            return function.emit(self, *args)
        written = getattr(function, "written", None)
        if isinstance(written, Written):  # of vc.vectorize
            function = written.function
            self.sources[function] = written.source
        if isinstance(function, FunctionType):
            return self.inline(function, args, named, node)
        if isinstance(function, type) and is_named(function):
            try:
                return function(*args, **named)
            except TypeError as error:
                raise Refused(str(error).replace(".__new__", "")) from None
        known = isinstance(function, Callable) and INSTEAD.get(function)  # type: ignore[arg-type]
        remedy = known or "call Python functions, or those that vc.kernel lists"
        remedy = "it stands in 'for i in range(n):' only" if function is range else remedy
        name = ast.unparse(node.func) if hasattr(function, "__name__") else describe(function)
        raise Refused(f"{name} cannot be called in a kernel; {remedy}")


def _meant(name: str, known: Collection[str]) -> str:
    """The known name that is most like one that is not, for the end of an error's first line."""
    if name == "atomic_sub" and "atomic_add" in known:
        return "; write atomic_add of a negative number"
    adds = name.replace("_sum", "_add")
    near = [adds] if adds in known else difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def lookup_in(owner: Any, *, item: bool) -> Callable[[Any], Any]:
    """Gives what has this name as an attribute, or as an `item` of a dict: None where a plain one has it not."""
    if not item:
        return partial(getattr, owner)
    return owner.get if type(owner) is dict else owner.__getitem__


def indexed(base: Any, index: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """The array, all indices so far, and whether they name a row: all but the last one, which may be `:`."""
    indices = index if isinstance(index, tuple) else (index,)
    if isinstance(base, Row):
        base, indices = base.array, (*base.indices, *indices)
    if len(indices) > 1 and isinstance(indices[-1], slice) and indices[-1] == slice(None):
        indices = indices[:-1]
    return base, indices, isinstance(base, Array) and base.ndim == len(indices) + 1 > 1


def _demand_length(array: Array, n: int) -> None:
    if array.shape is not None and array.shape[-1] != n:
        raise Refused(f"rows of {describe(array)} have {array.shape[-1]} elements; got {n}")


def _is_plain(*nodes: ast.expr) -> bool:
    """Whether expressions may be computed although their value may not matter: no loads, calls or divisions."""
    costly = (ast.Subscript, ast.Call, ast.FloorDiv, ast.Mod, ast.Pow)
    return not any(isinstance(each, costly) for node in nodes for each in ast.walk(node))


_NODES: dict[type[ast.AST], Callable[[Expressions, Any], Any]] = {
    ast.Constant: Expressions._constant,
    ast.JoinedStr: formatted,
    ast.Name: Expressions._name,
    Walker: Expressions._walker,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Tuple: Expressions._tuple,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._bool_op,
    ast.IfExp: Expressions._if_exp,
    ast.Call: Expressions._call,
}
