"""Graphed functions: `vc.graph`, whose calls replay a recording of the function with other arrays."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from vkcompute.deferred_calls import waiting
from vkcompute.dtypes import process_float, scoped_float
from vkcompute.errors import shorten_traceback, warn_caller
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.graphs.arguments import Arguments, Grouped, fields_in, leaves, replaced, without_numbers
from vkcompute.runtime.graphs.captured import Captured, Reached, Watched, are_current
from vkcompute.runtime.graphs.graph import Graph, recording_graph
from vkcompute.runtime.graphs.inputs import Choice
from vkcompute.runtime.graphs.results import temporary_of
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context, cached
from vkcompute.runtime.runtime import current_runtime
from vkcompute.runtime.scheduling.access_history import Range

_P = ParamSpec("_P")
_R = TypeVar("_R")
_MOST_RECORDINGS = 32  # of a function, or of a method of one object
_MANY_NUMBERS = 8
_BYTE = np.dtype(np.uint8)
_NO_KEY: Any = ((), ())


class _Owner:
    """Stands for a function, or a method of one object, among the recordings of a runtime."""

    __slots__ = ("__weakref__",)


class GraphedFunction(Generic[_P, _R]):
    """A function of arrays whose calls are recorded once and replayed, as `vc.graph` returns it.

    Calls are as those of the function. `clear` drops the recordings.
    """

    def __init__(self, function: Callable[_P, _R]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._name = function, getattr(function, "__qualname__", None) or repr(function)
        self._owner = _Owner()
        self._methods: dict[int, tuple[weakref.ref[Any], _Owner]] = {}

    def __call__(self, *args: _P.args, **named: _P.kwargs) -> _R:
        return cast(_R, self._call(self._owner, self._function, args, named))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        method = self._function.__get__(instance, owner)
        return functools.update_wrapper(functools.partial(self._call_method, instance, method), self._function)

    def _call_method(self, instance: Any, method: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        known = self._methods.get(id(instance))
        if known is None or known[0]() is not instance:
            try:
                reference = weakref.ref(instance, functools.partial(_forget, self._methods, id(instance)))
            except TypeError:
                raise TypeError(
                    f"{self._name} is a graphed method, whose recordings end with the object; "
                    f"{type(instance).__name__} has no weak references: add '__weakref__' to its __slots__"
                ) from None
            known = self._methods[id(instance)] = reference, _Owner()
        return self._call(known[1], method, args, named)

    def _call(self, owner: _Owner, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
            arguments = Arguments.of(self._name, args, named)
            runtime = arguments.runtime(self._name) or current_runtime()
            if runtime.scheduler.recordings and recording_graph(runtime.scheduler) is not None:
                return function(*args, **named)  # a part of that recording
            runtime.require_open()
            memory = Grouped.of(arguments.arrays)
            recorded = recordings_of(runtime, owner)
            key = arguments.key, memory.pattern, scoped_float.get(), process_float[0]
            recording = before = recorded.get(key)
            if recording is None or not recording.watched.is_current():
                self._warn_of_numbers(key, recorded)
                recording = _recorded(self._name, runtime, function, args, named, arguments, memory)
                if before is not None:
                    self._warn_of_changes(before, recording)
                recorded[key] = recording
            elif len(recorded) > _MOST_RECORDINGS // 2:
                recorded[key] = recording  # the least recently used are dropped first
            return recording.run(arguments.arrays, memory.spans)
        except Exception as error:
            shorten_traceback(error)
            raise

    def _warn_of_numbers(self, key: tuple[Any, ...], recorded: Iterable[tuple[Any, ...]]) -> None:
        """Warns once, before the eighth recording for other numbers alone."""
        layout = without_numbers(key)
        if sum([without_numbers(known) == layout for known in list(recorded)]) == _MANY_NUMBERS - 1:
            warn_caller(
                f"{self._name} is recorded for {_MANY_NUMBERS} choices of numbers, and each takes as long as the first "
                "one; pass numbers that change as arrays of shape (), as gpu.array(0.1)",
                RuntimeWarning,
            )

    def _warn_of_changes(self, before: _Recorded, recording: _Recorded) -> None:
        """Counts the recordings in place of others, and warns of the eighth one."""
        recording.n_earlier = before.n_earlier + 1
        if recording.n_earlier == _MANY_NUMBERS - 1:
            warn_caller(
                f"{self._name} is recorded for the {_MANY_NUMBERS}th time, as {before.watched.changed!r} changes "
                "between calls, and each takes as long as the first one; pass what changes as an argument, and numbers "
                "as arrays of shape (), as gpu.array(0.1)",
                RuntimeWarning,
            )

    def clear(self) -> None:
        """Drops the recordings: the next calls record anew."""
        self._owner = _Owner()
        self._methods.clear()

    def __repr__(self) -> str:
        return f"<graphed function {self._name}>"


def graph(function: Callable[_P, _R]) -> GraphedFunction[_P, _R]:
    """Returns a function whose calls replay a recording of it, by at most one submit; also a decorator.

    The first call with arguments of some layouts records the launches of `function` and runs them. A later one with
    arrays of the same shapes, strides and dtypes, which overlap alike, runs them again, with new arrays as results.

    Args:
        function: of device arrays, numbers, and tuples, lists and dicts of these, as its results are. Numbers and other
            hashable arguments are constants of a recording. It may update arrays in place, and draw random numbers. An
            array that it has from a closure, a global or an attribute may change its elements. Another one in its
            place is recorded anew, and so is another number, text or object that it reads there.

    Raises:
        TypeError: the argument is not callable, or a generator or coroutine.
    """
    if not callable(function):
        raise TypeError(f"vc.graph takes a function, or decorates one; got {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(
            f"vc.graph takes a function that returns its results; {function!r} is a generator or a coroutine; pass the "
            "functions that it calls"
        )
    return GraphedFunction(function)


def recordings_of(runtime: Context, owner: _Owner) -> BoundedCache[Any, _Recorded]:
    """Returns the recordings of a function on a runtime, which end with either."""
    kept: weakref.WeakKeyDictionary[_Owner, BoundedCache[Any, _Recorded]] = cached(
        runtime, GraphedFunction, weakref.WeakKeyDictionary
    )
    recorded = kept.get(owner)
    return kept.setdefault(owner, BoundedCache(_MOST_RECORDINGS)) if recorded is None else recorded


def _forget(methods: dict[int, Any], key: int, reference: weakref.ref[Any]) -> None:
    if (known := methods.get(key)) is not None and known[0] is reference:
        methods.pop(key, None)


@dataclass(frozen=True, slots=True, eq=False)  # a leaf of a result
class _View:
    """A result, as a view of a range: that of an argument, or of new memory.

    Attributes:
        number: of the range among those of a run; -1 for an argument that is returned itself.
        offset: of the first element from the start of the range, in bytes; or the argument's number.
        is_whole: True for contiguous elements of all of the new memory.
    """

    number: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    is_whole: bool = False


class _Recorded:
    """A recording of a function for arguments of some layouts.

    Attributes:
        result: what the function returned, with a `_View` in place of arrays that are not the same in each run.
        new: the size in bytes of the memory of each result.
        watched: what the function has from elsewhere.
        n_earlier: the number of recordings in whose place it is, as what they watched has changed.
    """

    def __init__(self, graph: Graph, result: Any, new: list[int], watched: Watched) -> None:
        self.graph, self.result, self.new, self.watched = graph, result, new, watched
        self.n_earlier = 0
        self.draws = [] if graph.function is None else graph.function.draws

    def run(self, arrays: list[Array], spans: list[Range]) -> Any:
        """Runs the recorded work; returns new results."""
        graph = self.graph
        runtime = graph.runtime
        device = runtime.device
        fed = [draw() for draw in self.draws]  # these live until the run is launched
        given = [*spans, *[array.span for array in fed], *[(device.result_buffer(n), 0, n) for n in self.new]]
        graph.start(Choice(_NO_KEY, given, {}))
        if waiting or runtime.scheduler.is_ahead:
            runtime.scheduler.unlocked()

        def array(leaf: Any) -> Any:
            if type(leaf) is not _View:
                return leaf
            if leaf.number < 0:
                return arrays[leaf.offset]
            buffer, start, stop = given[leaf.number]
            if leaf.is_whole:
                return Array.whole(runtime, buffer, leaf.shape, leaf.dtype, stop)
            return Array(runtime, buffer, start + leaf.offset, leaf.shape, leaf.strides, leaf.dtype)

        return array(self.result) if type(self.result) is _View else replaced(self.result, array)


def _recorded(
    name: str,
    runtime: Context,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: dict[str, Any],
    arguments: Arguments,
    memory: Grouped,
) -> _Recorded:
    """Records a call."""
    constants = [leaf for leaf in leaves((args, named)) if not isinstance(leaf, Array)]
    reached = Reached(function, constants)
    named_values, arrays_before = reached.named(), reached.arrays()
    del reached
    inputs = {
        str(number): Array(runtime, buffer, start, (stop - start,), (1,), _BYTE)
        for number, (buffer, start, stop) in enumerate(memory.spans)
    }
    with Graph(runtime, inputs, of_function=True) as graph:
        locations = [memory.location(number) for number in range(len(arguments.arrays))]
        views = [
            _viewed(array, graph[str(number)], first)
            for array, (number, first) in zip(arguments.arrays, locations, strict=True)
        ]
        following = iter(views)

        def view(leaf: Any) -> Any:
            return next(following) if type(leaf) is Array else leaf

        args, named = replaced(args, view), replaced(named, view)
        before = [*fields_in((args, named))]
        returned = function(*args, **named)
        _require_fields(name, before)
        for leaf in leaves(returned):
            if isinstance(leaf, Array):
                leaf.compute()
        _require_kept(name, arrays_before)
        _require_returned(name, graph, returned, views)
        result, new = _kept(graph, returned, views)
    needed = Reached(function, constants).needed(graph.buffers)
    return _Recorded(graph, result, new, Watched([*named_values, *needed]))


def _viewed(array: Array, memory: Array, first: int) -> Array:
    """Returns a view like an array; its range begins at a byte of `memory`."""
    offset = first + array.offset - array.span[1]
    return Array(array.runtime, memory.buffer, offset, array.shape, array.strides, array.dtype)


def _require_fields(name: str, before: list[tuple[Any, str, Any]]) -> None:
    """Raises ValueError if a function has assigned a field of a dataclass that it was given."""
    for owner, field, value in before:
        if getattr(owner, field, None) is not value:
            raise ValueError(
                f"{name} assigns to the field {field} of an argument, a {type(owner).__name__}, and later calls replay "
                "its launches only; return another one, or write to the array that the field has"
            )


def _require_kept(name: str, before: list[Captured]) -> None:
    """Raises ValueError if a function has put something else in the place of an array that it reached."""
    lost = next((entry for entry in before if not are_current([entry])), None)
    if lost is not None:
        raise ValueError(
            f"{name} puts something else in the place of an array of shape {lost.value.shape}, as in self.w = …, and "
            "later calls replay its launches only; write to the array: self.w[...] = …"
        )


def _require_returned(name: str, graph: Graph, result: Any, views: list[Array]) -> None:
    """Raises ValueError if somebody holds an array that a function computes and does not return."""
    assert graph.function is not None
    held = graph.function.made_besides([*leaves(result), *views])
    if held:
        raise ValueError(
            f"{name} stores an array of shape {held[0].shape} that it computes, as in self.w = …, and later calls "
            "replay its launches only; return the array, or write to one that exists: self.w[...] = …"
        )


def _kept(graph: Graph, result: Any, views: list[Array]) -> tuple[Any, list[int]]:
    """Returns the results for `_Recorded`, and the sizes of their memory."""
    function = graph.function
    assert function is not None
    identities = {id(view): number for number, view in enumerate(views)}
    inputs = graph.input_buffers
    sizes: dict[int, int] = {}

    def kept(leaf: Any) -> Any:
        if not isinstance(leaf, Array):
            return leaf
        if (number := identities.get(id(leaf))) is not None:
            return _View(-1, number, (), (), leaf.dtype)
        array = temporary_of(graph, leaf)
        if array is None:
            return leaf
        view = _View(0, array.offset, array.shape, array.strides, array.dtype)
        if array.buffer in inputs:
            return replace(view, number=inputs.index(array.buffer))
        number = function.keep(array.buffer)
        sizes[number] = array.buffer.used_bytes
        is_whole = array.contiguous and (array.offset, array.nbytes) == (0, array.buffer.used_bytes)
        return replace(view, number=len(inputs) + number, is_whole=is_whole)

    tree = replaced(result, kept)
    return tree, [sizes[number] for number in range(len(sizes))]
