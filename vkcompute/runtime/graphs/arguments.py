"""Arguments of a graphed function: the arrays in them, and a key for all that a recording depends on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.dtypes import type_code
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context, mixed_runtimes
from vkcompute.runtime.scheduling.access_history import Range

_NUMBERS = (bool, int, float, complex)


class Arguments(NamedTuple):
    """The arrays of a call, and the rest of it.

    Attributes:
        key: equal keys mean arguments of the same structure, layouts and constants.
        arrays: in the order of the arguments.
    """

    key: tuple[Any, ...]
    arrays: list[Array]

    @classmethod
    def of(cls, name: str, args: Sequence[Any], named: dict[str, Any]) -> Arguments:
        """Returns the arguments of a call.

        Raises:
            TypeError: one is neither a device array, nor hashable, nor a tuple, list, dict or dataclass of such.
        """
        arrays: list[Array] = []
        key: list[Any] = []
        for number, value in enumerate(args):
            if type(value) is Array:
                arrays.append(value)
                key.append((value._shape, type_code(value._dtype), None if value._contiguous else value.strides))
            else:
                key.append(_key(value, arrays, (name, f"argument {number}")))
        for word in named:
            key.append(word)
            key.append(_key(named[word], arrays, (name, f"argument {word!r}")))
        return cls(tuple(key), arrays)

    def runtime(self, name: str) -> Context | None:
        """Returns the runtime of the arrays; None without any.

        Raises:
            ValueError: they are of two runtimes.
        """
        first = self.arrays[0].runtime if self.arrays else None
        for array in self.arrays:
            if array.runtime is not first and first is not None:
                raise mixed_runtimes(name, first, array.runtime)
        return first


class Grouped(NamedTuple):
    """The memory of arrays: those that overlap share a range.

    Attributes:
        spans: the ranges.
        pattern: None if each array has a range of its own; else, per array, the number of its range and its first byte
            there.
    """

    spans: list[Range]
    pattern: tuple[tuple[int, int], ...] | None

    @classmethod
    def of(cls, arrays: Sequence[Array]) -> Grouped:
        """Returns the memory of arrays, which computes lazy ones."""
        spans: list[Range] = [array.span for array in arrays]
        if None in spans:
            array = arrays[spans.index(None)]  # type: ignore[arg-type]
            array.buffer  # noqa: B018 - raises that it is closed
        if len({span[0] for span in spans}) == len(spans):
            return cls(spans, None)
        return cls._of_shared(spans)

    @classmethod
    def _of_shared(cls, spans: Sequence[Range]) -> Grouped:
        merged: list[list[Any]] = []
        for buffer, start, stop in sorted(spans, key=lambda span: (id(span[0]), span[1], span[2])):
            last = merged[-1] if merged else None
            if last is not None and last[0] is buffer and start < last[2]:
                last[2] = max(last[2], stop)
            else:
                merged.append([buffer, start, stop])
        pattern = []
        for buffer, start, stop in spans:
            numbers = [n for n, (its, low, high) in enumerate(merged) if its is buffer and low <= start <= stop <= high]
            pattern.append((numbers[0], start - merged[numbers[0]][1]))
        return cls([(buffer, start, stop) for buffer, start, stop in merged], tuple(pattern))

    def location(self, number: int) -> tuple[int, int]:
        """Returns the number of an array's range, and the first byte of its range there."""
        return (number, 0) if self.pattern is None else self.pattern[number]


def _key(value: Any, arrays: list[Array], where: tuple[str, str]) -> Any:
    """Returns the key of an argument, and adds its arrays."""
    kind = type(value)
    if kind is Array:
        arrays.append(value)
        return value._shape, type_code(value._dtype), None if value._contiguous else value.strides
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return kind, tuple([_key(item, arrays, where) for item in value])
    if kind is dict:
        return kind, tuple([(_constant(name, where), _key(item, arrays, where)) for name, item in value.items()])
    if _has_fields(value):
        return kind, tuple([_key(item, arrays, where) for item in _fields(value).values()])
    return _constant(value, where)


def _has_fields(value: Any) -> bool:
    """True for a dataclass that is compared by its fields: they are arguments of their own."""
    options = getattr(type(value), "__dataclass_params__", None)
    if options is None or not options.eq or not (options.frozen or type(value).__hash__ is None):
        return False
    return all(field.compare for field in fields(value))


def _fields(value: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass by name."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _constant(value: Any, where: tuple[str, str]) -> Any:
    """Returns the key of a value without arrays. Values that are equal, as those with 1 and with True, may differ."""
    kind = type(value)
    if kind in _NUMBERS or isinstance(value, np.generic):
        return kind, repr(value)  # tells 0.0 from -0.0 and from 0, and a NaN is itself
    if kind is slice:  # of Python before 3.12 without a hash
        return kind, *[_constant(part, where) for part in (value.start, value.stop, value.step)]
    _require_hashable(value, where)
    if isinstance(value, tuple):
        return kind, value, *[_constant(part, where) for part in value]
    if isinstance(value, frozenset):
        return kind, frozenset([_constant(part, where) for part in value])
    if is_dataclass(value) and not isinstance(value, type):
        return kind, value, *[_constant(getattr(value, field.name), where) for field in fields(value) if field.compare]
    return kind, value


def _require_hashable(value: Any, where: tuple[str, str]) -> None:
    name, argument = where
    if _has_elements(value):
        raise TypeError(
            f"{name}: {argument} is {_described(value)}, and a graph takes device arrays, numbers, and tuples, lists "
            "and dicts of them; make a device array with gpu.array(x)"
        )
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{name}: {argument} is {_described(value)}, which is a part of the recording's key, and cannot be hashed; "
            "pass a hashable one, as a tuple or a frozen dataclass, or arrays in a tuple or dict"
        ) from None


def _has_elements(value: Any) -> bool:
    return not isinstance(value, (type, ModuleType)) and any(
        hasattr(value, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__", "__next__")
    )


def _described(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:37] + '...'} of type {type(value).__name__}"


def without_numbers(key: Any) -> Any:
    """Returns the key of arguments with the types of numbers in place of their values."""
    if not isinstance(key, tuple):
        return key
    if len(key) == 2 and isinstance(key[0], type) and issubclass(key[0], (*_NUMBERS, np.generic)):
        return key[0]
    return tuple([without_numbers(part) for part in key])


def replaced(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Returns nested tuples, lists, dicts and dataclasses with `leaf(x)` in place of all else."""
    if type(value) in (tuple, list):
        return type(value)([replaced(item, leaf) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[replaced(item, leaf) for item in value])
    if type(value) is dict:
        return {name: replaced(item, leaf) for name, item in value.items()}
    if _has_fields(value):
        return _with_fields(value, {name: replaced(item, leaf) for name, item in _fields(value).items()})
    return leaf(value)


def _with_fields(value: Any, given: dict[str, Any]) -> Any:
    """Returns a dataclass with other fields; itself if they are the same."""
    if all(getattr(value, name) is item for name, item in given.items()):
        return value
    other = copy.copy(value)
    for name, item in given.items():
        object.__setattr__(other, name, item)  # of a frozen one, too
    return other


def leaves(value: Any) -> Iterable[Any]:
    """Yields what nested tuples, lists, dicts and dataclasses contain."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif _has_fields(value):
        yield from leaves(_fields(value))
    else:
        yield value


def fields_in(value: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yields each dataclass in nested tuples, lists, dicts and dataclasses, with a field and its value."""
    if _has_fields(value):
        for name, item in _fields(value).items():
            yield value, name, item
            yield from fields_in(item)
    elif isinstance(value, (tuple, list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from fields_in(item)
