"""Arrays that operations load from and store to: buffers, workgroup memory and private memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from vkcompute.ir.types import UINT32, Scalar, Type, vector


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """An array in a buffer, in workgroup memory, or private to an invocation.

    Attributes:
        element: the type of the elements; a bool takes a byte of a buffer (ir/bools.py).
        length: elements or vectors of workgroup or private memory; None for a buffer, whose length is known at run time
            only.
        binding: descriptor set and binding of a buffer; None for set 0 and the buffer's position in the function.
        lanes: adjacent elements that an index selects together, as a vector; 1 for a scalar.
        texels: True for a buffer that is only read, by uint32 or vectors of four, as a uniform texel buffer.
        private: True if each invocation has an array of its own. A loop that contains all accesses to it writes an
            element before it reads it, in each iteration.
        for_host: True for a buffer that the host reads when the launch has completed; it keeps a binding of its own.
        window: True for a buffer that spans arrays of a block of memory; it keeps a binding of its own, too.
        volatile: True if the lanes of a warp access it in lockstep (ir/warps.py).
        parts: numbers of 8 or 16 bits in each element, a uint32 (ir/words.py); 1 if elements are numbers themselves.
        of: the memory whose bytes these are, as elements of another type (ir/memory_views.py); None for one of its own.

    Raises:
        TypeError: a vector of bools, or no texel has this type.
    """

    name: str
    element: Scalar
    length: int | None = None
    binding: tuple[int, int] | None = None
    lanes: int = 1
    texels: bool = False
    private: bool = False
    for_host: bool = False
    parts: int = 1
    volatile: bool = False
    of: Memory | None = None
    window: bool = False

    def __post_init__(self) -> None:
        if self.element.kind == "b" and self.lanes > 1:
            raise TypeError(f"{self.name}: bools are accessed one by one; got {self.lanes} lanes; pack them in words")
        if self.texels and (self.element is not UINT32 or self.lanes not in (1, 4)):
            raise TypeError(f"{self.name}: a texel is a uint32 or a vector of four; got {self.lanes} of {self.element}")

    @property
    def type(self) -> Type:
        """The type of a value that is loaded or stored."""
        return self.element if self.lanes == 1 else vector(self.element, self.lanes)

    @property
    def nbytes(self) -> int:
        """The bytes of workgroup or private memory."""
        return self.element.bits // 8 * self.lanes * (self.length or 0)


def view_of(memory: Memory, element: Scalar) -> Memory:
    """Returns the memory with the same bytes as elements of another type; itself for its own type."""
    base = memory.of or memory
    if base.element is element and base.lanes == 1:
        return base
    length = None if base.length is None else base.nbytes * 8 // element.bits
    return Memory(base.name, element, length, private=base.private, volatile=base.volatile, of=base)


Split = tuple[int, int, int]
"""Of an array that takes several bindings: its index, their number, and the power of two of elements in each."""


class Pack(NamedTuple):
    """Arrays that share a binding.

    Attributes:
        members: (index of the array, True if the kernel writes it, the bytes that an index selects).
        in_place: True if they are in one buffer, so that none is copied.
    """

    members: tuple[tuple[int, bool, int], ...]
    in_place: bool = False


class ArrayBindings(NamedTuple):
    """The bindings of a kernel's arrays, unless each has one of its own.

    They are those of the arrays that are in no pack, in order, and then the packs. The first index of each member of a
    pack is a parameter, after all others.

    Attributes:
        n_arrays: their number.
        splits: the arrays that take several bindings.
        packs: those that share one.
    """

    n_arrays: int
    splits: tuple[Split, ...]
    packs: tuple[Pack, ...]
