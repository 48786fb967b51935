"""The kinds of values and their joins, as far as control flow needs to know them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from vkcompute.ir import Value


class Kinds(Protocol):
    """The kinds of a language's values, and how two of them join.

    A value is any object. Constants are values, too; True and False are constants of every language. A kind is an
    object with `==`. A variable has a kind where control flow joins: its device values become operands of the join.
    """

    def kind_of_variable(self, value: Any) -> Any:
        """Returns the kind of a variable with this value."""

    def kind_at_loop(self, kind: Any) -> Any:
        """Returns the kind of a variable that has this one before a loop that assigns to it."""
        return kind

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the kind of a variable that has either kind, depending on the path taken.

        Raises:
            UnsupportedError: there is none.
        """

    def mismatch(self, name: str, why: str) -> str:
        """Returns the text of an error for a variable, `RESULT` or `CHOSEN` whose kinds have no join."""
        return why

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Converts a value to a kind, and returns its device values; constants have none."""

    def unpacked(self, kind: Any, values: Iterator[Value]) -> Any:
        """Returns a value of this kind, made of the next device values."""

    def filler(self, kind: Any) -> list[Value]:
        """Returns any device values of a kind, for a value that is never used."""

    def is_same(self, one: Any, other: Any) -> bool:
        """True if both values are one constant."""
        return one is other

    def truth(self, value: Any) -> Value | bool:
        """Returns the truth of a value: a device value, or a constant."""

    def state(self) -> Any:
        """Returns what the language has noted of the program so far, to undo a part that is built again."""
        return None

    def restore(self, state: Any) -> None:
        """Forgets what was noted since `state`."""
