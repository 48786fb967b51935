"""Launches of functions made by `vc.elementwise` and `vc.vectorize`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import is_
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.errors import hides_calls
from vkcompute.ir import SCALARS, UINT32
from vkcompute.jit.compilation.arguments import MOST_ELEMENTS, bound, group_of
from vkcompute.jit.compilation.build import Signature, real_of
from vkcompute.jit.compilation.specialization import TRUTH, VALUE
from vkcompute.jit.elementwise.blocks import SINGLE, Block, BlockAccess, blocks_of, fits
from vkcompute.jit.elementwise.broadcasting import Broadcast, Mask, broadcast
from vkcompute.jit.elementwise.dispatch import dispatch, unaliased, window, windows
from vkcompute.jit.elementwise.program import MOST_COST, Body, Program, Programs, cost, memory_type, result
from vkcompute.jit.elementwise.sharded import by_device, joined
from vkcompute.jit.frontend.intrinsics import INTRINSICS
from vkcompute.jit.frontend.source import Definition, parameters_of
from vkcompute.jit.launching.launcher import is_exact, kind_of, pushed
from vkcompute.jit.launching.plan import Plan, places
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime, runtime_of

LOCAL_SIZE = 64

__tracebackhide__ = hides_calls


class Call(NamedTuple):
    """Signature and broadcast shape of calls with arguments of the same types and shapes."""

    signature: Signature
    broadcast: Broadcast


class Arguments:
    """Arguments of calls of a function.

    Attributes:
        name: name of the function, for errors.
        plan_key: first part of the keys of its plans.
    """

    def __init__(self, function: FunctionType, name: str) -> None:
        self.name, self.plan_key = name, object()
        self._parameters = parameters_of(function)
        self._n = len(self._parameters.parameters)

    def bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the arguments in order.

        Raises:
            TypeError: they do not fit the parameters.
        """
        if not named and len(args) == self._n:
            return args
        if len(args) > self._n:
            raise TypeError(
                f"{self.name} takes {self._n} by position; got {len(args)}; pass the others by name, as out=y"
            )
        return bound(self.name, self._parameters, args, named)

    def tensors(self, args: tuple[Any, ...]) -> list[Tensor]:
        """Returns the tensors among the arguments.

        Raises:
            TypeError: there is none.
        """
        found = [arg for arg in args if type(arg) is Tensor]
        if not found:
            for arg in args:
                kind_of(arg)  # its error has a remedy for arrays
            raise TypeError(f"{self.name} takes a tensor, on whose device it runs; got none")
        return found

    def call(self, runtime: Runtime, args: tuple[Any, ...], outs: tuple[Tensor, ...] = ()) -> Call:
        """Returns the signature and the broadcast shape, results included.

        Raises:
            TypeError: an argument is neither a tensor nor a number, or a result is not a tensor.
            ValueError: the shapes do not broadcast, or there are too many elements.
        """
        kinds = tuple([(arg.dtype.char, arg.shape) if type(arg) is Tensor else kind_of(arg) for arg in args])
        for out in outs:
            _check_tensor(self.name, out)
        key = self.plan_key, kinds, *[out.shape for out in outs]
        found: Call | None = runtime.plans.get(key)
        if found is None:
            shape = broadcast([kind[1] for kind in kinds if type(kind) is tuple] + [out.shape for out in outs])
            if len(shape.lengths) > 1:
                check_size(self.name, shape.size)
            signature = tuple([(kind[0], 1) if type(kind) is tuple else kind for kind in kinds])
            found = runtime.plans[key] = Call(signature, shape)
        return found


def values(args: tuple[Any, ...]) -> list[Any]:
    """Returns the push constants for the numbers among the arguments."""
    numbers = [arg for arg in args if type(arg) is not Tensor]
    return [pushed(arg, TRUTH if isinstance(arg, (bool, np.bool_)) else VALUE) for arg in numbers]


def check_size(name: str, n: int) -> None:
    """Raises ValueError if a launch that cannot be split into windows has too many elements."""
    if n > MOST_ELEMENTS:
        raise ValueError(
            f"{name} takes at most {MOST_ELEMENTS} elements here, the limit of int32; got {n}; pass parts of them"
        )


def check_out(name: str, out: Tensor, shape: tuple[int, ...], dtype: str) -> None:
    """Raises ValueError or TypeError if `out` cannot hold a result of this shape and dtype."""
    _check_tensor(name, out)
    if out.shape != shape:
        raise ValueError(f"{name} returns a result of shape {shape}; out has {out.shape}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"{name} returns {dtype}, and out holds {out.dtype}; convert in {name}, as {out.dtype}(…)")


def _check_tensor(name: str, out: Any) -> None:
    if type(out) is not Tensor:
        raise TypeError(f"{name}: out is a tensor; got {type(out).__name__}")


def element_program(
    definition: Definition,
    signature: Signature,
    masks: tuple[Mask, ...],
    wanted: tuple[str, ...],
    block: Block,
) -> Program:
    """Builds the kernel that applies a function to each element.

    Its arguments are the tensors, the results, the numbers, the lengths of the axes except the first, and the number of
    blocks.

    Args:
        wanted: dtypes of the results; empty for those of the function.
        block: the elements of an invocation; a function that computes more than it loads gets one.
    """
    if block.size > 1:
        made = _block_program(definition, signature, masks, wanted, block)
        if made is not None:
            return made
    body = Body(definition, signature, masks)
    c = body.compiler(LOCAL_SIZE, real_of(signature))
    arguments = body.arguments(c)
    n = c.function.push("n", UINT32)
    offset = c.cast(INTRINSICS[global_id].emit(c), UINT32)
    with c.builder.if_(c.builder.compute("lt", offset, n)).then:
        found = body.at(c, arguments, offset)
        results = found if isinstance(found, tuple) else (found,)
        dtypes = wanted or tuple([body.number(c, each).name for each in results])
        for dtype, each in zip(dtypes, results, strict=True):
            c.store(result(c, dtype), offset, body.typed(c, each, SCALARS[dtype]))
    return Program(c, dtypes, not isinstance(found, tuple))


def _block_program(
    definition: Definition,
    signature: Signature,
    masks: tuple[Mask, ...],
    wanted: tuple[str, ...],
    block: Block,
) -> Program | None:
    """Builds the kernel that applies a function to blocks of elements; None if it is not limited by memory."""
    body = Body(definition, signature, masks)
    c = body.compiler(LOCAL_SIZE, real_of(signature))
    load = body.block_arguments(c, block)
    n = c.function.push("n_blocks", UINT32)
    number = c.cast(INTRINSICS[global_id].emit(c), UINT32)
    with c.builder.if_(c.builder.compute("lt", number, n)).then:
        rows: list[Any] = []
        for values in zip(*[each(number) for each in load], strict=True):
            before = cost(c.function)
            rows.append(body.call(c, *values))
            if cost(c.function) - before > MOST_COST:
                return None
        single = not isinstance(rows[0], tuple)
        columns = [rows] if single else list(zip(*rows, strict=True))
        dtypes = wanted or tuple([body.number(c, column[0]).name for column in columns])
        for dtype, column in zip(dtypes, columns, strict=True):
            kind = SCALARS[dtype]
            out = BlockAccess(c.function, "out", memory_type(kind), block, is_result=True)
            out.store(
                c.builder, number, [c.builder.cast(body.typed(c, each, kind).value, out.element) for each in column]
            )
    return Program(c, dtypes, single, block.size)


class ElementLauncher:
    """Applies a function to elements of tensors."""

    def __init__(self, definition: Definition) -> None:
        function = definition.function
        self._arguments = Arguments(function, function.__name__)
        self._programs = Programs(partial(element_program, definition), [function], "elements")

    def __call__(self, args: tuple[Any, ...], named: Mapping[str, Any], out: Any) -> Any:
        """Launches the function, and returns its result."""
        args = self._arguments.bound(args, named)
        outs = out if isinstance(out, tuple) else () if out is None else (out,)
        if outs and (plan := self._repeated(args, outs)) is not None:
            return outs[0] if plan.single else outs
        if group_of(args) is not None:
            return self._sharded(args, out)
        tensors = self._arguments.tensors(args)
        runtime = runtime_of(tensors[0])
        signature, broadcast = self._arguments.call(runtime, args, outs)
        masks = broadcast.masks[: len(tensors)]
        block = blocks_of(runtime, masks, tensors, outs)
        found = self._programs.find((signature, masks, (), block, False))
        if out is None:
            outs = tuple([runtime.empty(broadcast.shape, dtype) for dtype in found.dtypes])
            if self._repeated(args, outs) is None:
                self._launch(args, outs, signature, broadcast, masks, (), block)
        else:
            wanted = self._checked(outs, broadcast.shape, found.dtypes)
            self._launch(args, outs, signature, broadcast, masks, wanted, block)
        return outs[0] if found.single else outs

    def _repeated(self, args: tuple[Any, ...], outs: tuple[Any, ...]) -> Plan | None:
        """Repeats a launch by its plan, and returns that; None if there is none."""
        bound = *args, *outs
        try:
            plan: Plan | None = outs[0].runtime.plans.get((self._arguments.plan_key, *places(bound)))
        except AttributeError:  # a tensor of a group, or an error
            return None
        return plan if plan is not None and plan.launch(bound, None) else None

    def _checked(self, outs: tuple[Any, ...], shape: tuple[int, ...], dtypes: tuple[str, ...]) -> tuple[str, ...]:
        """Checks tensors for results of these dtypes, and returns theirs; () if they are the same."""
        name = self._arguments.name
        if len(outs) != len(dtypes):
            raise TypeError(f"{name} returns {len(dtypes)} results; out has {len(outs)}")
        for each, dtype in zip(outs, dtypes, strict=True):
            check_out(name, each, shape, dtype)
        wanted = tuple([each.dtype.name for each in outs])
        return wanted if wanted != dtypes else ()

    def _launch(
        self,
        args: tuple[Any, ...],
        outs: tuple[Tensor, ...],
        signature: Signature,
        broadcast: Broadcast,
        masks: tuple[Mask, ...],
        wanted: tuple[str, ...],
        block: Block,
    ) -> None:
        """Launches the function in windows; keeps a plan if there is one window, and no argument is copied."""
        block = block if all(fits(out, block) for out in outs) else SINGLE
        given = [arg for arg in args if type(arg) is Tensor]
        tensors, n = unaliased(given, masks, outs), broadcast.size
        bound, pushes, extents = [*tensors, *outs], values(args), broadcast.lengths[1:]
        name, key = self._arguments.name, (signature, masks, wanted, block)
        per_group = LOCAL_SIZE * (size := self._programs.find((*key, False)).block)
        seen = windows(n, bound)
        if len(seen) == 1 and is_exact(args, signature) and all(map(is_, given, tensors)):
            every, n_groups = (*args, *outs), -(-n // per_group)
            plan_key = self._arguments.plan_key, *places(every)
            dispatch(name, self._programs, key, every, [*pushes, *extents, -(-n // size)], n_groups, plan_key)
            return
        for start, stop in seen:
            part = [window(each, start, stop, n) for each in bound]
            n_groups = -(-(stop - start) // per_group)
            dispatch(name, self._programs, key, part, [*pushes, *extents, -(-(stop - start) // size)], n_groups)

    def _sharded(self, args: tuple[Any, ...], out: Any) -> Any:
        """Launches the function on each device of a group."""
        outs = out if isinstance(out, tuple) else () if out is None else (out,)

        def here(given: tuple[Any, ...], results: tuple[Any, ...]) -> Any:
            return self(given, {}, results if isinstance(out, tuple) else (*results, None)[0])

        shards, like = by_device(here, args, outs)
        return joined(shards, like) if out is None else out
