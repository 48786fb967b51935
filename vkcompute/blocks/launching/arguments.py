"""Arguments of launches: their order, the grid and the options."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np

from vkcompute import dtypes
from vkcompute.blocks.compiler.types import DTYPES, Constexpr, Dtype
from vkcompute.blocks.launching.build import DIVISOR, ArrayType, IntType, TableType
from vkcompute.compiled.arguments import bound, kind_of_number, refuse_complex, remedy, suggestion
from vkcompute.compiled.composites import Forms, leaf_names
from vkcompute.ir import BOOL

N_WARPS = 4
_MOST_COMPLEX = 1 << 30
OPTIONS = (
    "num_warps", "debug", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "sanitize_overflow", "extern_libs",
    "launch_pdl", "launch_cooperative_grid", "ir_override", "waves_per_eu", "matrix_instr_nonkdim", "kpack",
    "schedule_hint",
)  # fmt: skip
"""Keywords of a launch. The first two have an effect; a cooperative grid has one program. The last are AMD's."""


class LaunchOptions(NamedTuple):
    """Options of a launch.

    Attributes:
        n_warps: invocations of a workgroup are at most 32 times as many.
        asserts: True to check the conditions of `tl.device_assert`.
        is_cooperative: True if all programs are to run at the same time.
    """

    n_warps: int = N_WARPS
    asserts: bool = False
    is_cooperative: bool = False

    def check(self, grid: Sequence[int]) -> None:
        """Raises ValueError for several programs that are to run at the same time."""
        if self.is_cooperative and prod(grid) > 1:
            raise ValueError(
                "launch_cooperative_grid=True makes all programs run at the same time, which Vulkan does not "
                f"guarantee; got a grid of {prod(grid)}; launch a second program where they wait for each other"
            )

    def named(self) -> dict[str, Any]:
        """Returns the keywords of a launch with these options."""
        given = {"num_warps": (self.n_warps, N_WARPS), "debug": (self.asserts, False)}
        return {name: value for name, (value, default) in given.items() if value != default}


DEFAULTS = LaunchOptions()


class Parameters:
    """The parameters of a program.

    Attributes:
        name: of the program, for errors.
        names: of the parameters.
        constexprs: for each, True if it is annotated as tl.constexpr.
        dtypes: for each, the dtype that it is annotated with; None for another annotation.
        forms: those of the arguments, if these parameters are for their leaves (see `of_leaves`); else None.
        has_complex: True for a program of the library's own language, which has complex numbers.
        unspecialized: for each, True if its ints are not constant if 1, and have no known divisor.

    Args:
        unspecialized: names or indices of parameters whose ints are not constant if 1, and have no known divisor.
        unaligned: names or indices of parameters whose ints have no known divisor. Others have no effect, as in Triton.
    """

    def __init__(
        self,
        name: str,
        signature: inspect.Signature,
        *,
        unspecialized: Iterable[str | int] = (),
        unaligned: Iterable[str | int] = (),
        has_complex: bool = False,
    ) -> None:
        self.has_complex = has_complex
        self.name, self._signature, self.names = name, signature, list(signature.parameters)
        given, n = {*map(self._position, unspecialized)}, len(self.names)
        self.unspecialized = [at in given for at in range(n)]
        self._unaligned = [at in given.union(map(self._position, unaligned)) for at in range(n)]
        self.constexprs = [_is_constexpr(parameter) for parameter in signature.parameters.values()]
        self.dtypes = [_dtype_of(parameter) for parameter in signature.parameters.values()]
        self.forms: Forms | None = None

    def _position(self, which: str | int) -> int | None:
        """Returns the index of a parameter; None if there is none."""
        if which in self.names:
            return self.names.index(str(which))
        if type(which) is int and -len(self.names) <= which < len(self.names):
            return which % len(self.names)
        return None

    def traits(self, at: int) -> tuple[bool, bool, bool]:
        """Returns whether a parameter is a constant, and whether its ints are not specialized, by value or divisor."""
        return self.constexprs[at], self.unspecialized[at], self._unaligned[at]

    def of_leaves(self, forms: Forms) -> Parameters:
        """Returns a parameter per leaf of the arguments, with the annotation and options of its argument."""
        names = [leaf_names(name, form) for name, form in zip(self.names, forms, strict=True)]
        owners = [at for at, leaves in enumerate(names) for _ in leaves]
        parameters = copy(self)
        parameters.forms, parameters.names = forms, list(chain(*names))
        parameters.constexprs = [self.constexprs[at] for at in owners]
        parameters.dtypes = [self.dtypes[at] for at in owners]
        parameters.unspecialized = [self.unspecialized[at] for at in owners]
        parameters._unaligned = [self._unaligned[at] for at in owners]
        return parameters

    def bound(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], LaunchOptions]:
        """Returns the arguments in the order of the parameters, and the options."""
        names = self.names[len(args) :]
        if len(args) <= len(self.names) and named.keys() == {*names}:
            return (*args, *map(named.__getitem__, names)), DEFAULTS
        options = {name: named.pop(name) for name in OPTIONS if name in named and name not in self.names}
        if options:
            return self.bound(args, named)[0], _launch_options(options)
        return bound(self.name, self._signature, args, named, OPTIONS), DEFAULTS

    def typed(
        self, args: Sequence[Any], typed: Any, elements: Mapping[int, str]
    ) -> tuple[dict[int, Any], dict[int, Any]]:
        """Returns the constants among the arguments, and the types of the others, by position.

        Args:
            typed: returns the type of an array, or of an input of a graph, and None for all else.
            elements: names of the dtypes as which the bits of arrays are taken, by position.
        """
        constants: dict[int, Any] = {}
        signature: dict[int, Any] = {}
        for at, (arg, constexpr) in enumerate(zip(args, self.constexprs, strict=True)):
            is_one = type(arg) is int and arg == 1 and self.dtypes[at] is None and not self.unspecialized[at]
            if constexpr or arg is None or isinstance(arg, Constexpr) or is_one:
                constants[at] = _constant(arg)
            else:
                kind = typed(arg)
                kind = number_type(arg, self.names[at]) if kind is None else kind
                if isinstance(kind, ArrayType):
                    self._check_complex(arg)
                dtype = self.dtypes[at]
                if dtype is not None and not isinstance(kind, (ArrayType, TableType)):
                    kind = _annotated(dtype, arg, self.names[at])
                if self._unaligned[at] and isinstance(kind, IntType):
                    kind = kind._replace(divisor=1)
                signature[at] = kind._replace(element=elements[at]) if at in elements else kind
        return constants, signature

    def _check_complex(self, array: Any) -> None:
        """Raises an error for complex numbers in a program without these, or too many."""
        if array.dtype.kind != "c":
            return
        if not self.has_complex:
            refuse_complex(array)
        if array.size >= _MOST_COMPLEX:
            raise ValueError(
                f"an array of complex numbers has fewer than {_MOST_COMPLEX} in a block program, whose offsets count "
                f"the parts in int32; got {array.size}; pass parts of it"
            )

    def is_narrow(self, at: int) -> bool:
        """True if an argument's dtype is narrower than the number that is passed: its range is checked in Python."""
        dtype = self.dtypes[at]
        return dtype is not None and dtype.primitive_bitwidth < 32

    def check_constants(self, args: Sequence[Any], changing: type | None = None) -> None:
        """Raises TypeError if a constant is mutable.

        Args:
            changing: the type of inputs of a graph, which change between runs.
        """
        for name, arg, constexpr in zip(self.names, args, self.constexprs, strict=True):
            if constexpr and type(arg) is changing:
                raise TypeError(
                    f"{name} is a tl.constexpr, and an input of a graph changes between runs; pass a number, or drop "
                    "the annotation"
                )
            if (constexpr or isinstance(arg, Constexpr)) and (part := _mutable_part(arg)) is not None:
                got, remedy = "an array", "drop the annotation"
                if not hasattr(part, "__array__"):
                    got = f"a {type(part).__name__}"
                    remedy = "pass a tuple" if isinstance(part, (list, set)) else "pass its values as arguments"
                raise TypeError(
                    f"{name} is a tl.constexpr, for whose value {self.name} is compiled; got {got}, which may change; "
                    f"{remedy}"
                )

    def grid(self, grid: Any, args: Sequence[Any]) -> tuple[int, ...]:
        """Returns a grid, of 1 to 3 axes.

        Raises:
            KeyError: it is a function of an argument that the program lacks.
            ValueError: it has other than 1 to 3 axes, or a length that is no integer from 0 on.
        """
        shape = grid(_ArgumentsByName(self.name, zip(self.names, args, strict=True))) if callable(grid) else grid
        if type(shape) is tuple and len(shape) == 1 and type(shape[0]) is int and shape[0] >= 0:
            return shape
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if not 1 <= len(sizes) <= 3 or not all(isinstance(size, (int, np.integer)) and size >= 0 for size in sizes):
            raise ValueError(f"the grid of {self.name} is 1 to 3 numbers of programs, ints from 0 on; got {shape!r}")
        sizes = tuple(map(int, sizes))
        while len(sizes) > 1 and sizes[-1] == 1:
            sizes = sizes[:-1]
        return sizes


class _ArgumentsByName(dict[str, Any]):
    """The argument of a function that returns a grid."""

    def __init__(self, program: str, pairs: Iterable[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self._program = program

    def __missing__(self, name: Any) -> Any:
        near = suggestion(name, self) if isinstance(name, str) else ""
        raise KeyError(
            f"the grid of {self._program} is a function that reads the argument {name!r}, which the program does not "
            f"have{near}; it has {', '.join(self)}"
        )


def _constant(arg: Any) -> Any:
    """Returns the value of a constant; NumPy's integers and bools become Python's."""
    value = arg.value if isinstance(arg, Constexpr) else arg
    if type(value) is tuple:
        return tuple(map(_constant, value))
    return value.item() if isinstance(value, (np.integer, np.bool_)) else value


def _mutable_part(arg: Any) -> Any:
    """Returns the first mutable part of a constant: a list, a dict or an array; None if there is none."""
    if isinstance(arg, Constexpr):
        return _mutable_part(arg.value)
    if isinstance(arg, tuple):
        return next((mutable for part in arg if (mutable := _mutable_part(part)) is not None), None)
    is_array = hasattr(arg, "__array__") and not isinstance(arg, (np.generic, type))
    return arg if is_array or getattr(arg, "__hash__", None) is None else None


def number_type(arg: Any, name: str) -> Any:
    """Returns the part of a signature for a number.

    Raises:
        TypeError: it is none.
        OverflowError: it is an int of more than 64 bits.
    """
    try:
        kind = None if isinstance(arg, (complex, np.complexfloating)) else kind_of_number(arg)
    except ValueError as error:  # more than 64 bits: Triton's class
        raise OverflowError(str(error)) from None
    if kind is int or isinstance(kind, str):
        widened: dict[Any, str] = {int: "int32", "uint32": "int64"}  # a Python int is never uint32, as in Triton
        return IntType(widened.get(kind, str(kind)), DIVISOR if arg % DIVISOR == 0 else 1)
    if kind is None and isinstance(arg, list):
        raise TypeError(
            f"a block program takes arrays, numbers and tuples of them; got a list for {name}; pass tuple({name}), an "
            "array of its numbers, or triton.PointerTable(arrays)"
        )
    if kind is None:
        got = f"an array of {arg.dtype}" if isinstance(arg, np.ndarray) else type(arg).__name__
        instead = remedy(arg, name)
        if _mutable_part(arg) is None:
            is_parameter = name.isidentifier()  # otherwise a leaf of one, as sizes[0]
            how = f"annotate it as {name}: tl.constexpr" if is_parameter else f"pass tl.constexpr({name}) in its place"
            instead = remedy(arg, name, how)
        if isinstance(arg, np.ndarray):
            is_known = arg.dtype in dtypes.BY_NUMPY
            instead = f"; pass the number, as {name}.item()" if is_known else dtypes.conversion(arg.dtype, name)
        raise TypeError(f"a block program takes arrays and numbers; got {got} for {name}{instead}")
    return kind


def _annotated(dtype: Dtype, arg: Any, name: str) -> Any:
    """Returns the part of a signature for a number whose parameter is annotated with a dtype.

    Raises:
        TypeError, ValueError: the dtype does not hold it.
    """
    changes = not isinstance(arg, (int, float, np.generic))  # an input of a graph: between runs
    scalar, arg = dtype.scalar_type, arg.value if changes else arg
    if scalar is BOOL:
        return bool
    if scalar.kind == "c":
        raise TypeError(f"{name} is annotated as tl.{dtype.long_name}; pass the parts, {name}.real and {name}.imag")
    if scalar.kind == "f":
        return dtype.long_name
    if not isinstance(arg, (int, np.integer)):
        rule = f"{name} is annotated as tl.{dtype.long_name}"
        raise TypeError(f"{rule}; got {arg!r}; pass an int, or annotate it as a float")
    least, most = np.iinfo(scalar.name).min, np.iinfo(scalar.name).max
    if not least <= arg <= most:
        raise ValueError(f"{name} is annotated as tl.{dtype.long_name}, which holds {least} to {most}; got {arg}")
    return IntType(dtype.long_name, DIVISOR if arg % DIVISOR == 0 and not changes else 1)


def _dtype_of(parameter: inspect.Parameter) -> Dtype | None:
    """Returns the dtype with which a parameter is annotated, by the object or its name, as "tl.int64"."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = DTYPES.get(annotation.strip("'\"").rpartition(".")[2])
    return annotation if isinstance(annotation, Dtype) else None


def exact_key(value: Any) -> Any:
    """Returns a key of a constant that differs for 1, 1.0 and True, and for 0.0 and -0.0, also in tuples."""
    kind = type(value)
    if isinstance(value, (float, np.floating)):
        return kind, float(value).hex()
    if isinstance(value, complex):
        return kind, exact_key(value.real), exact_key(value.imag)
    if kind is Constexpr:
        return kind, exact_key(value.value)
    return (kind, *map(exact_key, value)) if isinstance(value, tuple) else (kind, value)


def _is_constexpr(parameter: inspect.Parameter) -> bool:
    """True for a parameter annotated as tl.constexpr, by the object or its name."""
    annotation = parameter.annotation
    return annotation is Constexpr or (isinstance(annotation, str) and "constexpr" in annotation)


class _WarpsError(ValueError, AssertionError):
    """The error of a wrong `num_warps`, which is an assertion in Triton."""


def _launch_options(given: Mapping[str, Any]) -> LaunchOptions:
    """Returns the options of a launch.

    Raises:
        ValueError: the number of warps is no power of two.
    """
    n = given.get("num_warps", N_WARPS)
    if type(n) is not int or n < 1 or n & (n - 1):
        raise _WarpsError(f"num_warps must be a power of 2; got {n!r}; pass 1, 2, 4 or 8")
    return LaunchOptions(n, bool(given.get("debug")), bool(given.get("launch_cooperative_grid")))
