"""Annotations of parameters, as in `def saxpy(x: vc.float32[:], a: vc.float32)`, and the conversion of arguments."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, NoneType, UnionType
from typing import Any, ClassVar

import numpy as np

from vkcompute import dtypes
from vkcompute.compiled.composites import Forms, leaf_names
from vkcompute.frontend.source import unevaluated

_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_KINDS = ("a bool", "an integer", "a float", "a complex number")


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Arrays of a dtype and a number of axes."""

    dtype: np.dtype[Any]
    ndim: int

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(':' * self.ndim) or '()'}]"

    def __or__(self, other: None) -> OptionalType:
        return OptionalType(self) if other is None else NotImplemented

    __ror__ = __or__


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A type or None: `float32[:] | None`."""

    kind: Any


class ScalarType(type):
    """A scalar type that equals and acts as numpy's, and also makes array types: `float32[:, :]`."""

    dtype: ClassVar[np.dtype[Any]]

    def __call__(cls, *args: Any) -> Any:
        return cls.dtype.type(*args)

    def __getitem__(cls, axes: Any) -> ArrayType:
        given = axes if isinstance(axes, tuple) else (axes,)
        if not all(axis == slice(None) for axis in given):
            raise TypeError(f"an array type is {cls.__name__}[:] or [:, :] and so on, [()] without axes; got {axes!r}")
        return ArrayType(cls.dtype, len(given))

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return True if other is cls or other is cls.dtype.type else NotImplemented

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __repr__(cls) -> str:
        return f"vkcompute.{cls.__name__}"


def _scalars(*names: str) -> list[Any]:
    return [
        ScalarType(name, (), {"dtype": dtypes.as_dtype(name.rstrip("_")), "__module__": __name__}) for name in names
    ]


int8, int16, int32, int64 = _scalars("int8", "int16", "int32", "int64")
uint8, uint16, uint32, uint64 = _scalars("uint8", "uint16", "uint32", "uint64")
float16, float32, float64 = _scalars("float16", "float32", "float64")
complex64, complex128 = _scalars("complex64", "complex128")
bfloat16, float8_e4m3fn, float8_e5m2 = _scalars("bfloat16", "float8_e4m3fn", "float8_e5m2")
float8_e4m3fnuz, float8_e5m2fnuz = _scalars("float8_e4m3fnuz", "float8_e5m2fnuz")
(bool_,) = _scalars("bool_")
EXACT = frozenset({float, *(np.dtype(name).type for name in "int32 int64 uint32 uint64 float32 float64".split())})
"""Types whose push constants take any value that `struct` converts, and reject others."""


def annotations_of(function: FunctionType) -> dict[int, Any]:
    """Returns parameter position -> type: an ArrayType, a scalar type of numpy, int, float or bool, or an OptionalType.

    Other annotations are ignored, and so are strings with names that do not exist when the kernel runs.
    """
    code, cells = function.__code__, function.__closure__ or ()
    outer = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True) if _is_set(cell)}
    given = inspect.get_annotations(function, **unevaluated("format"))
    names = code.co_varnames[: code.co_argcount]
    types = {
        position: _type(_evaluated(given[name], function, outer))
        for position, name in enumerate(names)
        if name in given
    }
    return {position: kind for position, kind in types.items() if kind is not None}


def _evaluated(annotation: Any, function: FunctionType, outer: dict[str, Any]) -> Any:
    """Returns the value of an annotation that is a string; the string where a name does not exist."""
    if isinstance(annotation, str):
        with contextlib.suppress(NameError, AttributeError, SyntaxError):
            return eval(annotation, function.__globals__, outer)  # as inspect.get_annotations evaluates all at once
    return annotation


def annotated_signature(function: FunctionType) -> tuple[Any, ...]:
    """Returns the signature (`build.Signature`) that the annotations give.

    Raises:
        TypeError: a parameter has no annotation of its type.
    """
    types, code = annotations_of(function), function.__code__
    names = code.co_varnames[: code.co_argcount]
    if missing := [name for position, name in enumerate(names) if position not in types]:
        raise TypeError(
            f"without arguments, {function.__name__} is compiled for the types of its annotations; annotate "
            f"{', '.join(missing)}, as {missing[0]}: vc.float32[:] for an array, {missing[0]}: vc.float32 for a number"
        )
    kinds = [kind.kind if isinstance(kind, OptionalType) else kind for _, kind in sorted(types.items())]
    return tuple([(kind.dtype.char, kind.ndim) if isinstance(kind, ArrayType) else kind for kind in kinds])


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _type(annotation: Any) -> Any:
    if isinstance(annotation, UnionType):
        kinds = [_type(member) for member in annotation.__args__ if member is not NoneType]
        return OptionalType(kinds[0]) if len(kinds) == 1 and len(annotation.__args__) == 2 and kinds[0] else None
    if isinstance(annotation, (ArrayType, OptionalType)) or any(
        annotation is scalar for scalar in (int, float, bool, complex)
    ):
        return annotation
    if isinstance(annotation, type) and (isinstance(annotation, ScalarType) or issubclass(annotation, np.generic)):
        kind = dtypes.as_dtype(annotation)
        return kind.type if dtypes.is_known(kind) else None
    return None


def annotations_of_leaves(name: str, names: Sequence[str], kinds: Mapping[int, Any], forms: Forms) -> dict[int, Any]:
    """Returns the types of leaves by position, for those of parameters.

    Raises:
        TypeError: a composite argument for an array or a number.
    """
    types, first = {}, 0
    for at, form in enumerate(forms):
        if at in kinds and form is not None:
            kind = kinds[at].kind if isinstance(kinds[at], OptionalType) else kinds[at]
            rule = f"{name}: {names[at]} is annotated as {getattr(kind, '__name__', kind)}; got a {form.kind.__name__}"
            raise TypeError(f"{rule}; pass such a value, or change the annotation")
        if at in kinds:
            types[first] = kinds[at]
        first += len(leaf_names("", form))
    return types


def typed(name: str, names: Sequence[str], kinds: Mapping[int, Any], args: Sequence[Any]) -> list[Any]:
    """Converts annotated arguments to their types; raises as `converted`.

    Args:
        name, names: those of the function and of the arguments, for errors.
    """
    values = list(args)
    for n, annotated in kinds.items():
        kind = annotated.kind if isinstance(annotated, OptionalType) else annotated
        if args[n] is None and kind is annotated:
            rule = f"{name}: {names[n]} is annotated as {getattr(kind, '__name__', kind)}; got None"
            raise TypeError(f"{rule}; pass a value, or annotate it with | None")
        values[n] = converted(f"{name}: {names[n]}", kind, args[n])
    return values


def _letter(number: complex) -> str:
    """Returns numpy's letter for the kind of a Python number."""
    return next(
        letter for kind, letter in ((bool, "b"), (int, "i"), (float, "f"), (complex, "c")) if isinstance(number, kind)
    )


def converted(name: str, kind: Any, arg: Any) -> Any:
    """Converts a number or array to the type of its parameter; returns other objects unchanged.

    Raises:
        TypeError: an array for a number, or the reverse; an array of another dtype or number of axes; a float for an
            integer; a number for a bool.
        ValueError: an integer outside of the range of the type.
    """
    is_number = isinstance(arg, (bool, int, float, complex, np.generic))
    if not is_number and not hasattr(arg, "dtype"):
        return arg
    got = f"{arg!r}" if is_number else f"{ArrayType(arg.dtype, len(arg.shape))}"
    if isinstance(kind, ArrayType):
        if is_number or arg.dtype != kind.dtype or len(arg.shape) != kind.ndim:
            raise TypeError(f"{name} is annotated as {kind}; got {got}; pass such an array, or change the annotation")
        return arg
    target = dtypes.as_dtype(kind)
    word = arg.dtype.kind if hasattr(arg, "dtype") else _letter(arg)
    if not is_number or word not in _RANKS:
        raise TypeError(f"{name} is annotated as a number, {kind.__name__}; got {got}; pass a number")
    ranks = _RANKS[word], _RANKS[target.kind]
    if ranks[0] > ranks[1]:
        raise TypeError(f"{name} is annotated as {_KINDS[ranks[1]]}, {kind.__name__}; got {got}; convert it before")
    if kind is not int and ranks[1] == 1 and not np.iinfo(target).min <= arg <= np.iinfo(target).max:
        raise ValueError(
            f"{name} is annotated as {kind.__name__}, whose range does not include {got}; use a wider type"
        )
    return kind(arg)
