"""Bounds of loop iterations: never less, or never more, than invocations that run in step have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import interpreter
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import N_INVOCATIONS, N_SOURCE, SLOTS, functions

from vkcompute import ir
from vkcompute.ir import Builder, Value

pytestmark = pytest.mark.pure
SOURCE = np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7


@given(function=functions(), bias=st.integers(-3, 3), known=st.booleans(), optimized=st.booleans())
def test_the_bound_is_never_passed(function: ir.Function, bias: int, known: bool, optimized: bool) -> None:
    if optimized:
        ir.optimize(function)
    most = ir.most_iterations(function, {function.pushes[0]: (bias, bias)} if known else {})
    out = np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32)
    traces = interpreter.run(function, {"src": SOURCE, "out": out}, N_INVOCATIONS, {"bias": bias})
    assert most is not None  # every loop of these programs counts to a constant
    assert most >= interpreter.iterations_in_step(function.body, traces), ir.text(function)


def iterations(trace: interpreter.Trace) -> int:
    """How often an invocation starts loops over, all loops together."""
    return sum(len(item) - 1 + sum(map(iterations, item)) for item in trace.values())


@given(function=functions(), bias=st.integers(-3, 3), limit=st.integers(0, 12), optimized=st.booleans())
def test_a_loop_that_certainly_exceeds_a_limit_does(
    function: ir.Function, bias: int, limit: int, optimized: bool
) -> None:
    if optimized:
        ir.optimize(function)
    loop = ir.certain_excess(function, {function.pushes[0]: (bias, bias)}, limit)
    out = np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32)
    first, *_ = interpreter.run(function, {"src": SOURCE, "out": out}, N_INVOCATIONS, {"bias": bias})
    if loop is not None:
        assert loop in first
        assert iterations(first) > limit, ir.text(function)


Step = Callable[[Builder, Value], Value]
_I = ir.INT32
ONE_LOOP: dict[str, tuple[int, str, Any, Step, int | None]] = {  # first, comparison, bound, step; the trips
    "up": (0, "lt", 10, lambda b, p: b.compute("add", p, b.const(1, _I)), 10),
    "up to and with": (3, "le", 10, lambda b, p: b.compute("add", b.const(2, _I), p), 4),
    "down": (10, "gt", 0, lambda b, p: b.compute("sub", p, b.const(3, _I)), 4),
    "down by adding": (10, "ge", 0, lambda b, p: b.compute("add", p, b.const(-5, _I)), 3),
    "halved": (1000, "gt", 0, lambda b, p: b.compute("div", p, b.const(2, _I)), 10),
    "shifted": (1000, "ne", 0, lambda b, p: b.compute("shr", p, b.const(3, _I)), 10),
    "doubled": (1, "lt", 1000, lambda b, p: b.compute("mul", p, b.const(2, _I)), 10),
    "doubled from 0": (0, "lt", 1000, lambda b, p: b.compute("mul", p, b.const(2, _I)), None),
    "away": (0, "lt", 10, lambda b, p: b.compute("sub", p, b.const(1, _I)), None),
    "never more": (0, "lt", 10, lambda b, p: p, None),
    "may wrap": (0, "le", 2**31 - 1, lambda b, p: b.compute("add", p, b.const(1, _I)), None),
    "may jump over": (0, "lt", 2**31 - 2, lambda b, p: b.compute("add", p, b.const(5, _I)), None),
    "not at all": (20, "lt", 10, lambda b, p: b.compute("add", p, b.const(1, _I)), 0),
    "negative, shifted": (-5, "ne", 0, lambda b, p: b.compute("shr", p, b.const(1, _I)), None),
}


def one_loop(first: int, comparison: str, bound: int | None, step: Step) -> ir.Function:
    """A loop that goes on while the comparison holds, with a push constant `n` where there is no bound."""
    function = ir.Function("loop", (1, 1, 1))
    out, n = function.buffer("out", _I), function.push("n", _I)
    b = Builder(function)
    loop = b.loop(b.const(first, _I))
    with loop.body:
        goes_on = b.if_(b.compute(comparison, loop.params[0], n if bound is None else b.const(bound, _I)))
        with goes_on.otherwise:
            b.break_(loop)
        b.store(out, b.const(0, _I), loop.params[0])
        b.yield_(step(b, loop.params[0]))
    ir.verify(function)
    return function


@pytest.mark.parametrize("name", ONE_LOOP)
def test_trips_of_a_loop(name: str) -> None:
    first, comparison, bound, step, trips = ONE_LOOP[name]
    function = one_loop(first, comparison, bound, step)
    assert ir.most_iterations(function, {}) == (None if trips is None else trips + 1)


@given(first=st.integers(-5, 5), n=st.integers(-20, 20), width=st.integers(0, 5), step=st.integers(1, 4))
def test_bounds_that_the_launch_knows(first: int, n: int, width: int, step: int) -> None:
    function = one_loop(first, "lt", None, lambda b, p: b.compute("add", p, b.const(step, _I)))
    assert (ir.most_iterations(function, {}) or 2**31) > 2**31 // 5
    most = ir.most_iterations(function, {function.pushes[0]: (n, n + width)})
    assert most == len(range(first, n + width, step)) + 1
    least = len(range(first, n, step))
    known = {function.pushes[0]: (n, n + width)}
    assert ir.certain_excess(function, known, least) is None
    assert least == 0 or ir.certain_excess(function, known, least - 1) is not None


def test_ranges_of_a_kernel(tmp_path: Path) -> None:
    """What `range` compiles to is bounded by what the launch knows, ids included, also where loops are nested."""
    from types import FunctionType

    from vkcompute.compiled.specialization import CompileOptions
    from vkcompute.frontend.source import definition_of
    from vkcompute.jit.compilation.build import build, optimized
    from vkcompute.jit.frontend.compiler import Compiler

    def bound(body: str, n: int) -> int | None:
        function = _function(tmp_path, body)
        assert isinstance(function, FunctionType)
        options = CompileOptions((8, 1, 1))
        built = optimized(build(Compiler, definition_of(function), (("i", 1), int), options).function)
        (push,) = built.pushes
        return ir.most_iterations(built, {push: (n, n), ("global_id", 0): (0, 31)})

    assert bound("for k in range(n): x[i] += k", 100) == 101
    assert bound("for k in range(2, n, 3): x[i] += k", 100) == 34
    assert bound("for k in range(n, 2, -3): x[i] += k", 100) == 34
    assert bound("for k in range(i): x[i] += k", 0) == 32
    assert bound("for k in range(i, n): x[i] += k", 100) == 101
    assert bound("for k in range(n):\n        for j in range(k): x[i] += j", 10) == 11 * (1 + 11)
    assert bound("for k in range(x[i]): x[i] += k", 10) == 2**31
    assert bound("k = 0\n    while k < n and x[i] > 0:\n        k += 2", 10) == 6
    assert bound("k = n\n    while k > 0:\n        x[k] = 0\n        k //= 2", 1000) == 11
    assert bound("x[i] = x[i] ** n", 5) == 4


def test_ranges_of_a_kernel_that_exceed_a_limit(tmp_path: Path) -> None:
    from types import FunctionType

    from vkcompute.compiled.specialization import CompileOptions
    from vkcompute.frontend.source import definition_of
    from vkcompute.jit.compilation.build import build, optimized
    from vkcompute.jit.frontend.compiler import Compiler

    def exceeds(body: str, n: int, limit: int) -> bool:
        function = _function(tmp_path, body)
        assert isinstance(function, FunctionType)
        options = CompileOptions((8, 1, 1))
        built = optimized(build(Compiler, definition_of(function), (("i", 1), int), options).function)
        given = {push: (n, n) if push.name == "n" else (32, 32) for push in built.pushes}
        return ir.certain_excess(built, given, limit) is not None

    assert exceeds("for k in range(n): x[i] += k", 100, 99)
    assert not exceeds("for k in range(n): x[i] += k", 100, 100)
    assert exceeds("for k in range(n, 2, -3): x[i] += k", 100, 32)
    assert exceeds("for k in range(n):\n        for j in range(n): x[i] += j", 10, 109)
    assert exceeds("for k in range(n): x[i] += k\n    for k in range(n): x[i] += k", 100, 199)
    assert exceeds("if i < x.size:\n        for k in range(n): x[i] += k", 100, 99)
    assert exceeds("if i >= x.size: return\n    for k in range(n): x[i] += k", 100, 99)
    assert exceeds("k = 0\n    while k < n: k += 2", 100, 49)
    assert exceeds("k = n\n    while k > 0: k -= 2", 100, 49)
    for uncertain in (
        "if i > 0:\n        for k in range(n): x[i] += k",
        "if x[i] > 0:\n        for k in range(n): x[i] += k",
        "if x[i] > 0: return\n    for k in range(n): x[i] += k",
        "for k in range(x[i]): x[i] += n",
        "k = 0\n    while k < n and x[i] > 0: k += 1",
        "for k in range(n):\n        if x[i] > k: break\n        x[i] += k",
        "for k in range(n):\n        if x[i] > k: return\n        x[i] += k",
    ):
        assert not exceeds(uncertain, 100, 1), uncertain


def _function(folder: Path, body: str) -> object:
    path = folder / f"kernel_{abs(hash(body))}.py"
    path.write_text(f"import vkcompute as vc\ndef kernel(x, n):\n    i = vc.global_id(0)\n    {body}\n")
    scope: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["kernel"]
