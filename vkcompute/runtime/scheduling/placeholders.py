"""Placeholders: memory and values in a recording that are known only when the graph runs."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from vkcompute.core.buffer import PADDING, Buffer
from vkcompute.core.memory_pool import MemoryBlock


def _raise_absent(what: str) -> NoReturn:
    raise ValueError(f"{what} has memory only while the graph runs; use it in what that graph records")


class _NoBlock:
    """Stands for the memory block of a placeholder, which has none."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, _name: str) -> NoReturn:
        _raise_absent(self._what)


class Placeholder(Buffer):
    """A buffer without memory: inputs and temporaries of a graph have one while it is recorded.

    Arrays on it have views and are checked like others. Anything that needs the memory raises ValueError.

    Attributes:
        owner: the same object for all placeholders of a graph.
        what: for messages.
        is_input: True for an input, which may be any array in a run; False for a temporary.
    """

    __slots__ = ("is_input", "owner", "what")

    def __init__(self, owner: object, what: str, nbytes: int, *, is_input: bool = False) -> None:
        self._open = False  # it has no memory to give back
        self.owner, self.what, self.is_input = owner, what, is_input
        self.offset, self.used_bytes = 0, nbytes
        self.nbytes = -(-max(nbytes, 1) // PADDING) * PADDING
        self.block, self.location = cast(MemoryBlock, _NoBlock(what)), MemoryBlock.location_of_none()
        self.host, self.readers, self.borrowers = None, {}, []

    def __getattr__(self, _name: str) -> Any:
        if _name not in self.__slots__:  # those are missing if Ctrl-C interrupted the constructor
            _raise_absent(self.what)
        raise AttributeError(_name)


class Parameter:
    """A push constant whose value is given with the run; `value` is its default."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def _refuse_value(self, *_: object) -> NoReturn:
        raise TypeError(
            f"the number {self.name!r} is given with each run of the graph, and has no value while it is recorded; "
            "pass it to kernels, or record a graph per value"
        )

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse_value
    __int__ = __float__ = __complex__ = __index__ = __round__ = __array__ = __format__ = _refuse_value
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _refuse_value
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _refuse_value
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refuse_value
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _refuse_value
    __neg__ = __pos__ = __abs__ = __invert__ = _refuse_value

    def __repr__(self) -> str:
        return f"<input {self.name!r} of a graph>"
