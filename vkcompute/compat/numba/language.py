"""Numba's language: that of `vc.kernel` with Numba's types, names and calls."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from enum import EnumMeta, IntEnum
from functools import partial
from types import EllipsisType, FunctionType
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.compat.numba import part_functions as parts
from vkcompute.compat.numba.element_offsets import NumbaOffsets
from vkcompute.compat.numba.kernel_names import NAMES, Readable
from vkcompute.compat.numba.loops import NumbaRange, Unrolled, literal_unroll, unrolled
from vkcompute.compat.numba.member_choices import MemberChoice, MemberChoices, compared_members, is_member, value_of
from vkcompute.compat.numba.types import Number as NumberType
from vkcompute.compat.numba.types import Signature, Type, own, ufunc_loop
from vkcompute.compiled.report import escaped
from vkcompute.errors import KernelError
from vkcompute.frontend import call_stack
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.expressions import NUMBERS_AND_TEXT, attribute, constant, name
from vkcompute.frontend.language import Handler, Iterations
from vkcompute.frontend.source import is_internal
from vkcompute.frontend.statements import STATEMENTS
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT64, INT64, SCALARS, Value
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.compiler import KERNEL_EXPRESSIONS, KERNEL_STATEMENTS, SPECIAL_FORMS, Compiler
from vkcompute.jit.frontend.element_access import ElementAccess
from vkcompute.jit.frontend.element_offsets import along
from vkcompute.jit.frontend.intrinsics import Intrinsic
from vkcompute.jit.frontend.tuples import Operators
from vkcompute.jit.frontend.type_rules import KernelTypes, TypeRules
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number, fits, is_complex, is_static

NAMES[literal_unroll] = unrolled
_MOST_LEVELS = 128
"""Nested calls of a function that calls itself. Each of its variables takes as many elements of private memory."""
_OF_BOOLS = {np.minimum: "&", np.fmin: "&", np.maximum: "|", np.fmax: "|", np.absolute: "|"}
"""The operators for bools of functions of numbers: an absolute value is that of a bool and itself."""
RAISED = "\x1f"
"""Between the name of an exception and its message, in a report of the device."""


def _raise(e: Evaluator, node: ast.Raise) -> None:
    """Ends the thread; with `debug=True`, the launch raises the exception."""
    _fail(e, node.exc)


def _assert(e: Evaluator, node: ast.Assert) -> None:
    def fail() -> None:
        message = ast.unparse(node.msg) if node.msg is not None and not isinstance(node.msg, ast.Constant) else ""
        _fail(e, ast.Call(ast.Name("AssertionError"), [node.msg or ast.Constant(message)], []))

    e.flow.if_(e.value(node.test), lambda: None, fail, e.here(node))


def _fail(e: Evaluator, exception: ast.expr | None) -> None:
    """Reports an exception, and ends the thread."""
    call = exception if isinstance(exception, ast.Call) else ast.Call(exception or ast.Name("RuntimeError"), [], [])
    texts = [str(arg.value) if isinstance(arg, ast.Constant) else ast.unparse(arg) for arg in call.args]
    if e.language.offsets.check_bounds:  # type: ignore[attr-defined]
        name = ast.unparse(call.func).rpartition(".")[2]
        e.language.report(f"{name}{RAISED}{escaped(', '.join(texts))}", [], fails=True)  # type: ignore[attr-defined]
    e.flow.end()


ARRAY_ATTRIBUTES: dict[str, Callable[..., Any]] = {
    "shape": lambda c, x: tuple([c.as_int64(c.arrays.extent(x, axis)) for axis in range(x.ndim)]),
    "size": lambda c, x: c.as_int64(c.arrays.extent(x, -1)),
    "T": parts.transposed,
    "real": lambda c, x: parts.component(c, x, 0),
    "imag": lambda c, x: parts.component(c, x, 1),
    "strides": lambda c, x: tuple(
        [c.binary("*", Number(step, Kind(INT64)), x.unit or x.element.bits // 8) for step in c.steps_of(x)]
    ),
    "itemsize": lambda c, x: x.element.bits // 8,
    "nbytes": lambda c, x: c.binary("*", c.as_int64(c.arrays.extent(x, -1)), x.element.bits // 8),
}
"""Attributes of arrays in kernels -> what builds them."""
ARRAY_METHODS: dict[str, Callable[..., Any]] = {
    "ravel": lambda c, x: parts.reshaped(c, x, (-1,)),
    "flatten": lambda c, x: parts.reshaped(c, x, (-1,)),
    "reshape": lambda c, x, *shape: parts.reshaped(c, x, shape[0] if isinstance(shape[0], tuple) else shape),
    "transpose": parts.transposed,
    "copy": lambda c, x: parts.copied(c, x),
    "view": parts.retyped,
}
"""Methods of arrays in kernels -> what builds a call."""


class CooperativeError(KernelError):
    """The error of a kernel that asks for its grid, and is not compiled for that."""


def _name(e: Evaluator, node: ast.Name) -> Any:
    return _read(e, name(e, node))


def _attribute(e: Evaluator, node: ast.Attribute) -> Any:
    return _read(e, attribute(e, e.value(node.value), node))


def _read(e: Evaluator, value: Any) -> Any:
    """Returns the value in kernels of a name of the host."""
    value = own(value)
    return value.read(e.language, "") if isinstance(value, Readable) and not value.attributes else value


def _print(e: Evaluator, node: ast.Call) -> None:
    """Expands a call of print; a position, as `cuda.threadIdx`, is shown as the tuple of its numbers."""
    args = [_spread(e, arg) if isinstance(arg, (ast.Name, ast.Attribute)) else arg for arg in node.args]
    SPECIAL_FORMS[print](e, ast.copy_location(ast.Call(node.func, args, node.keywords), node))


def _spread(e: Evaluator, node: ast.expr) -> ast.expr:
    value = e.value(node)
    names = value.attributes if isinstance(value, Readable) else ()
    parts: list[ast.expr] = [ast.copy_location(ast.Attribute(node, name, ast.Load()), node) for name in names]
    return ast.copy_location(ast.Tuple(parts, ast.Load()), node) if parts else node


_STATEMENTS: Mapping[type[ast.AST], Handler] = {
    **STATEMENTS,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.For: lambda e, node: KERNEL_STATEMENTS[ast.For](e, node),  # of a library that is imported later
}
_EXPRESSIONS: Mapping[type[ast.AST], Handler] = {
    **KERNEL_EXPRESSIONS,
    ast.Constant: partial(constant, kinds=(*NUMBERS_AND_TEXT, complex, EllipsisType)),
    ast.Name: _name,
    ast.Attribute: _attribute,
}


class NumbaKernels(Compiler):
    """Numba's language, for one kernel.

    Attributes:
        kernels: the language of kernels, in which the library's own functions are written.
        dynamic_bytes: of the shared memory whose size the launch gives.
        dynamic: the first dtype that the kernel asks for there, and the memory as its array; None before.
        checks_divisors: True if a division by 0 ends the thread with ZeroDivisionError.
        is_cooperative, has_one_block: True for a kernel that asks for its grid, and for a grid in one workgroup.
        folded: the `FoldedGrid`, if several blocks run in one workgroup.
        result: the type of the number that a kernel gives to `note_result`.
        element_offsets: those of elements of arrays and of array_views.
    """

    most_recursions, freezes_globals, waits_in_branches = 4, True, True
    dynamic_bytes = 0
    checks_divisors = is_cooperative = has_one_block = False
    folded: Any = None
    result: np.dtype[Any] | None = None

    statements = _STATEMENTS
    expressions = _EXPRESSIONS
    special_forms: Mapping[Any, Handler] = ChainMap({print: _print}, SPECIAL_FORMS)

    def __init__(
        self,
        function: ir.Function,
        rules: TypeRules,
        evaluator: Evaluator | None = None,
        host: Operators | None = None,
    ) -> None:
        super().__init__(function, rules, evaluator, host, self._arrays)
        self.compare, self.binary, self.unary = self._compare, self._binary, self._unary
        self.evaluator.flow.assumes_zero = True
        self.evaluator.most_levels = _MOST_LEVELS
        choices = MemberChoices(self.choices, self.builder)
        self.kind_of_variable, self.joined, self.filler = choices.kind_of_variable, choices.joined, choices.filler
        self.packed, self.unpacked = choices.packed, choices.unpacked
        self.dynamic: tuple[np.dtype[Any], ArrayValue] | None = None
        self.kernels = Compiler(function, KernelTypes(FLOAT64), self.evaluator)
        self.kernels.report = self.report  # type: ignore[method-assign]
        self.kernels.offsets.pushed = self.offsets.pushed  # a length is one parameter in both

    def _arrays(self, c: Compiler) -> ElementAccess:
        self.element_offsets = NumbaOffsets(c)
        return ElementAccess(c, c.numbers, self.element_offsets, c.item_types)

    # -- operators ----------------------------------------------------------------------------------------------------

    def _binary(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`."""
        self._check_divisor(sign, other)
        result = self.arithmetic.binary(sign, one, other)
        return self.zero_by_zero(other, result) if sign in ("//", "%") else result

    def zero_by_zero(self, divisor: Any, result: Any) -> Any:
        """Returns a quotient or a remainder; of integers 0 for a divisor of 0, as Numba's."""
        is_whole = isinstance(result, Number) and result.kind.type.kind in "iu"
        if not is_whole or not isinstance(divisor, Number) or self.checks_divisors:
            return result
        is_zero = self.arithmetic.compare("==", divisor, 0)
        return self.arithmetic.selected(is_zero.value, result.kind.type.numpy.type(0), result)

    def _check_divisor(self, sign: str, divisor: Any) -> None:
        """Ends the thread where a divisor is 0, if these are checked."""
        if self.checks_divisors and sign in ("/", "//", "%") and isinstance(divisor, Number):
            self._end_if(self.arithmetic.compare("==", divisor, 0), "ZeroDivisionError", "division by zero")

    def _end_if(self, condition: Any, name: str, message: str) -> None:
        """Ends the thread with an exception of Python where a condition holds."""
        e = self.evaluator

        def fail() -> None:
            self.report(f"{name}{RAISED}{message}", [], fails=True)
            e.flow.end()

        e.flow.if_(condition, fail, lambda: None, e.here(e.node))

    def report(self, text: str, values: Sequence[Any], *, fails: bool = False, error: str = "") -> None:
        """Reports to the host; an exception of Python only with `debug=True`, as by CUDA."""
        if not error:
            super().report(text, values, fails=fails)
        elif self.offsets.check_bounds:
            super().report(f"{error}{RAISED}{text}", values, fails=True)

    def _compare(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`, a bool."""
        if isinstance(one, MemberChoice) or isinstance(other, MemberChoice):
            return compared_members(self, sign, one, other)
        pair = one, other
        if sign in ("is", "is not") and any(isinstance(side, IntEnum) for side in pair) and not is_static(pair):
            numbers = [int(side) if isinstance(side, IntEnum) else side for side in pair]
            return self.arithmetic.compare("==" if sign == "is" else "!=", *numbers)
        if sign in ("is", "is not") and isinstance(one, Number | bool) and isinstance(other, Number | bool):
            same = self.kind(one).type is self.kind(other).type
            return self.arithmetic.compare("==" if sign == "is" else "!=", one, other) if same else sign == "is not"
        if isinstance(one, (type, np.dtype)) and isinstance(other, (type, np.dtype, Type)):
            kinds: list[Any] = [one, other]
            first, second = [np.dtype(getattr(kind, "dtype", kind)) for kind in kinds]
            return (first == second) == (sign == "==")
        truth = self.arithmetic.compare(sign, self._beside(one, other), self._beside(other, one))
        return self._opaque(truth, one, other)

    def selected(self, truth: Value, one: Any, other: Any) -> Any:
        """Returns one of two values; one of two arrays or members as a variable that is either."""
        if isinstance(one, MemberChoice) or is_member(one):
            e = self.evaluator
            return e.flow.choose(truth, lambda: one, lambda: other, e.here(e.node))
        return super().selected(truth, one, other)

    def _opaque(self, truth: Any, *operands: Any) -> Any:
        """Returns a comparison of device values as one whose result is not constant, so that both branches are typed.

        A uint64 is always larger than -1, but Numba types the other branch, too.
        """
        if not isinstance(truth, Number) or not isinstance(truth.value, ir.Constant):
            return truth
        values = [operand.value for operand in operands if isinstance(operand, Number)]
        if not (computed := [value for value in values if not isinstance(value, ir.Constant)]):
            return truth
        sign = "eq" if truth.value.value else "ne"
        return Number(self.builder.compute(sign, computed[0], computed[0]), truth.kind)

    def _unary(self, sign: str, value: Any) -> Any:
        """Returns `sign value`; an integer gets 64 bits after the operation in its own type, as in Numba."""
        if sign in ("-", "~") and isinstance(value, np.integer):
            with np.errstate(over="ignore"):
                number = -value if sign == "-" else ~value
            return self.rules.unary(sign, value).type.numpy.type(number)
        if sign in ("-", "~") and isinstance(value, Number) and value.kind.type.kind in "iu":
            kind, b = value.kind.type, self.builder
            zero = b.const(0, kind)
            changed = b.compute("not", value.value) if sign == "~" else b.compute("sub", zero, value.value)
            return self.converted(Number(changed, Kind(kind)), self.rules.unary(sign, value).type)
        return self.arithmetic.unary(sign, value)

    def _beside(self, value: Any, other: Any) -> Any:
        """Returns an int that fits the type of the integer that it is compared with in this type."""
        if type(value) is not int or not isinstance(other, Number):
            return value
        kind = other.kind.type
        return self.converted(value, kind) if kind.kind in "iu" and fits(value, kind) else value

    # -- elements -----------------------------------------------------------------------------------------------------

    def item(self, base: Any, index: Any) -> Any:
        """Returns an element, or a view."""
        if isinstance(base, EnumMeta) and isinstance(index, str):
            return base[index]
        indices = along(index)
        if isinstance(base, ArrayValue) and array_views.is_part(base, indices) and not isinstance(index, str):
            return array_views.part(self, base, indices)
        if isinstance(base, tuple) and isinstance(index, np.integer):
            index = int(index)
        if isinstance(base, tuple) and isinstance(index, Number) and self.kind(index).type.kind == "i":
            index = self._from_the_end(index, len(base))
        return super().item(base, index)

    def _from_the_end(self, index: Number, n: int) -> Any:
        """Returns the index of one of `n` items of a tuple; a negative one counts from the end."""
        index = self.where(self.compare("<", index, 0), self.binary("+", index, n), index)
        if self.offsets.check_bounds:
            outside = self.binary("|", self.compare("<", index, 0), self.compare(">=", index, n))
            self._end_if(outside, "IndexError", "tuple index out of range")
        return index

    def update(self, base: Any, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns an element what `change` makes of it."""
        if isinstance(base, ArrayValue) and array_views.is_part(base, along(index)):
            raise UnsupportedError("an operator assigns to one element; write a for loop")
        super().update(base, index, change)

    # -- attributes ---------------------------------------------------------------------------------------------------

    def attribute(self, base: Any, name: str) -> Any:
        """Returns an attribute of a value."""
        if isinstance(base, MemberChoice) and name == "value":
            return value_of(self, base)
        if isinstance(base, ArrayValue) and name in ARRAY_ATTRIBUTES:
            return ARRAY_ATTRIBUTES[name](self, base)
        if isinstance(base, ArrayValue) and name in ARRAY_METHODS:
            method = ARRAY_METHODS[name]
            return Intrinsic(lambda c, *args: method(c, base, *args), 0, None)
        if name == "value" and isinstance(base, Number) and base.kind.type.kind == "i":
            return base  # a member of an IntEnum is its value
        if name == "bit_count" and isinstance(base, Number):
            return Intrinsic(lambda c: c.apply(NAMES["popc"], [base], {}, None), 0, 0)
        if isinstance(base, Readable) and name in base.attributes:
            return base.read(self, name)
        return super().attribute(base, name)

    def steps_of(self, array: ArrayValue) -> list[Value]:
        """Returns the distances between neighbours along the axes, in elements, as int64."""
        return [self.builder.cast(step, INT64) for step in array_views.whole(self, array).steps]

    def as_int64(self, value: Any) -> Any:
        """Returns a length as Numba has it."""
        return self.converted(value, INT64) if isinstance(value, Number) else value

    # -- functions and loops ------------------------------------------------------------------------------------------

    def apply(self, function: Any, args: list[Any], named: dict[str, Any], node: ast.Call) -> Any:
        """Returns the value of a call."""
        if isinstance(function, np.ufunc) and any(isinstance(arg, ArrayValue) for arg in args):
            return self._elementwise(function, args)
        if isinstance(function, np.ufunc) and not named and len(args) == function.nin:
            return self._by_loop(function, args, node)
        if isinstance(function, Callable) and function in NAMES:  # type: ignore[arg-type]
            return NAMES[function](self, *args, **named)
        if isinstance(function, NumberType):
            return self.as_type(args[0], function) if len(args) == 1 else self.call_intrinsic(function.dtype.type, args)
        if isinstance(function, Type):
            raise UnsupportedError(f"{function} converts no values in kernels")
        if signatures := getattr(function, "device_signatures", ()):
            return self._typed_call(self._chosen(signatures, args), function, args, named, node)
        return super().apply(function, args, named, node)

    def _chosen(self, signatures: Sequence[Signature], args: Sequence[Any]) -> Signature:
        """Returns the signature whose types the arguments have, or else the first that holds them, or the first."""
        kinds: list[Any] = [np.dtype(complex) if is_complex(arg) else None for arg in args]
        for at, arg in enumerate(args):
            if isinstance(arg, (Number, int, float, np.generic)) and kinds[at] is None:
                kinds[at] = self.kind(arg).type.numpy
        for casting in ("no", "safe"):
            for signature in signatures:
                if all(
                    kind is None or (isinstance(given, NumberType) and np.can_cast(kind, given.dtype, casting))
                    for kind, given in zip(kinds, signature.args, strict=False)
                ):
                    return signature
        declared: list[Any] = [getattr(given, "dtype", None) for given in signatures[0].args]
        pairs = zip(args, declared, strict=False)
        if any(is_complex(arg) and kind is not None and kind.kind != "c" for arg, kind in pairs):
            parameters = ", ".join(map(self.describe, args))
            raise UnsupportedError(f"Invalid use of type(CUDADispatcher) with parameters ({parameters})")
        return signatures[0]

    def _typed_call(
        self, signature: Signature, function: Any, args: list[Any], named: dict[str, Any], node: ast.Call
    ) -> Any:
        """Calls a device function with a signature: arguments and result are converted."""
        kinds = signature.args
        args = [self.as_type(arg, kind) for arg, kind in zip(args, kinds, strict=False)] + args[len(kinds) :]
        result = super().apply(function, args, named, node)
        return self.as_type(result, signature.return_type)

    def _elementwise(self, function: np.ufunc, args: list[Any]) -> Any:
        """Applies a function of elements to arrays; the last argument takes the result."""
        *operands, out = args
        if len(args) != function.nin + 1 or not isinstance(out, ArrayValue):
            rule = f"np.{function.__name__} of arrays takes an array for the result as its last argument in kernels"
            raise UnsupportedError(rule)
        definition = parts.APPLIED[len(operands), out.ndim > 1]
        self.call(definition, function, *operands, out)
        return out

    def _by_loop(self, function: np.ufunc, args: list[Any], node: ast.Call) -> Any:
        """Applies a function of elements to numbers in the types of NumPy's loop, as Numba does."""
        is_number = [isinstance(arg, (Number, bool, int, float, np.generic)) and not is_complex(arg) for arg in args]
        kinds = [self.kind(arg).type.numpy for arg in args] if all(is_number) else []
        loop = ufunc_loop(function, *kinds) if kinds and np.dtype(np.float16) not in kinds else None
        if loop is None or is_static(tuple(args)):
            return self._built(function, args, node)
        operands = [self._as_letter(arg, letter) for arg, letter in zip(args, loop[0], strict=True)]
        if loop[0].startswith("?") and function in _OF_BOOLS:
            return self.binary(_OF_BOOLS[function], operands[0], operands[-1])
        results = self._built(function, operands, node)
        if not isinstance(results, tuple):
            return self._as_letter(results, loop[1])
        return tuple([self._as_letter(result, letter) for result, letter in zip(results, loop[1], strict=True)])

    def _built(self, function: np.ufunc, args: list[Any], node: ast.Call) -> Any:
        build = NAMES.get(function)
        return super().apply(function, args, {}, node) if build is None else build(self, *args)

    def _as_letter(self, value: Any, letter: str) -> Any:
        return self.converted(value, SCALARS[np.dtype(letter).name])

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Builds the body of a function in the place of a call; internal ones are in the language of kernels."""
        language = self.kernels if is_internal(function) else self
        if function in self.evaluator.recursive:
            report = partial(self.report, values=(), fails=True)
            return call_stack.called(self.evaluator, function, args, named, node, language, report)
        return self.evaluator.inline(function, args, named, node, language)

    def as_type(self, value: Any, kind: Type) -> Any:
        """Converts a number to a type; returns other values unchanged."""
        if isinstance(kind, NumberType) and value is not None:
            if type(value) is int and kind.dtype.kind in "iu":  # NumPy's types refuse what others wrap
                return self.converted(value, SCALARS[kind.dtype.name])
            return self.call_intrinsic(kind.dtype.type, [value])
        return value

    def unrolls(self, values: Any) -> bool:
        """True for a tuple over which a loop is unrolled."""
        return isinstance(values, Unrolled) or super().unrolls(values)

    def iterations(self, node: ast.expr) -> Iterations:
        """Evaluates the range of a for loop."""
        return NumbaRange(self.numbers, self.range_arguments(node), self.element_offsets)
