"""Inputs of a graph by name: their placeholders in the recording, and their values in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vkcompute.runtime.memory.array import Array, alias
from vkcompute.runtime.memory.context import ONE_RUNTIME, Context
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.placeholders import Parameter, Placeholder
from vkcompute.runtime.scheduling.task import BufferMap, Values

Addresses = tuple[Any, ...]
"""addresses of arrays, as their buffers give them"""


class Choice(NamedTuple):
    """The inputs of a run.

    Attributes:
        exact: a key: equal keys mean equal inputs. It has the numbers, and the addresses of the arrays; for a function
            these are left out.
        spans: the bytes of the arrays.
        values: the numbers, for their placeholders.
    """

    exact: tuple[Any, Addresses]
    spans: Sequence[Range]
    values: Values


_RESERVED = ("times", "until", "every")  # parameters of Graph.run
_NUMBERS = (int, float, bool, np.generic)


class Inputs:
    """Inputs of one graph: arrays and push constants.

    Args:
        owner: of the placeholders.
        given: the defaults.
    """

    def __init__(self, runtime: Context, owner: object, given: Mapping[str, Any]) -> None:
        self._runtime = runtime
        self._placeholders: dict[str, Array | Parameter] = {}
        self._defaults: dict[str, Any] = {}
        for name, value in given.items():
            if name in _RESERVED:
                raise ValueError(f"no input of a graph is called {name!r}: run() has an argument of that name")
            if isinstance(value, Array):
                buffer = Placeholder(owner, f"the input {name!r} of a graph", value.nbytes, is_input=True)
                self._placeholders[name] = Array(runtime, buffer, 0, value.shape, value.strides, value.dtype)
            else:
                self._placeholders[name] = Parameter(name, _copied(value))
            # A copy, as the caller may close or change the original.
            placeholder = self._placeholders[name]
            if isinstance(placeholder, Parameter):
                _bits(name, value)
                self._defaults[name] = placeholder.value
            else:
                self._require_alike(name, placeholder, value)
                self._defaults[name] = alias(value)

    def __getitem__(self, name: str) -> Array | Parameter:
        if name not in self._placeholders:
            raise KeyError(f"no input {name!r}: {self._known()}")
        return self._placeholders[name]

    @property
    def arrays(self) -> dict[str, Array]:
        """The placeholders of the inputs that are arrays."""
        return {name: placeholder for name, placeholder in self._placeholders.items() if isinstance(placeholder, Array)}

    def choice(self, given: Mapping[str, Any]) -> Choice:
        """Returns the checked inputs of a run.

        Raises:
            TypeError: an input is unknown, of another dtype, or not an array where one is required.
            ValueError: an array is of another shape or runtime, not contiguous, or closed.
        """
        if not given.keys() <= self._placeholders.keys():
            raise TypeError(f"no input {', '.join(given.keys() - self._placeholders.keys())}: {self._known()}")
        spans: list[Range] = []
        addresses, bits, values = list[Any](), list[Any](), dict[int, Any]()
        for name, placeholder in self._placeholders.items():
            value = given.get(name, self._defaults[name])
            if isinstance(placeholder, Parameter):
                bits.append(_bits(name, value))
                values[id(placeholder)] = bool(value) if isinstance(value, np.bool_) else value
            else:
                self._require_alike(name, placeholder, value)
                spans.append(value.span)
                addresses.append(value.launch_key)
        return Choice((tuple(bits), tuple(addresses)), spans, values)

    def drop_defaults(self) -> None:
        """Lets go of the defaults: all runs give their own."""
        self._defaults.clear()

    def buffer_map(self, choice: Choice) -> BufferMap:
        """The buffers in place of the placeholders in a run."""
        return {array.buffer: span[:2] for array, span in zip(self.arrays.values(), choice.spans, strict=True)}

    def _known(self) -> str:
        return f"this graph's inputs are {', '.join(self._placeholders) or 'none'}, by `gpu.record(name=…)`"

    def _require_alike(self, name: str, placeholder: Array, value: Any) -> None:
        if not isinstance(value, Array):
            raise TypeError(f"the input {name!r} of this graph is a device array; got {type(value).__name__}")
        if value.buffer and not value.contiguous:  # `buffer` raises that it is closed
            raise ValueError(f"the input {name!r} is a contiguous array; strides are {value.strides}; pass a .copy()")
        if value.runtime is not self._runtime:
            raise ValueError(
                f"the input {name!r} belongs to another runtime ({value.runtime.device}) than the graph; {ONE_RUNTIME}"
            )
        if value.dtype != placeholder.dtype:
            raise TypeError(f"the input {name!r} of this graph is {placeholder.dtype}; got {value.dtype}")
        if value.shape != placeholder.shape:
            raise ValueError(f"the input {name!r} of this graph has shape {placeholder.shape}; got {value.shape}")


def _copied(value: Any) -> Any:
    return value if isinstance(value, _NUMBERS) else np.array(value)


def _bits(name: str, value: Any) -> Any:
    """A key that distinguishes numbers as shaders do: 0.0 from -0.0; and for messages 1 from 1.0 and True."""
    if type(value) in _NUMBERS:
        return repr(value)
    if isinstance(value, Parameter):
        return id(value)
    array = np.asarray(value)
    if isinstance(value, Array) or array.dtype.kind not in "biuf":
        raise TypeError(
            f"the input {name!r} of a graph is a device array, or a number or NumPy array for push constants; got "
            f"{type(value).__name__}"
        )
    return array.dtype.str, array.shape, array.tobytes()
