"""Pointers to one of several arguments: the path taken decides which one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute import ir
from vkcompute.blocks.compiler.types import ChoiceValue, Entry, Pointer, TableValue, WindowsValue
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, Value
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number


class PointerChoices:
    """The sets of arguments to which pointers of a program are chosen; each has one value.

    Attributes:
        read_only: positions of the arguments that are annotated as tl.const.
    """

    def __init__(self) -> None:
        self.read_only: set[int] = set()
        self._values: dict[tuple[ArrayValue, ...], ChoiceValue] = {}

    def of(self, *pointers: Pointer) -> ChoiceValue | None:
        """Returns the value for the arguments of pointers; None if their types differ, or if tables are among them.

        Raises:
            UnsupportedError: some of the arguments are annotated as tl.const, and others are not.
        """
        arrays = {source.position: source for pointer in pointers for source in sources_of(pointer.array)}
        sources = tuple([arrays[at] for at in sorted(arrays)])
        first = sources[0]
        constant, other = self._one_that(sources, is_const=True), self._one_that(sources, is_const=False)
        if constant is not None and other is not None:
            raise UnsupportedError(
                f"a pointer to a tl.const on some paths only: {constant.name} is one, {other.name} is not; "
                "annotate both, or load in each branch"
            )
        for source in sources:
            is_alike = source.element is first.element and source.memory.element is first.memory.element
            if isinstance(source, (TableValue, WindowsValue)) or not is_alike:
                return None
        if sources not in self._values:
            memories, name = tuple([source.memory for source in sources]), " or ".join(s.name for s in sources)
            self._values[sources] = ChoiceValue(
                name, first.position, first.element, 1, first.memory, windows=memories, sources=sources
            )
        return self._values[sources]

    def _one_that(self, sources: Sequence[ArrayValue], *, is_const: bool) -> ArrayValue | None:
        """Returns an argument that is annotated as tl.const, or one that is not; None if there is none."""
        return next((source for source in sources if (source.position in self.read_only) is is_const), None)


def sources_of(array: ArrayValue) -> tuple[ArrayValue, ...]:
    """Returns the arguments of a choice; of another array itself."""
    return array.sources if isinstance(array, ChoiceValue) else (array,)


def kind_of_choice(choice: ChoiceValue, base: Any, offset: Any) -> Pointer:
    """Returns the type of a pointer to one of several arguments."""
    return Pointer(choice, base, offset, Entry(None, None, None, Kind(INT32)))


def as_choice(builder: ir.Builder, pointer: Pointer, choice: ChoiceValue) -> Pointer:
    """Returns a pointer as one to these arguments, of which it has some."""
    if pointer.array is choice:
        return pointer
    numbers = [choice.sources.index(source) for source in sources_of(pointer.array)]
    before = None if pointer.entry is None else pointer.entry.window.value
    window = selected(builder, before, [builder.const(number, INT32) for number in numbers])
    return pointer._replace(array=choice, entry=Entry(None, None, None, Number(window, Kind(INT32))))


def selected(builder: ir.Builder, index: Value | None, values: Sequence[Value]) -> Value:
    """Returns the value with an index; with None, the only one."""
    result = values[0]
    for at, value in enumerate(values[1:], 1):
        assert index is not None, "several values have an index"
        result = builder.select(builder.compute("eq", index, builder.const(at, INT32)), value, result)
    return result
