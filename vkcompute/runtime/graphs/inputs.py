"""The named inputs of a graph: what stands for them in the recording, and what is given for a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.tensor import Tensor, alias
from vkcompute.runtime.scheduling.placeholders import Parameter, Placeholder
from vkcompute.runtime.scheduling.task import Places, Values

_RESERVED = ("times", "until", "every")  # what run() calls its own
_NUMBERS = (int, float, bool, np.generic)


class Inputs:
    """Tensors, and values of push constants, by name.

    Args:
        owner: whose placeholders these are.
        given: what a run takes unless it is given something else.

    Attributes:
        default_key: the key of a run that is given nothing.
    """

    def __init__(self, runtime: Context, owner: object, given: Mapping[str, Any]) -> None:
        self._runtime = runtime
        self._standing: dict[str, Tensor | Parameter] = {}
        self._defaults: dict[str, Any] = {}
        for name, value in given.items():
            if name in _RESERVED:
                raise ValueError(f"no input of a graph is called {name!r}: run() has an argument of that name")
            if isinstance(value, Tensor):
                buffer = Placeholder(owner, f"the input {name!r} of a graph", value.nbytes)
                self._standing[name] = Tensor(runtime, buffer, 0, value.shape, value.strides, value.dtype)
            else:
                self._standing[name] = Parameter(name, _copied(value))
            self._key_of(name, value)
            # A copy, in case that theirs is closed or changed.
            standing = self._standing[name]
            self._defaults[name] = standing.value if isinstance(standing, Parameter) else alias(value)
        self.default_key = self.key({})

    def __getitem__(self, name: str) -> Tensor | Parameter:
        if name not in self._standing:
            raise KeyError(f"no input {name!r}: {self._known()}")
        return self._standing[name]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """What stands for the inputs that are tensors."""
        return {name: standing for name, standing in self._standing.items() if isinstance(standing, Tensor)}

    def key(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """What tells a run's inputs from those of other runs.

        Raises:
            TypeError: an input is unknown, of another dtype, or no tensor where one is wanted.
            ValueError: a tensor is of another shape or runtime, not contiguous, or closed.
        """
        if not given.keys() <= self._standing.keys():
            raise TypeError(f"no input {', '.join(given.keys() - self._standing.keys())}: {self._known()}")
        return tuple([self._key_of(name, given.get(name, default)) for name, default in self._defaults.items()])

    def resolved(self, given: Mapping[str, Any]) -> tuple[Places, Values]:
        """What the tensors and the values stand for in a run; `given` has been checked by `key`."""
        places: Places = {}
        values: dict[Parameter, Any] = {}
        for name, standing in self._standing.items():
            value = given.get(name, self._defaults[name])
            if isinstance(standing, Parameter):
                values[standing] = bool(value) if isinstance(value, np.bool_) else value
            else:
                places[standing.buffer] = value.buffer, value.offset
        return places, values

    def _known(self) -> str:
        return f"this graph's inputs are {', '.join(self._standing) or 'none'}, by `gpu.record(name=…)`"

    def _key_of(self, name: str, value: Any) -> Any:
        standing = self._standing[name]
        if isinstance(standing, Parameter):
            return _bits(name, value)
        if not isinstance(value, Tensor):
            raise TypeError(f"the input {name!r} of this graph is a tensor; got {type(value).__name__}")
        if value.launch_key is None and value.buffer:  # or the buffer says that it is closed
            raise ValueError(f"the input {name!r} is a contiguous tensor; strides are {value.strides}; pass a .copy()")
        if value.runtime is not self._runtime:
            raise ValueError(f"the input {name!r} belongs to another runtime ({value.runtime.device}); copy it here")
        if value.dtype != standing.dtype:
            raise TypeError(f"the input {name!r} of this graph is {standing.dtype}; got {value.dtype}")
        if value.shape != standing.shape:
            raise ValueError(f"the input {name!r} of this graph has shape {standing.shape}; got {value.shape}")
        return value.launch_key


def _copied(value: Any) -> Any:
    return value if isinstance(value, _NUMBERS) else np.array(value)


def _bits(name: str, value: Any) -> Any:
    """What tells numbers apart that a shader tells apart: 0.0 from -0.0, and for messages 1 from 1.0 and True."""
    if type(value) in _NUMBERS:
        return repr(value)
    if isinstance(value, Parameter):
        return value
    array = np.asarray(value)
    if isinstance(value, Tensor) or array.dtype.kind not in "biuf":
        raise TypeError(
            f"the input {name!r} of a graph is a tensor, or a number or array for push constants; got "
            f"{type(value).__name__}"
        )
    return array.dtype.str, array.shape, array.tobytes()
