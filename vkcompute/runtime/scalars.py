"""What Python asks of a tensor in passing: its truth, its number, whether it equals another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vkcompute.core.lifetime import unpicklable


class Scalars:
    """Python's protocols for tensors. A tensor does no mathematics, so what would be mathematics says so.

    Without these methods Python has answers of its own, and they are wrong: every tensor would be true, and two tensors
    with the same content different.
    """

    __slots__ = ()

    shape: tuple[int, ...]

    def numpy(self) -> Any:
        """A copy of the data; defined by the tensor."""
        raise NotImplementedError

    def item(self) -> Any:
        """The only element, as a Python scalar. Waits for the work that writes it.

        Raises:
            ValueError: there are more elements, or none.
        """
        found = self.numpy()
        if found.size != 1:
            raise ValueError(f"only a tensor of one element is a number; this one has shape {self.shape}; use .numpy()")
        return found.item()

    def tolist(self) -> Any:
        """The data as nested Python lists, or as a scalar where the shape is ()."""
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        value = self.item()
        if not isinstance(value, int):
            raise TypeError(f"only a tensor of integers is an index; its element is {value!r}")
        return value

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of shape () has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("a tensor of shape () cannot be iterated over; use .item()")
        return (self[i] for i in range(self.shape[0]))  # type: ignore[index]

    def __eq__(self, other: object) -> Any:
        if other is None:
            return False
        raise _no_mathematics("==")

    def __ne__(self, other: object) -> Any:
        if other is None:
            return True
        raise _no_mathematics("!=")

    __hash__ = object.__hash__

    def __contains__(self, value: object) -> bool:
        raise _no_mathematics("in")

    __reduce__ = unpicklable


def _no_mathematics(operator: str) -> TypeError:
    return TypeError(f"a tensor holds data and has no `{operator}`; compare tensors as .numpy(), or by `is`")
