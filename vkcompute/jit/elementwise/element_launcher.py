"""Launches of functions made by `vc.elementwise` and `vc.vectorize`."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from math import prod
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from vkcompute.compiled.arguments import bound, group_of
from vkcompute.compiled.block_access import SINGLE, BlockAccess, ElementBlock
from vkcompute.compiled.blocks import fits
from vkcompute.compiled.host_arrays import HostArrays, is_host_array
from vkcompute.compiled.launches import Compiled, pushed
from vkcompute.compiled.plan import argument_keys
from vkcompute.dtypes import can_cast
from vkcompute.errors import hides_calls
from vkcompute.ir import SCALARS, UINT32, Scalar
from vkcompute.jit.compilation.build import Signature, has_parts, real_of, sources
from vkcompute.jit.elementwise.blocks import is_view, mixed_blocks_of
from vkcompute.jit.elementwise.broadcasting import Broadcast, Mask, Run, broadcast
from vkcompute.jit.elementwise.dispatch import (
    axis_to_halve,
    dispatch,
    halves,
    options_on,
    part_along,
    unaliased,
    window,
    windows,
)
from vkcompute.jit.elementwise.program import MOST_COST, Body, Formula, ProgramSource, UnoptimizedKernel, cost, result
from vkcompute.jit.elementwise.reduction_methods import IDENTITY
from vkcompute.jit.elementwise.sharded import by_device, joined
from vkcompute.jit.frontend.intrinsics import INTRINSICS
from vkcompute.jit.frontend.values import ELEMENTS, PARTS, Complex
from vkcompute.jit.launcher import is_exact, kind_of
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.launching.arguments import first_index, is_unaligned
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.memory.holders import all_held, is_holder
from vkcompute.runtime.runtime import Runtime, current_runtime, runtime_of

LOCAL_SIZE = 64
_BYTE = np.dtype(np.uint8)

__tracebackhide__ = hides_calls


class Call(NamedTuple):
    """Signature and broadcast shape of calls with arguments of the same types, shapes and strides.

    Attributes:
        views: for each result, True if its strides are push constants.
    """

    signature: Signature
    broadcast: Broadcast
    views: tuple[bool, ...] = ()


class Arguments:
    """Arguments of calls of a formula.

    Attributes:
        name: name of the formula, for errors.
        n: number of parameters.
        plan_key: first part of the keys of its plans.
    """

    def __init__(self, formula: Formula, name: str) -> None:
        self.name, self.plan_key = name, object()
        self._parameters = formula.signature
        self.n = len(self._parameters.parameters)
        self._named = [*self._parameters.parameters]

    def bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the arguments in order.

        Raises:
            TypeError: they do not fit the parameters.
        """
        if not named and len(args) == self.n:
            return args
        if len(args) > self.n:
            raise TypeError(
                f"{self.name} takes {self.n} by position; got {len(args)}; pass the others by name, as out=y"
            )
        return bound(self.name, self._parameters, args, named)

    def on_device(self, args: tuple[Any, ...], outs: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Returns the arguments with a device array for each NumPy array, on the device of the others, or of `outs`.

        Arrays whose elements are not at multiples of their size are copied.
        """
        if any(map(is_holder, args)):
            args = all_held(args)
        if any(map(is_host_array, args)):
            runtime = next((runtime_of(arg) for arg in (*args, *outs) if type(arg) is Array), None)
            args = HostArrays(self.name, runtime or current_runtime(), args).args
        if any(type(arg) is Array and is_unaligned(arg) for arg in args):
            args = tuple([_aligned(arg) if type(arg) is Array else arg for arg in args])
        return args

    def _kinds(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the parts of a signature; raises TypeError for an argument that is neither an array nor a number."""
        named = zip(args, self._named, strict=True)
        return tuple([_kind(arg) if type(arg) is Array else kind_of(arg, name, self.name) for arg, name in named])

    def arrays(self, args: tuple[Any, ...]) -> list[Array]:
        """Returns the arrays among the arguments.

        Raises:
            TypeError: there is none.
        """
        arrays = [arg for arg in args if type(arg) is Array]
        if not arrays:
            self._kinds(args)  # its error has a remedy for arrays
            raise TypeError(f"{self.name} takes a device array, on which it runs; got none")
        return arrays

    def call(self, runtime: Runtime, args: tuple[Any, ...], outs: tuple[Array, ...] = ()) -> Call:
        """Returns the signature and the broadcast shape, results included.

        Raises:
            TypeError: an argument is neither an array nor a number, or a result is not an array.
            ValueError: the shapes do not broadcast, or there are too many elements.
        """
        kinds = self._kinds(args)
        for out in outs:
            _check_array(self.name, out)
        results = tuple([_kind(out) for out in outs])
        key = self.plan_key, kinds, results
        call: Call | None = runtime.plans.get(key)
        if call is None:
            arrays = [kind for kind in (*kinds, *results) if type(kind) is tuple]
            views = {at: kind[2] for at, kind in enumerate(arrays) if len(kind) > 2}
            shape = broadcast([kind[1] for kind in arrays], views)
            signature = tuple([(kind[0], 1, True)[: len(kind)] if type(kind) is tuple else kind for kind in kinds])
            call = runtime.plans[key] = Call(signature, shape, tuple([len(kind) > 2 for kind in results]))
        return call


def _kind(array: Array) -> tuple[Any, ...]:
    """Returns the dtype and the shape of an array, and of a view the strides in elements."""
    if is_view(array):
        return array.dtype.char, array.shape, tuple([step // array.dtype.itemsize for step in array.strides])
    return array.dtype.char, array.shape


def layouts(arrays: Sequence[Array], strides: Sequence[Sequence[int]]) -> list[int]:
    """Returns the push constants for the layouts of the views among arrays; `strides` are theirs, in order."""
    pushes, steps = list[int](), iter(strides)
    for array in arrays:
        if len(_kind(array)) > 2:
            pushes += [first_index(array), *[step & 0xFFFFFFFF for step in next(steps)]]
    return pushes


def values(args: tuple[Any, ...]) -> list[Any]:
    """Returns the push constants for the numbers among the arguments."""
    numbers = [arg for arg in args if type(arg) is not Array]
    return [pushed(arg, what) for arg in numbers for what in sources(type(arg))]


def check_out(name: str, out: Array, shape: tuple[int, ...], dtype: str) -> None:
    """Raises ValueError or TypeError if `out` cannot hold a result of this shape and dtype."""
    _check_array(name, out)
    if out.shape != shape:
        raise ValueError(f"{name} returns a result of shape {shape}; out has {out.shape}")
    if not can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"{name} returns {dtype}, and out holds {out.dtype}; convert in {name}, as {out.dtype}(…)")


def _check_array(name: str, out: Any) -> None:
    if type(out) is not Array:
        raise TypeError(f"{name}: out is a device array; got {type(out).__name__}")


def element_program(
    formula: Formula,
    signature: Signature,
    masks: tuple[Mask, ...],
    wanted: tuple[str, ...],
    views: tuple[bool, ...],
    block: ElementBlock,
    *,
    real: Scalar | None = None,
) -> UnoptimizedKernel:
    """Builds the kernel that applies a function to each element.

    Its arguments are the arrays, the results, the numbers, the lengths of the axes except the first, the layouts of
    views, and the number of elements.

    Args:
        wanted: dtypes of the results; empty for those of the function.
        views: for each result, True if it may be any view; empty for none.
        block: the elements of an invocation; a function that computes more than it loads gets one.
        real: the default float; None for that of kernels with these arguments.
    """
    real = real or real_of(signature)
    if block.size > 1:
        made = _block_program(formula, signature, masks, wanted, views, block, real)
        if made is not None:
            return made
    body = Body(formula, signature, masks)
    c = body.compiler(LOCAL_SIZE, real)
    arguments = body.arguments(c)
    placed = body.results(c, views)
    n = c.function.push("n", UINT32)
    offset = c.cast(INTRINSICS[global_id].emit(c), UINT32)
    with c.builder.if_(c.builder.compute("lt", offset, n)).then:
        computed = body.at(c, arguments, offset)
        single = not isinstance(computed, tuple) or isinstance(computed, Complex)
        results = (computed,) if single else computed
        dtypes = wanted or tuple([body.number(c, value).name for value in results])
        for dtype, value, layout in zip(dtypes, results, placed or [None] * len(dtypes), strict=True):
            c.arrays.store(result(c, dtype), body.place(c, offset, layout), body.typed(c, value, ELEMENTS[dtype]))
    return UnoptimizedKernel(c, dtypes, single, strided=tuple(body.strided))


def _block_program(
    formula: Formula,
    signature: Signature,
    masks: tuple[Mask, ...],
    wanted: tuple[str, ...],
    views: tuple[bool, ...],
    block: ElementBlock,
    real: Scalar,
) -> UnoptimizedKernel | None:
    """Builds the kernel that applies a function to blocks of elements; None if it is not limited by memory."""
    if any(map(has_parts, signature)) or any(ELEMENTS[dtype] in PARTS for dtype in wanted):
        return None
    body = Body(formula, signature, masks)
    c = body.compiler(LOCAL_SIZE, real)
    load = body.block_arguments(c, block)
    placed = body.results(c, views)
    n, b = c.function.push("n", UINT32), c.builder
    number = c.cast(INTRINSICS[global_id].emit(c), UINT32)
    first = b.compute("mul", number, b.const(block.size, UINT32))
    with b.if_(b.compute("lt", first, n)).then:
        run = Run(b, first, block.size, n, body.lengths) if block.singly else None
        for argument in load:
            argument.run = run
        rows: list[Any] = []
        for values in zip(*[argument.first(number) for argument in load], strict=True):
            before = cost(c.function)
            rows.append(body.call(c, *values))
            if cost(c.function) - before > MOST_COST or isinstance(rows[-1], Complex):
                return None
        single = not isinstance(rows[0], tuple)
        columns = [rows] if single else list(zip(*rows, strict=True))
        dtypes = wanted or tuple([body.number(c, column[0]).name for column in columns])
        for at, (dtype, column) in enumerate(zip(dtypes, columns, strict=True), len(masks)):
            kind = SCALARS[dtype]
            converted = [body.typed(c, value, kind) for value in column]
            if run is None or at not in block.singly:
                out = BlockAccess(c.function, "out", kind, block, is_result=True)
                out.store(b, number, [value.value for value in converted])
                continue
            out_singly, layout = result(c, dtype), placed[at - len(masks)] if placed else None
            whole = (True,) * (1 + len(body.lengths))
            for inside, offset, value in zip(run.inside, run.offsets(whole, layout), converted, strict=True):
                with b.if_(inside).then:
                    c.arrays.store(out_singly, offset, value)
    return UnoptimizedKernel(c, dtypes, single, block.size, tuple(body.strided))


class ElementLauncher:
    """Applies a function to elements of arrays.

    Args:
        real: the default float; None for that of kernels. With float64, types promote as in NumPy.
    """

    def __init__(self, formula: Formula, real: Scalar | None = None) -> None:
        self._arguments = Arguments(formula, formula.name)
        source = ProgramSource(formula.name, partial(element_program, formula, real=real), formula.functions)
        self._programs = Compiled(source, "elements", formula.text if real is None else f"{formula.text}, {real.name}")
        self._results_key = object()

    def __call__(self, args: tuple[Any, ...], named: Mapping[str, Any], out: Any) -> Any:
        """Launches the function, and returns its result."""
        if named or len(args) != self._arguments.n:
            args = self._arguments.bound(args, named)
        like, outs = None, () if out is None else out if isinstance(out, tuple) else (out,)
        bound = *args, *outs
        keys = [arg.launch_key if type(arg) is Array else type(arg) for arg in bound]  # as `argument_keys`
        if out is None:
            outs, like = self._new_results(args, keys)
            bound = *args, *outs
        try:
            plan = bound[-1].runtime.plans.get((self._arguments.plan_key, *keys)) if outs else None
        except AttributeError:  # an array of a group, or an error
            plan = None
        if plan is not None and like is not None and plan.specialization() is not like:
            plan = None  # another plan may have converted its own results
        if plan is not None and plan.enqueue(bound, None) is not None:
            return outs[0] if plan.single else outs
        if group_of(args) is not None:
            return self._sharded(args, out)
        if any(type(array) is Array and is_unaligned(array) for array in outs):
            return self._apart(args, outs, out)
        args = self._arguments.on_device(args, outs)
        arrays = self._arguments.arrays(args)
        runtime = runtime_of(arrays[0])
        given = () if out is None else outs
        call = self._arguments.call(runtime, args, given)
        signature, broadcast, _ = call
        masks = broadcast.masks[: len(arrays)]
        block = mixed_blocks_of(runtime, masks, broadcast.lengths, arrays, given)
        specialization = self._programs.specialized(signature, masks, (), (), block, options_on(runtime))
        wanted: tuple[str, ...] = ()
        if out is not None:
            wanted = self._checked(outs, broadcast.shape, specialization.dtypes)
        elif specialization is not like:
            outs = tuple([empty_result(runtime, broadcast.shape, dtype) for dtype in specialization.dtypes])
            results = [(array.shape, array.dtype, array.nbytes) for array in outs]
            results_key = self._results_key, *argument_keys(args)
            runtime.plans[results_key] = weakref.ref(specialization), results
        self._launch(args, outs, call, masks, wanted, block)
        return outs[0] if specialization.single else outs

    def computed(self, args: Sequence[Any], like: Array) -> Array:
        """Launches the function, while nothing is recorded or traced; returns the result as a new array.

        Requires the device's lock.

        Args:
            args: as many as the function has parameters: arrays in memory and numbers.
            like: an array of the runtime, the shape and the dtype of the result, without memory.
        """
        runtime, shape, dtype = like.runtime, like._shape, like._dtype
        nbytes = prod(shape) * dtype.itemsize
        out = Array.whole(runtime, runtime.device.result_buffer(nbytes), shape, dtype, nbytes)
        bound = *args, out
        keys = [arg.launch_key if type(arg) is Array else type(arg) for arg in bound]
        plan = runtime.plans.get((self._arguments.plan_key, *keys))
        if plan is None or plan.enqueue(bound, is_locked=True) is None:
            self(tuple(args), {}, out)
        return out

    def _new_results(self, args: tuple[Any, ...], keys: list[Any]) -> tuple[tuple[Array, ...], Any]:
        """Returns new arrays like the results of the last call with such arguments, and its specialization.

        Before that, there are none. Adds the keys of the arrays to those of the arguments.
        """
        for arg in args:
            if type(arg) is Array:
                known = arg.runtime.plans.get((self._results_key, *keys))
                if known is None or (like := known[0]()) is None:
                    break
                runtime = arg.runtime
                outs: list[Array] = []
                for shape, dtype, nbytes in known[1]:
                    out = Array.whole(runtime, runtime.device.result_buffer(nbytes), shape, dtype, nbytes)
                    outs.append(out)
                    keys.append(out.launch_key)
                return tuple(outs), like
        return (), None

    def _checked(self, outs: tuple[Any, ...], shape: tuple[int, ...], dtypes: tuple[str, ...]) -> tuple[str, ...]:
        """Checks arrays for results of these dtypes, and returns theirs; () if they are the same."""
        name = self._arguments.name
        if len(outs) != len(dtypes):
            raise TypeError(f"{name} returns {len(dtypes)} results; out has {len(outs)}")
        for out, dtype in zip(outs, dtypes, strict=True):
            check_out(name, out, shape, dtype)
        for one, other in combinations(outs, 2):
            if one.overlaps(other) and (one.contiguous or other.contiguous or one.offset == other.offset):
                raise ValueError(f"{name} returns {len(dtypes)} results; two arrays of out overlap: pass one for each")
        wanted = tuple([out.dtype.name for out in outs])
        return wanted if wanted != dtypes else ()

    def _launch(
        self,
        args: tuple[Any, ...],
        outs: tuple[Array, ...],
        call: Call,
        masks: tuple[Mask, ...],
        wanted: tuple[str, ...],
        block: ElementBlock,
    ) -> None:
        """Launches the function in windows; keeps a plan if there is one window, and no argument is copied."""
        given = [arg for arg in args if type(arg) is Array]
        results = [at for at in range(len(outs)) if len(masks) + at not in block.singly]
        block = block if all(fits(outs[at], block) for at in results) else SINGLE
        (signature, broadcast, views), arrays = call, unaliased(given, masks, outs)
        if not all(map(is_, given, arrays)):
            copies = iter(arrays)
            self(tuple([next(copies) if type(arg) is Array else arg for arg in args]), {}, outs)
            return
        n, bound, pushes = broadcast.size, [*arrays, *outs], values(args)
        extents = [*broadcast.lengths[1:], *(layouts(bound, broadcast.strides) if broadcast.strides else ())]
        key = signature, masks, wanted, views if any(views) else (), block
        per_group = LOCAL_SIZE * self._programs.specialized(*key, options_on(runtime_of(bound[0]))).block
        seen = windows(n, bound)
        if len(seen) == 1 and (axis := axis_to_halve(broadcast.shape, bound)) is not None:
            for half in halves(broadcast.shape[axis]):
                here, there = (
                    [part_along(array, axis, half, broadcast.shape) for array in side] for side in (args, outs)
                )
                self(tuple(here), {}, tuple(there))
            return
        if len(seen) == 1 and is_exact(args, signature):
            every, n_groups = (*args, *outs), -(-n // per_group)
            plan_key = self._arguments.plan_key, *argument_keys(every)
            dispatch(self._programs, key, every, [*pushes, *extents, n], n_groups, plan_key)
            return
        for start, stop in seen:
            within = [window(arg, start, stop, n) for arg in bound]
            n_groups = -(-(stop - start) // per_group)
            dispatch(self._programs, key, within, [*pushes, *extents, stop - start], n_groups)

    def _apart(self, args: tuple[Any, ...], outs: tuple[Array, ...], out: Any) -> Any:
        """Applies the function to other results, and copies these to those that are not at multiples of their size."""
        parts = [temporary(array.runtime, array.shape, array.dtype) if is_unaligned(array) else array for array in outs]
        self(args, {}, tuple(parts) if isinstance(out, tuple) else parts[0])
        for part, array in zip(parts, outs, strict=True):
            if part is not array:
                _copy_bytes(part, array)
        return out

    def _sharded(self, args: tuple[Any, ...], out: Any) -> Any:
        """Launches the function on each device of a group."""
        outs = out if isinstance(out, tuple) else () if out is None else (out,)

        def here(given: tuple[Any, ...], results: tuple[Any, ...]) -> Any:
            return self(given, {}, results if isinstance(out, tuple) else (*results, None)[0])

        shards, like = by_device(here, args, outs)
        return joined(shards, like) if out is None else out


_copying = ElementLauncher(IDENTITY)


def _aligned(array: Array) -> Array:
    """Returns an array whose elements are at multiples of their size: a copy, if those of the given one are not."""
    if not is_unaligned(array):
        return array
    copy = temporary(array.runtime, array.shape, array.dtype)
    _copy_bytes(array, copy)
    return copy


def _copy_bytes(source: Array, target: Array) -> None:
    """Copies the bytes of elements, which have an axis of their own."""
    one, other = [
        Array(x.runtime, x.buffer, x.offset, (*x.shape, x.dtype.itemsize), (*x.strides, 1), _BYTE)
        for x in (source, target)
    ]
    _copying((one,), {}, other)
