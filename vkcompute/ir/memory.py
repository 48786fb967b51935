"""Arrays that operations load from and store to: buffers and workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

from vkcompute.ir.types import Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """An array in a buffer or in workgroup memory.

    Attributes:
        length: elements of workgroup memory; None for a buffer, whose length is known at run time only.
        binding: descriptor set and binding of a buffer; None for set 0 and the buffer's position in the function.

    Raises:
        TypeError: the element type is bool, which has no layout in memory.
    """

    name: str
    element: Scalar
    length: int | None = None
    binding: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.element.kind == "b":
            raise TypeError(f"{self.name}: memory holds numbers; got {self.element}; store a bool as uint8")
