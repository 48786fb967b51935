"""The plans of calls: which calls are traced, and which repeat a plan. `VKCOMPUTE_CALL_PLANS=0` turns them off."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Generic, TypeVar

from vkcompute.compiled.call_trace import CallTrace
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime

are_used = os.environ.get("VKCOMPUTE_CALL_PLANS", "1") != "0"
"""False to run every function from its beginning; the results are the same"""
_MOST_TRIES = 2  # the first call may compile, or fill caches
_MOST_USELESS = 16  # attempts without a plan, before the first plan
_MOST_UNUSED = 32
"""So many more plans than repetitions of them: from then on, a call is traced when its key is seen the second time."""

_T = TypeVar("_T")
_Plan = TypeVar("_Plan")


class UnknownKeyError(Exception):
    """A call has an argument, an operand or a result of a kind that plans do not know."""


class CallPlans(Generic[_Plan]):
    """The plans of a function, in the bounded cache of each runtime, with those of launches.

    Args:
        kind: the class of the plans.

    Attributes:
        are_useful: False if none are kept, as those of the first calls are of no use.
    """

    __slots__ = ("_kind", "_n_unused", "_n_useless", "are_useful")

    def __init__(self, kind: type[_Plan]) -> None:
        self._kind = kind
        self._n_useless = self._n_unused = 0.0
        self.are_useful = True

    def get(self, runtime: Runtime, key: tuple[Any, ...]) -> _Plan | None:
        """Returns the plan of a call; None if there is none, or it cannot be used now."""
        plan = runtime.plans.get(key)
        scheduler = runtime.scheduler
        if type(plan) is not self._kind or scheduler.recordings or scheduler.moves:
            return None
        self._n_unused -= 1
        return plan

    def is_to_trace(self, runtime: Runtime, key: tuple[Any, ...]) -> bool:
        """True if a call without a plan is to be traced now; a thread traces one call at a time."""
        scheduler = runtime.scheduler
        if scheduler.recordings or scheduler.moves or get_ident() in scheduler.tracers:
            return False
        n_tries = runtime.plans.get(key)
        if n_tries is None and self._n_unused > _MOST_UNUSED:
            runtime.plans[key] = 0
            return False
        return type(n_tries) is not int or n_tries < _MOST_TRIES

    def keep(self, runtime: Runtime, key: tuple[Any, ...], plan: _Plan | None) -> None:
        """Keeps the plan of a call that was traced; None if it has none."""
        if plan is None:
            self._n_useless += 1
            self.are_useful = self._n_useless < _MOST_USELESS
            n_tries = runtime.plans.get(key)
            runtime.plans[key] = n_tries + 1 if type(n_tries) is int else 1
        else:
            self.are_useful, self._n_useless = True, float("-inf")
            self._n_unused = max(self._n_unused, 0) + 1
            runtime.plans[key] = plan


def sharing(arrays: Sequence[Array], owners: Sequence[int]) -> tuple[int, ...]:
    """Returns a part of a key: for each array the first one with the same memory, and the distance from it in bytes.

    Args:
        owners: ids of the arrays' memory.
    """
    first = [owners.index(owner) for owner in owners]
    return (*first, *[x._offset - arrays[at]._offset for x, at in zip(arrays, first, strict=True)])


def traced(
    runtime: Runtime,
    arrays: Sequence[Array],
    made: Sequence[Array],
    function: Callable[[], _T],
    *,
    knows_lazy: bool = False,
) -> tuple[_T, CallTrace]:
    """Returns `function()`, and the trace of the call.

    Args:
        arrays: its arguments.
        made: lazy arrays that are the call's own.
        knows_lazy: True if the key of the call has the structures of lazy arguments, which may stay lazy.
    """
    tracers, thread = runtime.scheduler.tracers, get_ident()
    trace = CallTrace(runtime.scheduler, arrays, made, knows_lazy=knows_lazy)
    try:
        tracers[thread] = trace  # inside: Ctrl-C cannot separate it from the `finally`
        result = function()
    finally:
        tracers.pop(thread, None)
        trace.close()
    trace.finish()
    return result, trace
