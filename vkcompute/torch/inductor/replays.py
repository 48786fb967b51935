"""Replays of the programs that Inductor writes for the host, by at most one submit each, in the place of CUDA graphs.

`torch.compile(mode="reduce-overhead")` asks for them. The first call with tensors of some layouts is recorded, as
`vc.graph` records functions of arrays, and a later one has its own tensors and new results.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.cudagraph_utils import log_cudagraph_skip_and_bump_counter

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.graphed import graph
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.torch.element_types import array_dtype
from vkcompute.torch.kernels import is_on_device
from vkcompute.torch.storage import (
    InPlaceUpdates,
    Memory,
    empty,
    memory_of,
    n_elements,
    runtime,
    set_storage,
    tensor_of,
    view_of,
)

_Layout = tuple[Any, ...]
_all: weakref.WeakSet[Replayed] = weakref.WeakSet()
_served: dict[int, tuple[weakref.ref[Memory], weakref.WeakSet[Replayed]]] = {}
"""Programs that were called with a model, by the id of the memory of its first parameter."""
_MOST_LAYOUTS = 7
"""Recordings of a program; sizes that change more often would be recorded more often than they are replayed."""


class Replayed:
    """A program of the host whose calls are replayed. One that cannot be recorded runs as it is.

    Its recordings end with the model of its calls: Dynamo keeps a compiled graph for later models alike.

    Args:
        call: takes a list of tensors and integers, which it empties, and returns tensors, integers and None.

    Attributes:
        recorded_layouts: layouts of arguments -> True if calls are replayed, False if they could not be recorded.
    """

    def __init__(self, call: Callable[[list[Any]], Sequence[Any]]) -> None:
        self._call = call
        self._model: Callable[[], Memory | None] | None = None
        self.recorded_layouts: dict[Any, bool] = {}
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Drops the recordings, and with them the memory that they use."""
        self._recorded = graph(self._record)
        self.recorded_layouts.clear()

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        layouts: Any = tuple([_layout(value) for value in args])
        known = self.recorded_layouts.get(layouts)
        if None in layouts or not (known if known is not None else len(self.recorded_layouts) < _MOST_LAYOUTS):
            return self._call(args)
        tensors = [value for value in args if is_on_device(value)]
        states = None if known else (torch.get_rng_state(), torch.vk.get_rng_state())
        try:
            outputs = self._recorded(layouts, [view_of(tensor) for tensor in tensors])
        except Exception as error:
            if states is None:
                raise
            self.recorded_layouts[layouts] = False  # the device has done nothing, and the host has drawn nothing
            torch.set_rng_state(states[0])
            torch.vk.set_rng_state(states[1])
            log_cudagraph_skip_and_bump_counter(f"skipping the replay of a program that cannot be recorded: {error}")
            return self._call(args)
        self.recorded_layouts[layouts] = True
        self._note_model(tensors)
        args.clear()
        owners = {
            number: (tensor, tensor.storage_offset() * tensor.element_size()) for number, tensor in enumerate(tensors)
        }
        return [_output(output, owners) if isinstance(output, tuple) else output for output in outputs]

    def _note_model(self, tensors: list[Any]) -> None:
        """Drops the recordings once the model of a call is freed; its first parameter stands for it."""
        parameter = next((tensor for tensor in tensors if type(tensor) is torch.nn.Parameter), None)
        if parameter is None:
            return
        memory = memory_of(parameter)
        if self._model is None or self._model() is not memory:
            key = id(memory)
            if key not in _served:
                _served[key] = weakref.ref(memory, functools.partial(_forget_model, key)), weakref.WeakSet()
            self._model, programs = _served[key]
            programs.add(self)

    @property
    def has_model(self) -> bool:
        """True if a call had a parameter; those of the backward pass of one layer have none."""
        return self._model is not None

    def _record(self, layouts: tuple[_Layout, ...], arrays: list[Array]) -> list[Any]:
        """Runs the program on the memory of a recording; returns its results, tensors as `_output` takes them."""
        recording = recording_graph(runtime().scheduler)
        assert recording is not None
        earlier, used = InPlaceUpdates(), set[Buffer]()  # constants among them, which others may update between replays
        try:
            given, memories = _arguments(layouts, arrays)
            results = [_taken(value, memories) for value in self._call(given)]  # which adds those of results
            used = recording.buffers
        finally:
            earlier.release(used)
        return results


def forget_all() -> None:
    """Drops the recordings of all programs: Inductor keeps a program after its function is gone."""
    for program in list(_all):
        program.forget()


def _forget_model(key: int, _: object) -> None:
    """Drops the recordings of a freed model, and of programs without a model, as they may be its backward passes."""
    _, programs = _served.pop(key)
    for program in list(_all):
        if program in programs or not program.has_model:
            program.forget()


def _arguments(layouts: tuple[_Layout, ...], arrays: list[Array]) -> tuple[list[Any], list[Memory]]:
    """Returns the arguments of a program that is recorded, and the memories of its tensors."""
    following = iter(arrays)
    given, memories = [], []
    for layout in layouts:
        if len(layout) == 1:
            given.append(layout[0])
            continue
        array, (_, shape, strides) = next(following), layout
        n, itemsize = n_elements(shape, strides), array.dtype.itemsize
        whole = array.viewed(0, (n,), (itemsize,), array.dtype) if n else array
        memories.append(Memory(n * itemsize, whole, is_shared=True))
        given.append(tensor_of(memories[-1], *layout))
    return given, memories


def _layout(value: Any) -> _Layout | None:
    """Returns the layout of a tensor of the device, or an integer; None for anything else."""
    if type(value) is int:
        return (value,)
    if not is_on_device(value) or value.is_conj() or value.is_neg():
        return None
    return value.dtype, tuple(value.shape), value.stride()


def _taken(value: Any, memories: list[Memory]) -> Any:
    """Returns a result of a recording; a tensor as the number of its memory, its array if that is new, and its layout.

    Args:
        memories: of the arguments and of the results before, to which that of a new result is added.

    Raises:
        ValueError: it is a tensor of the host, or one that the program keeps.
    """
    if not isinstance(value, torch.Tensor):
        return value
    if not is_on_device(value):
        raise ValueError("a result is on the host")
    memory, layout = memory_of(value), (value.dtype, tuple(value.shape), value.stride(), value.storage_offset())
    number = next((number for number, known in enumerate(memories) if known is memory), None)
    if number is not None:
        return (number, None, *layout)
    memories.append(memory)
    array = memory.array(array_dtype(value.dtype))
    array.compute()
    recording = recording_graph(runtime().scheduler)
    function = None if recording is None else recording.function
    if function is not None and not isinstance(array.buffer, Placeholder) and function.is_earlier(array.buffer):
        raise ValueError("a result is a constant of the program")
    return (len(memories) - 1, array, *layout)


def _output(output: Any, owners: dict[int, Any]) -> Any:
    """Returns a tensor on new memory, or on that of an argument or of a result before.

    Args:
        output: as `_taken` returns it.
        owners: by the numbers of memories, a tensor and the offset of the memory in its storage, in bytes; the first
            tensor on new memory is added.
    """
    number, array, dtype, shape, strides, offset = output
    if array is not None:
        tensor = tensor_of(Memory(array.nbytes, array), dtype, shape, strides, offset)
        owners[number] = tensor, 0
        return tensor
    owner, start = owners[number]
    return set_storage(
        empty((0,), (1,), dtype), owner.untyped_storage(), start // dtype.itemsize + offset, shape, strides
    )
