"""`triton.aggregate`: structures with methods, which are named tuples of a program's values."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

from vkcompute.blocks.compiler.functions import BlockFunction, ConstexprFunction
from vkcompute.blocks.compiler.types import Constexpr
from vkcompute.frontend.constants import is_named
from vkcompute.frontend.unsupported import UnsupportedError

OPERATORS = {
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "//": "__floordiv__", "%": "__mod__",
    "&": "__and__", "|": "__or__", "^": "__xor__", "<<": "__lshift__", ">>": "__rshift__", "@": "__matmul__",
}  # fmt: skip
"""Methods of structures by the operator."""


class Aggregate(tuple[Any, ...]):
    """Base of structures, whose fields are items.

    Attributes:
        methods: functions that take the structure first, by name.
    """

    _fields: tuple[str, ...] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    _constructor: Any = None
    methods: ClassVar[dict[str, Any]] = {}

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Returns a structure, of its fields or as its `__init__` assigns them.

        Raises:
            TypeError: a field has no value, or there are others.
        """
        if cls._constructor is None:
            values = {**cls._defaults, **dict(zip(cls._fields, args, strict=False)), **named}
        else:
            instance = SimpleNamespace()
            cls._constructor(instance, *args, **named)
            values = vars(instance)
        wrong = [name for name in cls._fields if name not in values] + [*values.keys() - cls._fields]
        if wrong or (cls._constructor is None and len(args) > len(cls._fields)):
            raise TypeError(f"{cls.__name__} has the fields {', '.join(cls._fields)}; each needs one value")
        return cls._make(values[name] for name in cls._fields)

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        given = [value.value if isinstance(value, Constexpr) else value for value in values]
        return tuple.__new__(cls, given)


def _member(index: int, structure: tuple[Any, ...]) -> Any:
    """Returns a field as the host sees it: numbers and texts are constants, those in tuples too."""
    return _constant(structure[index])


def _constant(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return Constexpr(value)
    if not isinstance(value, tuple) or isinstance(value, Aggregate):
        return value
    items = [_constant(item.value if isinstance(item, Constexpr) else item) for item in value]
    kind: Any = type(value)
    return kind._make(items) if is_named(kind) else tuple(items)


def replaced(structure: Any, values: dict[str, Any]) -> Any:
    """Returns a structure with other values of some fields.

    Raises:
        TypeError: it is none, or it lacks a field.
    """
    if not isinstance(structure, Aggregate):
        raise TypeError(f"aggregate_replace expects an aggregate instance; got {structure!r}; pass one of its classes")
    for name in values:
        if name not in structure._fields:
            raise TypeError(
                f"{type(structure).__name__} has no field {name!r}; it has the fields {', '.join(structure._fields)}"
            )
    kept = dict(zip(structure._fields, structure, strict=True))
    return structure._make({**kept, **values}.values())


class _Replace(BlockFunction):
    """`tl.aggregate_replace`, which is called outside of programs, too."""

    def __call__(self, obj: Any, **values: Any) -> Any:
        """Returns a structure with other values of some fields."""
        return replaced(obj, values)


def _replaced(c: Any, obj: Any, **values: Any) -> Any:
    """A structure with other values of some fields."""
    try:
        return replaced(obj, values)
    except TypeError as error:
        raise UnsupportedError(str(error)) from None


_replaced.__name__ = "aggregate_replace"
aggregate_replace = _Replace(_replaced)


def _parts(base: Any) -> tuple[list[str], dict[str, Any]]:
    """Returns the fields of a class, and its members by name."""
    if not issubclass(base, Aggregate) or "_fields" not in vars(base):
        return [*inspect.get_annotations(base)], dict(vars(base))
    public = {name: member for name, member in vars(base).items() if callable(member) and name[:1] != "_"}
    static = {name: staticmethod(member) for name, member in public.items() if name not in base.methods}
    constructor = {} if base._constructor is None else {"__init__": base._constructor}
    return [*base._fields], {**base.methods, **static, **base._defaults, **constructor}


def aggregate(cls: type) -> Any:
    """Makes a class one of structures of block programs: its annotations are the fields, its programs the methods.

    Its `__init__`, if any, runs at compile time, and assigns all fields. It may inherit from other structures.

    Raises:
        TypeError: it inherits from a class that is none.
    """
    bases = [base for base in reversed(cls.__mro__) if base not in (object, tuple, Aggregate)]
    plain = [base.__name__ for base in bases[:-1] if not issubclass(base, Aggregate)]
    if plain:
        raise TypeError(
            f"Aggregates can only inherit from other aggregates; got {', '.join(plain)}; decorate it by "
            "triton.aggregate"
        )
    parts = [_parts(base) for base in bases]
    fields = tuple(dict.fromkeys(name for names, _ in parts for name in names))
    members = {name: member for _, own in parts for name, member in own.items()}
    constructor = members.pop("__init__", None)
    methods = {name: member for name, member in members.items() if callable(member) and not isinstance(member, type)}
    static = {name: member.__func__ for name, member in members.items() if isinstance(member, staticmethod)}
    body = {
        **{name: member for name, member in methods.items() if not name.startswith("__")},
        **static,
        **{name: property(partial(_member, at)) for at, name in enumerate(fields)},
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__triton_aggregate__": True,
        "_fields": fields,
        "_defaults": {name: members[name] for name in fields if name in members},
        "_constructor": staticmethod(constructor.fn if isinstance(constructor, ConstexprFunction) else constructor)
        if constructor is not None
        else None,
        "methods": {name: member for name, member in methods.items() if not isinstance(member, staticmethod)},
    }
    return type(cls.__name__, (Aggregate,), body)
