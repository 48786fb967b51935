"""Arrays that operations load from and store to: buffers and workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

from vkcompute.ir.types import Scalar, Type, vector


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """An array in a buffer or in workgroup memory.

    Attributes:
        length: elements of workgroup memory; None for a buffer, whose length is known at run time only.
        binding: descriptor set and binding of a buffer; None for set 0 and the buffer's position in the function.
        lanes: adjacent elements that an index selects together, as a vector; 1 for a scalar.

    Raises:
        TypeError: the element type is bool, which has no layout in memory.
    """

    name: str
    element: Scalar
    length: int | None = None
    binding: tuple[int, int] | None = None
    lanes: int = 1

    def __post_init__(self) -> None:
        if self.element.kind == "b":
            raise TypeError(f"{self.name}: memory holds numbers; got {self.element}; store a bool as uint8")

    @property
    def type(self) -> Type:
        """The type of a value that is loaded or stored."""
        return self.element if self.lanes == 1 else vector(self.element, self.lanes)
