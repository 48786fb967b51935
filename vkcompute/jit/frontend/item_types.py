"""The types of the items of lists.

The items of a list have one type: the common type of all that the kernel stores in it. It is known at the end, so that
the kernel is built again if a value that is stored makes it wider.
"""

from __future__ import annotations

from typing import Any

from vkcompute.frontend.evaluator import RebuildError
from vkcompute.jit.frontend.type_rules import TypeRules, joined, kind_of, number_kind, started, stored
from vkcompute.jit.frontend.values import ArrayValue, Complex, Kind


class ItemTypes:
    """The types of items by the origins of their lists, as far as they are known."""

    def __init__(self, rules: TypeRules) -> None:
        self._rules = rules
        self._kinds: dict[tuple[Any, ...], Kind] = {}

    def of(self, origin: tuple[Any, ...], values: list[Any]) -> Kind:
        """Returns the type of a new list's items, which holds these values."""
        item = self._kinds.get(origin)
        for value in values:
            item = self._wider(item, value)
        assert item is not None, "a list has at least one item"
        self._kinds[origin] = item
        return item

    def demand(self, array: ArrayValue, value: Any) -> None:
        """Raises RebuildError if the type of a list's items does not hold a value."""
        if not isinstance(kind_of(value, self._rules), Complex):
            number_kind(value, self._rules)
        wider = self._wider(array.item, value)
        if wider != array.item:
            self._kinds[array.origin] = wider
            raise RebuildError

    def _wider(self, item: Kind | None, value: Any) -> Kind:
        """Returns the type of items that also holds this value."""
        kind = stored(kind_of(value, self._rules), self._rules)
        wider: Kind = started(kind if item is None else joined(item, kind, self._rules), self._rules)
        return wider
