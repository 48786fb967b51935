"""The compiler of block programs: that of kernels in Python, with blocks and pointers among its values."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import partial, reduce
from types import FunctionType
from typing import Any

from vkcompute import ir, tile
from vkcompute.blocks.compiler import complex_blocks
from vkcompute.blocks.compiler.aggregates import OPERATORS, Aggregate
from vkcompute.blocks.compiler.arithmetic import BlockArithmetic, List, describe, describe_dynamic, is_sequence
from vkcompute.blocks.compiler.block_attributes import Method, attribute_of
from vkcompute.blocks.compiler.block_loops import comprehension, f_string, for_loop, iterations, not_iterated
from vkcompute.blocks.compiler.block_statements import BLOCK_STATEMENTS, Condition, condition
from vkcompute.blocks.compiler.functions import (
    OWN,
    STATEMENTS,
    BlockFunction,
    ConstexprFunction,
)
from vkcompute.blocks.compiler.pointer_choice import sources_of
from vkcompute.blocks.compiler.refusals import (
    demand_truths,
    has_rest,
    is_library,
    is_users,
    refuse_condition,
    refuse_constant,
    refuse_global,
    refuse_mixed,
    refuse_name,
    refuse_noinline_blocks,
    refuse_variable,
    text_of_mismatch,
    without_refused,
)
from vkcompute.blocks.compiler.types import (
    TYPES,
    BlockPointer,
    BlockType,
    Constexpr,
    ConstexprType,
    Descriptor,
    DescriptorType,
    Pointer,
    PointerType,
    TupleType,
)
from vkcompute.errors import KernelError
from vkcompute.frontend.desugaring import BUILTIN
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.expressions import EXPRESSIONS, NOT_PYTHON, NUMBERS_AND_TEXT, call_python, constant, subscript
from vkcompute.frontend.expressions import name as name_of
from vkcompute.frontend.language import Handler, Iterations
from vkcompute.frontend.source import Definition
from vkcompute.frontend.syntax import UNSUPPORTED
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, Scalar, Value
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.context import CompilerContext
from vkcompute.jit.frontend.intrinsics import folded
from vkcompute.jit.frontend.type_rules import KernelTypes
from vkcompute.jit.frontend.values import ArrayValue, Complex, Number, fits, is_static


class BlockCompiler(CompilerContext):
    """Compiles block programs.

    Attributes:
        kernels: the language of kernels, whose rules for variables, constants and arguments are also those of blocks.
        arithmetic: has the operators.
        divisors: powers of two that divide integer arguments.
        bounds: the least and the greatest value of integer arguments, as far as the program states them.
        asserts: False where assertions are removed.
        combination: the function of a reduction or scan that is being built.
        declared: functions, and their variables that are annotated as tl.constexpr before they are assigned.
        has_complex: True for a program of the library's own language, which has complex numbers.
    """

    programs = "block programs"
    most_recursions = 32
    special_forms: Mapping[Any, Handler] = {}
    builder: tile.Builder

    def __init__(self, function: ir.Function) -> None:
        super().__init__(function, Evaluator(self, tile.Builder(function)))
        self._hold_kernels(Compiler(function, KernelTypes(FLOAT32), self.evaluator, self))
        self._hold_operators(BlockArithmetic(self.builder, self.kernels))
        self.check_bounds = False
        self.asserts, self.has_complex = True, False
        self.combination: Any = None  # a `Combination`
        self.declared = set[tuple[FunctionType, str]]()
        self.divisors: dict[ir.Value, int] = {}
        self.bounds: dict[ir.Value, Any] = {}  # an `Interval`
        self.expressions, self.statements = _EXPRESSIONS, _STATEMENTS

    def _hold_kernels(self, kernels: Compiler) -> None:
        self.kernels = kernels
        self.kind, self.kind_of_variable, self.kind_at_loop = (
            kernels.kind,
            kernels.kind_of_variable,
            kernels.kind_at_loop,
        )
        self.unpacked, self.filler, self.is_same = kernels.unpacked, kernels.filler, kernels.is_same
        self.state, self.restore = kernels.state, kernels.restore
        self.known, self.where, self.accumulated = kernels.known, kernels.where, kernels.accumulated
        self.items, self.item, self.assign, self.update = kernels.items, kernels.item, kernels.assign, kernels.update
        self.attribute = kernels.attribute
        self.table, self.define, self.parameter = kernels.table, kernels.define, kernels.offsets.parameter
        self.written, self.extents = kernels.arrays.written, kernels.offsets.pushed

    def _hold_operators(self, arithmetic: BlockArithmetic) -> None:
        self.arithmetic = arithmetic
        self.element_type, self.shape, self.number = arithmetic.element_type, arithmetic.shape, arithmetic.number
        self.cast, self.alike = arithmetic.cast, arithmetic.alike
        self.common_shape, self.spread, self.is_block = arithmetic.common_shape, arithmetic.spread, arithmetic.is_block
        self.packed = arithmetic.packed
        self.common_type, self.to_common_type = arithmetic.common_type, arithmetic.to_common_type
        self.as_offset, self.offset_type = arithmetic.as_offset, arithmetic.offset_type
        self.demand_kind = arithmetic.demand_kind

    def describe(self, value: Any) -> str:
        """Describes a value or its type."""
        return describe(value)

    def suggestion(self, name: str) -> str:
        """Returns "; write …" with our word for another system's, or nothing."""
        return self.kernels.suggestion(name)

    def is_users(self) -> bool:
        """True in a function of users, which has Triton's restrictions; those of the library may do more."""
        return is_users(self.evaluator.frames[-1])

    def assigned(self, name: str, value: Any) -> Any:
        """Returns the value that a variable takes: a number of the device for a constant, unless it is annotated."""
        refuse_constant(self.evaluator, name)
        if " " in name or (self.evaluator.frames[-1].function, name) in self.declared:  # " ": of a rewritten statement
            return value
        refuse_variable(self.evaluator, name, value)
        return self.as_tensor(value)

    mismatch = staticmethod(text_of_mismatch)

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the type of a variable that has either type, depending on the path taken."""
        refuse_mixed(self.evaluator, one, other)
        return self.arithmetic.joined(one, other)

    def selected(self, truth: Value, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        refuse_mixed(self.evaluator, self.kind_of_variable(one), self.kind_of_variable(other))
        return self.arithmetic.selected(truth, one, other)

    def element(self, values: tuple[Any, ...], index: Any) -> Any:
        """Returns an item of a tuple."""
        if isinstance(index, Number) and self.is_users() and not has_rest(self.evaluator):
            raise UnsupportedError(
                f"a tuple is indexed by constants; got {describe_dynamic(index)}; use tl.where, or tl.static_range"
            )
        return self.arithmetic.element(values, index)

    def truth(self, value: Any) -> Value | bool:
        """Returns the truth of a condition: a device value, or a constant."""
        refuse_condition(self.evaluator, value)
        return self.arithmetic.truth(value)

    def connected(self, is_and: bool, first: Any, second: Callable[[], Any], where: Any, *, is_cheap: bool) -> Any:
        """Builds `first and second()` or `first or second()`."""
        if not isinstance(first, Number):
            truth = self.arithmetic.truth(first)  # not `self.truth`: an operand may be any constant
            return second() if truth == is_and else first

        def checked() -> Any:
            operand = second()
            demand_truths(self.evaluator, "and" if is_and else "or", first, operand)
            return operand

        return self.arithmetic.connected(is_and, first, checked, where, is_cheap=is_cheap)

    def as_tensor(self, value: Any) -> Any:
        """Returns what Triton takes for a constant of a program of users: a number of its type."""
        return self.arithmetic.as_tensor(value) if self.is_users() else value

    def wrapped(self, value: Any, element: Scalar) -> Value:
        """Converts a scalar or block to the type of elements in memory; an int constant wraps."""
        return self.arithmetic.wrapped(self.as_tensor(value) if type(value) is float else value, element)

    def mark_written(self, array: ArrayValue, *, assigned: bool = True) -> None:
        """Notes that the program writes an array, which is not annotated as tl.const."""
        read_only = self.arithmetic.pointer_choices.read_only
        if any(source.position in read_only for source in sources_of(array)):
            raise UnsupportedError(
                f"Cannot store to a constant pointer: {array.name} is a tl.const, through which nothing is written; "
                "drop the annotation"
            )
        self.arithmetic.mark_written(array, assigned=assigned)

    def _literal(self, node: ast.Constant) -> Any:
        """Returns a number or text."""
        return constant(self.evaluator, node, (*NUMBERS_AND_TEXT, *[complex] * self.has_complex))

    def _list(self, node: ast.List) -> tuple[Any, ...]:
        """Returns a list, as a tuple."""
        return List([item for elt in node.elts for item in self.evaluator.unpacked(elt)])

    # -- attributes and subscripts ------------------------------------------------------------------------------------

    def _block_subscript(self, node: ast.Subscript) -> Any:
        base = self.evaluator.value(node.value)
        if isinstance(base, Complex):
            entries = self.evaluator.value(node.slice)
            return Complex([self._with_axes(part, entries, "a block", "use masks and tl.where") for part in base])
        if isinstance(base, Number):
            return self._with_axes(base, self.evaluator.value(node.slice), "a block", "use masks and tl.where")
        if isinstance(base, Pointer):
            offset = self.number(self.cast(base.offset or 0, self.offset_type(base.offset)))
            remedy = "write tl.load(pointer + offsets)"
            return base._replace(
                offset=self._with_axes(offset, self.evaluator.value(node.slice), "a block of pointers", remedy)
            )
        if isinstance(base, tuple) and not is_sequence(base):
            remedy = "; write x.load(offsets)" if isinstance(base, Descriptor) else ""
            raise UnsupportedError(f"{describe(base)} has no elements{remedy}")
        return subscript(self.evaluator, base, node)

    def _with_axes(self, base: Number, index: Any, what: str, remedy: str) -> Number:
        """Inserts axes of length 1 where the index has None."""
        entries, shape = index if isinstance(index, tuple) else (index,), list(self.shape(base))
        lengths: list[int] = []
        for at, entry in enumerate(entries):
            if entry is None:
                lengths.append(1)
            elif isinstance(entry, slice) and entry == slice(None) and (shape or None not in entries[at:]):
                lengths += [shape.pop(0)] if shape else []  # as in Triton, more colons than axes may follow
            else:
                raise UnsupportedError(
                    f"unsupported tensor index: {what} takes : and None in brackets; got {describe(entry)}; {remedy}"
                )
        return self.number(self.builder.reshape(self.as_block(base), (*lengths, *shape)))

    def as_block(self, base: Number) -> Any:
        return base.value if self.shape(base) else self.builder.full(base.value, (1,))

    # -- calls --------------------------------------------------------------------------------------------------------

    def apply(self, function: Any, args: list[Any], named: dict[str, Any], node: ast.Call) -> Any:
        """Returns the value of a call: of a function of the language, of Python on constants, or one to inline."""
        function = STATEMENTS["print"] if function is print else function
        if isinstance(function, Method):
            args, function = [function.owner, *args], function.function
        if isinstance(function, (FunctionType, type)):
            function = OWN.get(function, function)
        if isinstance(function, BlockFunction):
            with self.builder.at(_Location(self.evaluator, node)):
                return function.expand(self, args, named)
        if isinstance(function, ConstexprFunction):
            return self._at_compile_time(function, args, named)
        if isinstance(getattr(function, "__self__", None), TYPES) or function in _TYPES:
            return function(*args, **named)
        refuse_noinline_blocks(function, args, named, self.shape)
        result = call_python(self.evaluator, function, args, named, node)
        if result is not NOT_PYTHON:
            return result
        if function is Constexpr and len(args) == 1 and is_static(args[0]):
            return args[0]
        if function in (getattr, hasattr, isinstance) and not named:
            return self._introspected(function, args)
        return self._python(function, args, named, ast.unparse(node.func))

    def iterations(self, node: ast.expr) -> Iterations:
        """Evaluates the range of a for loop."""
        return iterations(self, node)

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Builds the body of a function in the place of a call, and returns its value."""
        return self.evaluator.inline(function, args, named, node, self)

    def binary(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`, by the method of a structure if it has one."""
        method = one.methods.get(OPERATORS.get(sign, "")) if isinstance(one, Aggregate) else None
        if complex_blocks.is_operand(one, other):
            return complex_blocks.binary(self, sign, one, other)
        return self.arithmetic.binary(sign, one, other) if method is None else self.called(method, [one, other])

    def compare(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`. Beside a block, a constant has the type of a variable if that may be wider."""
        if sign not in ("is", "is not") and complex_blocks.is_operand(one, other):
            return complex_blocks.binary(self, sign, one, other)
        if is_sequence(one) and is_sequence(other) and sign not in ("==", "!=") and self.is_users():
            raise UnsupportedError(f"tuples are compared by == and !=; got {sign}; compare their items")
        for typed, plain in ((one, other), (other, one)):
            if isinstance(typed, Number) and type(plain) in (int, float):
                kind = self.element_type(typed)
                if type(plain) is float or kind.kind not in "iu" or not fits(plain, kind):
                    one, other = (self.as_tensor(operand) for operand in (one, other))
                break
        return self.arithmetic.compare(sign, one, other)

    def unary(self, sign: str, value: Any) -> Any:
        """Returns `sign value`. In programs of users, the negative of a float is that of Triton: 0 - x."""
        if isinstance(value, Complex) and sign != "not":
            return complex_blocks.unary(self, sign, value)
        is_float = isinstance(value, Number) and self.element_type(value).kind == "f"
        if sign == "-" and is_float and self.is_users():
            return self.binary("-", 0.0, value)
        if sign == "not" and isinstance(value, Number):
            demand_truths(self.evaluator, sign, value)
        elif sign == "not" and (isinstance(value, (float, str)) or is_sequence(value)):
            return not value  # which no condition is
        if sign == "+" and isinstance(value, Number) and self.is_users():
            raise UnsupportedError("block programs have no + of one value; leave it out")
        return self.arithmetic.unary(sign, value)

    def _at_compile_time(self, function: ConstexprFunction, args: list[Any], named: dict[str, Any]) -> Any:
        """Calls a function of constants."""
        for arg in (*args, *named.values()):
            if not is_static(arg):
                instead = "; write tl.cdiv" if function.__name__ == "cdiv" else ""
                rule = f"{function.__name__} is computed at compile time, from constants"
                raise UnsupportedError(f"{rule}; got {describe_dynamic(arg)}{instead}")
        result = function.called_with(args, named)
        return folded(lambda: result.value if isinstance(result, Constexpr) else result, [])

    def _introspected(self, function: Any, args: list[Any]) -> Any:
        """Calls getattr, hasattr or isinstance at compile time."""
        value, what, *default = args
        if function is isinstance:
            kind = Number if isinstance(value, Number) else type(value)
            return any(type_ is kind for type_ in (what if isinstance(what, tuple) else (what,)))
        node = ast.copy_location(ast.Attribute(_Known(value), str(what), ast.Load()), self.evaluator.node)
        ast.copy_location(node.value, self.evaluator.node)
        try:
            attribute = self.evaluator.value(node)
        except (KernelError, UnsupportedError):
            if function is hasattr:
                return False
            if default:
                return default[0]
            raise
        return True if function is hasattr else attribute

    def called(self, function: Any, args: list[Any]) -> Any:
        """Calls a function of the block language or of a program, at the place of the current call."""
        if isinstance(function, BlockFunction):
            return function.expand(self, args, {})
        definition = getattr(function, "definition", None)
        if isinstance(definition, Definition):
            self.evaluator.sources[definition.function] = definition.source
            function = definition.function
        if not isinstance(function, FunctionType):
            name = getattr(function, "__name__", None) or describe(function)
            raise UnsupportedError(
                f"elements are combined by a function made by triton.jit; got {name}; write one of its arguments, as "
                "def larger(a, b): return tl.maximum(a, b)"
            )
        return self.inline(function, args, {}, self.evaluator.node)

    def _python(self, function: Any, args: list[Any], named: dict[str, Any], name: str) -> Any:
        """Calls a function of Python on constants; min and max take scalars and blocks, too."""
        if function in (min, max) and len(args) > 1 and not is_static(tuple(args)):
            extreme = STATEMENTS[function.__name__]
            return reduce(lambda one, other: extreme.expand(self, [one, other], named), args)
        if function is len and name.startswith(BUILTIN) and not is_sequence(args[0]):  # a loop over it
            raise not_iterated(self, args[0])
        if function in (len, tuple, list) and len(args) == 1 and not named:
            return self._of_tuple(function, args[0])
        if function in (min, max) and len(args) == 1 and self.is_users():
            raise UnsupportedError(f"{name} takes at least 2 values; got 1; write {name}(x[0], x[1])")
        if function in _CONSTANT_FUNCTIONS and is_static(tuple(args)) and not named:
            if function in (min, max) and any(isinstance(arg, float) and math.isnan(arg) for arg in args):
                raise UnsupportedError(f"{name} of constants takes no NaN; got {', '.join(map(describe, args))}")
            return folded(function, args)
        if function in _CONSTANT_FUNCTIONS:
            raise UnsupportedError(f"{name} takes constants in block programs; use functions of tl and x.to(dtype)")
        raise UnsupportedError(
            f"{name} cannot be called in a block program; call functions of tl, those made by triton.jit, and "
            "functions written in Python"
        )

    def _of_tuple(self, function: Any, value: Any) -> Any:
        """Calls len, tuple or list, whose result is a tuple, too."""
        if not is_sequence(value) and not (function is len and isinstance(value, str)):
            raise UnsupportedError(
                f"{function.__name__} takes a tuple; got {describe(value)}; the lengths of a block are x.shape"
            )
        return len(value) if function is len else (List if function is list else tuple)(value)

    # -- statements ---------------------------------------------------------------------------------------------------

    def unsupported(self, node: ast.AST) -> str:
        """Describes syntax that block programs lack, with a remedy."""
        return _UNSUPPORTED.get(type(node), type(node).__name__)

    def demand_assignable(self, base: Any, text: Callable[[], str]) -> None:
        """Raises UnsupportedError: no value of a program has elements to assign."""
        name = text()
        remedy = f"assign {name} as a whole"
        if isinstance(base, Descriptor):
            remedy = f"write {name}.store(offsets, value)"
        elif isinstance(base, (Pointer, BlockPointer)):
            remedy = f"write tl.store({name if isinstance(base, BlockPointer) else f'{name} + offsets'}, value)"
        elif self.is_block(base):
            remedy = f"write {name} = tl.where(condition, value, {name})"
        elif is_sequence(base):
            remedy = f"make another {'list' if isinstance(base, List) else 'tuple'}"
        raise UnsupportedError(f"the elements of {describe(base)} cannot be assigned; {remedy}")

    def annotated(self, node: ast.AnnAssign, kind: Any, value: Any) -> Any:
        """Returns the value of an annotated variable. As in Triton, one annotated as tl.constexpr may change."""
        return value

    def _assert(self, node: ast.Assert) -> None:
        values = [self.evaluator.value(expression) for expression in (node.test, node.msg) if expression is not None]
        with self.builder.at(_Location(self.evaluator, node)):
            STATEMENTS["assert"].expand(self, values, {})


class _Known(ast.expr):
    """An expression whose value is known."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _Location:
    """A location in the source, whose error is made only if it is needed."""

    def __init__(self, evaluator: Evaluator, node: ast.AST) -> None:
        self._evaluator, self._node, self._frames = evaluator, node, list(evaluator.frames)

    def __str__(self) -> str:
        """The error at this place, with "\\0" for its message."""
        evaluator = self._evaluator
        before, evaluator.frames = evaluator.frames, self._frames
        try:
            return str(evaluator.error(self._node, "\0"))
        finally:
            evaluator.frames = before


_TYPES = PointerType, BlockType, ConstexprType, TupleType, DescriptorType
_UNSUPPORTED = UNSUPPORTED | {ast.Raise: "raise; write assert condition, text"}
_CONSTANT_FUNCTIONS = [min, max, abs, int, float, bool, str, len, round, pow, math.log, math.log2, math.sqrt, math.ceil]


def _plain(handler: Callable[[Evaluator, Any], Any], e: Evaluator, node: Any) -> Any:
    """Returns the value of an expression; the constant of a constexpr, or the function of Python that it decorates."""
    value = handler(e, node)
    if isinstance(value, Constexpr) and isinstance(value.value, FunctionType) and not is_library(value.value):
        return ConstexprFunction(value.value, wrap=Constexpr)
    return value.value if isinstance(value, Constexpr) else value


def _name(e: Evaluator, node: ast.Name) -> Any:
    """Returns the value of a name; of one from outside of the program only if it is a constexpr."""
    value = name_of(e, node)
    refuse_name(e, node.id, value)
    refuse_global(e, node.id, value)
    return value


def _own(method: Callable[[BlockCompiler, Any], Any]) -> Callable[[Evaluator, Any], Any]:
    """Makes a function of the evaluator and a node from a method of the language."""
    return lambda e, node: method(e.language, node)  # type: ignore[arg-type]


_OWN_EXPRESSIONS: dict[type[ast.AST], Callable[[BlockCompiler, Any], Any]] = {
    ast.Attribute: attribute_of,
    ast.Constant: BlockCompiler._literal,
    ast.Subscript: BlockCompiler._block_subscript,
    ast.List: BlockCompiler._list,
    ast.ListComp: comprehension,
    ast.GeneratorExp: comprehension,
    ast.JoinedStr: f_string,
    Condition: condition,
    _Known: lambda _, node: node.value,
}
_HANDLERS = {**EXPRESSIONS, ast.Name: _name, **{kind: _own(method) for kind, method in _OWN_EXPRESSIONS.items()}}
_EXPRESSIONS = {kind: partial(_plain, handler) for kind, handler in without_refused(_HANDLERS).items()}
_STATEMENTS: dict[type[ast.AST], Callable[[Evaluator, Any], Any]] = {
    **BLOCK_STATEMENTS,
    ast.Assert: _own(BlockCompiler._assert),
    ast.For: _own(for_loop),
}
_STATEMENTS = without_refused(_STATEMENTS)
