"""The numbers of a block that an invocation holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkcompute.ir import Value

ADJACENT = 4
"""Elements that one wide access loads or stores."""

Group = Sequence[int]
"""Registers that one access covers, in the order of their elements."""


class LazyRegisters(Sequence[Value]):
    """Registers that are loaded by groups, each when one of it is first asked for.

    Args:
        load: loads a group.
        groups: the registers that are loaded together; each is in one group.
    """

    def __init__(self, load: Callable[[Group], list[Value]], groups: Sequence[Group]) -> None:
        self._load, self._groups = load, {at: group for group in groups for at in group}
        self._known: dict[int, Value] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, at: Any) -> Any:
        if at >= len(self._groups):
            raise IndexError(at)
        if at not in self._known:
            group = self._groups[at]
            self._known.update(zip(group, self._load(group), strict=True))
        return self._known[at]
