"""`triton.PointerTable`: arrays whose addresses programs load."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vkcompute.blocks.compiler.types import Dtype
from vkcompute.blocks.launching.reinterpretation import TensorWrapper


class PointerTable:
    """A table of pointers to arrays of one dtype, in place of a tensor of addresses:

        addresses = triton.PointerTable([a, b, c])
        program[grid](addresses, len(addresses))

    A program loads the address of an array by its index, as `tl.load(table_ptr + g)`, and converts it to a pointer by
    `.to(tl.pointer_type(tl.float32))`. Accesses outside of the array are skipped. They are errors if the program is
    interpreted, or checked by TRITON_DEBUG=1.

    The arrays stay in device memory as long as the table exists. Make it once for many launches.

    Args:
        arrays: at least one array; all have one dtype and one runtime. Views are allowed, and so is an array that is
            given twice. Only interpreted launches take NumPy arrays and PyTorch's tensors.

    Attributes:
        arrays: the arrays.
        element: the dtype as which their bits are taken, given by `triton.reinterpret`; None for their own.

    `key`, `memory` and `shared` are internal and may change.

    Raises:
        TypeError: an element is no array, or the dtypes differ.
        ValueError: there is no array.
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        given = list(arrays)
        if not given:
            raise ValueError("a table of pointers has at least one array; got none; launch no program without arrays")
        wrong = [array for array in given if not hasattr(array, "dtype") or not hasattr(array, "shape")]
        if wrong:
            raise TypeError(
                f"a table of pointers has arrays; got {type(wrong[0]).__name__}; pass the array, not its address"
            )
        elements = {array.dtype for array in given if isinstance(array, TensorWrapper)}
        self.arrays = tuple([array.base if isinstance(array, TensorWrapper) else array for array in given])
        dtypes = {str(array.dtype): None for array in given}
        if len(dtypes) > 1:
            raise TypeError(
                f"the arrays of a table of pointers have one dtype; got {', '.join(dtypes)}; make a table for each"
            )
        self.element: Dtype | None = elements.pop() if elements else None
        self.key = object()
        self.memory: Any = None
        self.shared: Any = None

    @property
    def dtype(self) -> Any:
        """The dtype of the arrays."""
        return self.arrays[0].dtype

    @property
    def runtime(self) -> Any:
        """The runtime of the arrays; arrays of the host have none."""
        return self.arrays[0].runtime

    def __getstate__(self) -> dict[str, Any]:
        return {"arrays": self.arrays, "element": self.element}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes a copy of a table, or one that was pickled: it has windows of its own arrays."""
        self.arrays, self.element = state["arrays"], state["element"]
        self.key, self.memory, self.shared = object(), None, None

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"<table of pointers to {len(self)} arrays of {self.dtype}>"
