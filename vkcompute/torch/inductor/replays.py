"""Replays of the programs that Inductor writes for the host, by at most one submit each, in the place of CUDA graphs.

`torch.compile(mode="reduce-overhead")` asks for them. The first call with tensors of some layouts is recorded, as
`vc.graph` records functions of arrays, and a later one has its own tensors and new results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor.cudagraph_utils import log_cudagraph_skip_and_bump_counter

from vkcompute.runtime.graphed import graph
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import array_dtype
from vkcompute.torch.kernels import is_on_device
from vkcompute.torch.storage import Memory, empty, memory_of, set_storage, tensor_of

_Layout = tuple[Any, ...]
_MOST_LAYOUTS = 7
"""Recordings of a program; sizes that change more often would be recorded more often than they are replayed."""


class Replayed:
    """A program of the host whose calls are replayed. One that cannot be recorded runs as it is.

    Args:
        call: takes a list of tensors and integers, which it empties, and returns tensors, integers and None.

    Attributes:
        recorded_layouts: layouts of arguments -> True if calls are replayed, False if they could not be recorded.
    """

    def __init__(self, call: Callable[[list[Any]], Sequence[Any]]) -> None:
        self._call = call
        self._recorded = graph(self._record)
        self.recorded_layouts: dict[Any, bool] = {}

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        layouts: Any = tuple([_layout(value) for value in args])
        known = self.recorded_layouts.get(layouts)
        if None in layouts or not (known if known is not None else len(self.recorded_layouts) < _MOST_LAYOUTS):
            return self._call(args)
        tensors = [value for value in args if is_on_device(value)]
        arrays = [memory_of(tensor).array(array_dtype(tensor.dtype)) for tensor in tensors]
        try:
            outputs = self._recorded(layouts, arrays)
        except Exception as error:
            if known:
                raise
            self.recorded_layouts[layouts] = False  # nothing has run
            log_cudagraph_skip_and_bump_counter(f"skipping the replay of a program that cannot be recorded: {error}")
            return self._call(args)
        self.recorded_layouts[layouts] = True
        args.clear()
        return [_output(tensors, *output) if isinstance(output, tuple) else output for output in outputs]

    def _record(self, layouts: tuple[_Layout, ...], arrays: list[Array]) -> list[Any]:
        """Runs the program on the memory of a recording; returns its results, tensors as `_output` takes them."""
        following = iter(arrays)
        memories = []
        given = []
        for layout in layouts:
            if len(layout) == 1:
                given.append(layout[0])
                continue
            array = next(following)
            memories.append(Memory(array.nbytes, array, is_shared=True))
            given.append(tensor_of(memories[-1], *layout))
        return [_taken(value, memories) for value in self._call(given)]


def _layout(value: Any) -> _Layout | None:
    """Returns the layout of a tensor of the device, or an integer; None for anything else."""
    if type(value) is int:
        return (value,)
    if not is_on_device(value) or value.is_conj() or value.is_neg():
        return None
    return value.dtype, tuple(value.shape), value.stride(), value.storage_offset()


def _taken(value: Any, memories: list[Memory]) -> Any:
    """Returns a result of a recording: a tensor as its layout after its array, or after the number of an argument."""
    if not is_on_device(value):
        return value
    memory = memory_of(value)
    number = next((number for number, given in enumerate(memories) if given is memory), None)
    return (memory.array(array_dtype(value.dtype)) if number is None else number, *(_layout(value) or ()))


def _output(tensors: list[Any], owner: Array | int, dtype: Any, shape: Any, strides: Any, offset: int) -> Any:
    """Returns a tensor on new memory, or on that of an argument."""
    if isinstance(owner, Array):
        return tensor_of(Memory(owner.nbytes, owner), dtype, shape, strides, offset)
    return set_storage(empty((0,), (1,), dtype), tensors[owner].untyped_storage(), offset, shape, strides)
