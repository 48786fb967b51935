"""What stands in a recording for memory and values that are known when the graph runs."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from vkcompute.core.buffer import PADDING, Buffer
from vkcompute.core.memory import Block


def _absent(what: str) -> NoReturn:
    raise ValueError(f"{what} has memory only while the graph runs; use it in what that graph records")


class _Nowhere:
    """The block of memory under a placeholder: there is none."""

    __slots__ = ("_what", "key")

    def __init__(self, what: str) -> None:
        self._what, self.key = what, object()

    def __getattr__(self, _name: str) -> NoReturn:
        _absent(self._what)


class Placeholder(Buffer):
    """A buffer without memory, under the tensors that stand for inputs and temporaries of a graph.

    Views of such tensors are made and checked as of others. Whatever needs the memory raises ValueError.

    Attributes:
        owner: the same for all of one graph.
        what: for messages.
    """

    __slots__ = ("owner", "what")

    def __init__(self, owner: object, what: str, nbytes: int) -> None:
        self._open = False  # there is nothing to give back
        self.owner, self.what = owner, what
        self.offset, self.used_bytes = 0, nbytes
        self.nbytes = -(-max(nbytes, 1) // PADDING) * PADDING
        self.block = cast(Block, _Nowhere(what))

    def __getattr__(self, _name: str) -> Any:
        if _name not in self.__slots__:  # of a placeholder whose making was interrupted
            _absent(self.what)
        raise AttributeError(_name)


class Parameter:
    """A push constant whose value is given with the run, else `value`."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def __repr__(self) -> str:
        return f"<input {self.name!r} of a graph>"
