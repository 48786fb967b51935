"""Private arrays and lists: arrays of an invocation, which the optimizer keeps in registers where it can."""

from __future__ import annotations

import math
from typing import Any

from vkcompute.compiled.specialization import LOOP
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, UINT32, Memory, Scalar, Value
from vkcompute.jit.frontend.context import CompilerContext
from vkcompute.jit.frontend.element_access import ElementAccess
from vkcompute.jit.frontend.item_types import ItemTypes
from vkcompute.jit.frontend.number_conversion import NumberConversion
from vkcompute.jit.frontend.record_types import RecordType
from vkcompute.jit.frontend.type_rules import kind_of
from vkcompute.jit.frontend.values import PARTS, ArrayValue, Complex, Kind, Row, describe, is_static, whole_of

MOST_ITEMS = 4096
"""Of a list whose items are stored or loaded one by one."""
_MOST_BYTES = 2**31 - 1
"""Of a private array: far above any device's limit; indices are int32."""


def memory_of(element: Scalar, n: int) -> tuple[Scalar, int]:
    """Returns the type and the number of the numbers in memory that hold `n` elements."""
    if isinstance(element, RecordType):
        return UINT32, -(-n * element.bits // 32)
    return (PARTS[element], 2 * n) if element in PARTS else (element, n)


class PrivateArrays:
    """Builds private arrays and lists.

    Args:
        program: the function that is built.
        numbers: convert items.
        arrays: loads and stores elements.
        items: the types of the items of lists.
    """

    def __init__(
        self, program: CompilerContext, numbers: NumberConversion, arrays: ElementAccess, items: ItemTypes
    ) -> None:
        self._program, self._numbers, self._arrays, self._items = program, numbers, arrays, items
        self._builder = numbers.builder
        self._made: dict[tuple[Any, ...], ArrayValue] = {}

    def array(
        self, name: str, element: Scalar, shape: tuple[int, ...], origin: tuple[Any, ...], item: Kind | None = None
    ) -> ArrayValue:
        """Returns the private array of an origin; it is the same one each time that the kernel is built."""
        nbytes = math.prod(shape) * element.bits // 8
        if nbytes > _MOST_BYTES:
            raise UnsupportedError(
                f"a private array of {nbytes} bytes; no device has so much memory for each invocation; use an argument"
            )
        array = self._made.get(origin)
        if array is None or (array.element, array.shape, array.item) != (element, shape, item):
            memory = Memory(name, *memory_of(element, math.prod(shape)), private=True)
            made = ArrayValue(name, -1, element, len(shape), memory, shape, item=item, origin=origin)
            array = self._made[origin] = made
        return array

    def new_list(self, name: str, items: list[Any], shape: tuple[int, ...], origin: tuple[Any, ...]) -> ArrayValue:
        """Builds a list of these items in row-major order, which are repeated to fill the shape."""
        for value in items:
            if not isinstance(kind_of(value, self._numbers.rules), (Kind, Complex)):
                remedy = "use a tuple of tuples for constants, or a list for each component"
                raise UnsupportedError(f"the items of a list are numbers; got {describe(value)}; {remedy}")
        item = self._items.of(origin, items)
        array = self.array(name, whole_of(item), shape, origin, item)
        self.write_items(array, items)
        return array

    def write_items(self, array: ArrayValue, items: list[Any]) -> None:
        """Stores items to all elements of a private array; they are repeated."""
        is_complex = array.element in PARTS or isinstance(array.element, RecordType)
        if len(items) == 1 and not (is_complex and not (is_static(items[0]) and items[0] == 0)):
            value = self._builder.const(0, array.memory.element) if is_complex else self._item(array, items[0])
            with self._builder.at(self._program.error(LOOP)):  # of a large array
                self._builder.fill(array.memory, value)
            return
        for k in range(math.prod(array.shape or ())):
            self._arrays.store(array, self._builder.const(k, INT32), items[k % len(items)])

    def _item(self, array: ArrayValue, item: Any) -> Value:
        """Returns a real number as it is in memory."""
        return self._builder.cast(self._numbers.cast(item, array.element), array.memory.element)

    def items(self, value: Any) -> Any:
        """Returns the elements of a private array or of its row as a tuple; other values unchanged."""
        array = value.array if isinstance(value, Row) else value
        if not isinstance(array, ArrayValue) or not array.memory.private or array.shape is None:
            return value
        indices = value.indices if isinstance(value, Row) else ()
        n = array.shape[-1]
        if array.ndim > len(indices) + 1 or n > MOST_ITEMS:
            rule = f"this takes one row of at most {MOST_ITEMS} elements, each of which is loaded on its own"
            raise UnsupportedError(f"{rule}; got {describe(value)}; write a for loop")
        return tuple([self._arrays.load(array, self._arrays.offset(array, (*indices, k))) for k in range(n)])
