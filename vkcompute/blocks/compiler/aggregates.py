"""`triton.aggregate`: structures with methods, which are named tuples of a program's values."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, ClassVar

from vkcompute.blocks.compiler.functions import ConstexprFunction
from vkcompute.blocks.compiler.types import Constexpr

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

    def __getattr__(self, name: str) -> Any:
        """Returns a field."""
        if name not in self._fields:
            raise AttributeError(name)
        return self[self._fields.index(name)]


def aggregate(cls: type) -> Any:
    """Makes a class one of structures of block programs: its annotations are the fields, its programs the methods.

    Its `__init__`, if any, runs at compile time, and assigns all fields.
    """
    annotations = [name for base in reversed(cls.__mro__) for name in inspect.get_annotations(base)]
    fields = tuple(dict.fromkeys(annotations))
    members = {name: member for base in reversed(cls.__mro__[:-1]) for name, member in vars(base).items()}
    constructor = members.pop("__init__", None)
    methods = {name: member for name, member in members.items() if callable(member) and not isinstance(member, type)}
    static = {name: member.__func__ for name, member in members.items() if isinstance(member, staticmethod)}
    body = {
        **{name: member for name, member in methods.items() if not name.startswith("__")},
        **static,
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
