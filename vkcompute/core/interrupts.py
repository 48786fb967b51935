"""Ctrl-C safety: steps that a signal handler cannot divide.

Ctrl-C raises KeyboardInterrupt from a signal handler, and so may any other handler. CPython runs handlers in the main
thread, between two bytecode instructions, and only at some places. These are the start of a Python function, the end of
a call, and the jump back of a loop; before Python 3.11 also conditional jumps that are taken. Two kinds of steps are
therefore indivisible:

1. A call made from C, and the storing of its result by the same C function: `call_into`. It is for functions of the
   driver whose effect must not be forgotten: a submit, the creation or the destruction of an object.
2. A sequence of assignments, `+=` on lists, and `del`, on values that are known before: no calls, no loops, no
   conditional expressions, no properties. It is for changes of several attributes that belong together. A comment
   "indivisible" marks each of them.

Together they make a transaction:

    done: list[int] = []
    try:
        call_into(done, function, *arguments)   # the driver's effect
    finally:
        if done:                                # the truth, also after Ctrl-C
            self.count += 1                     # indivisible from here on
            self.items += (item,)

Anything else that an interrupt cuts short must be safe to repeat. `tests/faults.py` interrupts at each of the places in
turn.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
from typing import Any, TypeVar

_T = TypeVar("_T")


def call_into(results: list[_T], function: Callable[..., _T], *arguments: Any) -> None:
    """Calls `function(*arguments)` and appends the result, with no signal handler in between.

    If a handler raises before the call, `results` is unchanged. Handlers may also run inside of a Python function, but
    not between its return and the append.
    """
    results += starmap(function, (arguments,))  # `+=` on a list calls and appends in C
