"""Errors of builder and verifier, and the passes on small functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vkcompute import ir
from vkcompute.ir.elimination import eliminate_common_subexpressions, eliminate_dead_code
from vkcompute.ir.function import Op, Result, walk
from vkcompute.ir.loop_invariants import hoist_loop_invariants

pytestmark = pytest.mark.pure


class Made:
    """A function with a buffer, a push constant and a builder."""

    def __init__(self) -> None:
        self.function = ir.Function("made")
        self.out = self.function.buffer("out", ir.FLOAT32)
        self.n = self.function.push("n", ir.INT32)
        self.b = ir.Builder(self.function)
        self.one, self.half = self.b.const(1, ir.INT32), self.b.const(0.5, ir.FLOAT32)

    def codes(self) -> list[str]:
        return [op.code for op in walk(self.function.body)]


@pytest.fixture
def made() -> Made:
    return Made()


REFUSED: dict[str, Callable[[Made], Any]] = {
    "takes 2 of one type": lambda m: m.b.compute("add", m.one, m.half),
    "takes numbers of kind": lambda m: m.b.compute("shl", m.half, m.half),
    "takes values of float32": lambda m: m.b.store(m.out, m.n, m.one),
    "takes an integer": lambda m: m.b.load(m.out, m.half),
    "takes one bool": lambda m: m.b.if_(m.n),
    "takes a bool and two alike": lambda m: m.b.select(m.b.compute("lt", m.n, m.one), m.one, m.half),
    "keeps the number of bits": lambda m: m.b.bitcast(m.n, ir.FLOAT64),
    "atomic and works on numbers of kind i, u": lambda m: m.b.atomic("and", m.out, m.n, m.half),
    "is one of": lambda m: m.b.atomic("nand", m.out, m.n, m.half),
    "along one of its axes": lambda m: m.b.builtin("global_id", 3),
    "takes a value and a uint32": lambda m: m.b.subgroup("shuffle", m.n, m.n),
    "is one of add, mul": lambda m: m.b.subgroup("nand", m.n),
    "takes 1 of one type": lambda m: m.b.subgroup("add"),
    "no operation 'twice'": lambda m: m.b.compute("twice", m.n),
    "has an element 2": lambda m: m.b.extract(m.b.vector(m.n, m.n), 2),
    "2 to 4 scalars": lambda m: m.b.vector(m.n),
    "cannot be reached": lambda m: [end() for end in (m.b.return_, m.b.barrier)],
}


@pytest.mark.parametrize("message", REFUSED)
def test_the_builder_refuses(made: Made, message: str) -> None:
    with pytest.raises(ir.IrError, match=message):
        REFUSED[message](made)
    with pytest.raises(TypeError, match="bools are accessed one by one; got 4 lanes"):
        made.function.buffer("flags", ir.BOOL, lanes=4)
    with pytest.raises(ir.IrError, match="of numbers only"):
        made.b.length(made.function.buffer("flags", ir.BOOL))
    with pytest.raises(TypeError, match="4 or 8 bytes"):
        made.function.push("small", ir.INT16)


@pytest.mark.parametrize(("code", "kind"), [("sin", ir.FLOAT64), ("log1p", ir.FLOAT32)])
def test_functions_without_an_instruction_are_not_lowered(made: Made, code: str, kind: ir.Scalar) -> None:
    result = made.b.compute(code, made.b.cast(made.b.load(made.out, made.n), kind))
    made.b.store(made.out, made.n, made.b.cast(result, ir.FLOAT32))
    with pytest.raises(ir.IrError, match=f"{code} of {kind} has no instruction"):
        ir.lower(made.function)


def outside_of_its_branch(m: Made) -> None:
    branch = m.b.if_(m.b.compute("lt", m.n, m.one))
    with branch.then:
        inner = m.b.load(m.out, m.n)
    m.b.store(m.out, m.n, inner)


def of_another_function(m: Made) -> None:
    m.b.store(Made().out, m.n, m.half)


def unlike_yields(m: Made) -> None:
    branch = m.b.if_(m.b.compute("lt", m.n, m.one))
    with branch.then:
        m.b.yield_(m.n)
    with branch.otherwise:
        m.b.yield_(m.half)
    assert len(branch.results) == 1


def one_branch_yields_nothing(m: Made) -> None:
    branch = m.b.if_(m.b.compute("lt", m.n, m.one))
    with branch.then:
        m.b.yield_(m.half)
    m.b.store(m.out, m.n, branch.results[0])


def a_loop_that_carries_another_type(m: Made) -> None:
    loop = m.b.loop(m.n)
    with loop.body:
        m.b.yield_(m.half)


def out_of_two_loops(m: Made) -> None:
    outer = m.b.loop()
    with outer.body:
        inner = m.b.loop()
        with inner.body:
            m.b.break_(outer)


def a_use_before_the_definition(m: Made) -> None:
    late = m.b.load(m.out, m.n)
    m.b.store(m.out, m.n, late)
    m.function.body.ops.reverse()


def a_result_of_another_type(m: Made) -> None:
    m.function.body.ops.append(Op("add", ir.FLOAT32, (m.n, m.n)))


def no_end_of_a_loop(m: Made) -> None:
    m.b.loop()


def an_end_in_the_middle(m: Made) -> None:
    m.function.body.ops += [Op("return", None), Op("barrier", None)]


def a_result_that_nobody_gives(m: Made) -> None:
    branch = m.b.if_(m.b.compute("lt", m.n, m.one))
    branch.op.results = (Result(ir.INT32),)


@pytest.mark.parametrize(
    "wrong",
    [
        outside_of_its_branch,
        of_another_function,
        unlike_yields,
        one_branch_yields_nothing,
        a_loop_that_carries_another_type,
        out_of_two_loops,
        a_use_before_the_definition,
        a_result_of_another_type,
        no_end_of_a_loop,
        an_end_in_the_middle,
        a_result_that_nobody_gives,
    ],
)
def test_the_verifier_finds(made: Made, wrong: Callable[[Made], None]) -> None:
    wrong(made)
    with pytest.raises(ir.IrError, match="kernel made"):  # with the text of the function
        ir.verify(made.function)


def test_constants_are_shared_and_folded(made: Made) -> None:
    b = made.b
    assert b.const(2, ir.INT32) is b.const(2.0, ir.INT32)
    assert b.const(0.0, ir.FLOAT32) is not b.const(-0.0, ir.FLOAT32)
    assert b.compute("add", b.const(2**31 - 1, ir.INT32), made.one) is b.const(-(2**31), ir.INT32)
    assert b.compute("mul", made.n, made.one) is made.n
    assert b.compute("div", b.const(-7, ir.INT32), b.const(2, ir.INT32)) is b.const(-3, ir.INT32)
    assert b.compute("mod", b.const(-7, ir.INT32), b.const(2, ir.INT32)) is made.one
    assert b.cast(b.const(-1, ir.INT32), ir.UINT32) is b.const(2**32 - 1, ir.UINT32)
    assert b.select(b.const(False, ir.BOOL), made.half, b.const(3, ir.FLOAT32)) is b.const(3, ir.FLOAT32)
    assert not made.codes()


def test_zero_is_not_neutral_to_floats_and_division_by_zero_is_left(made: Made) -> None:
    value = made.b.load(made.out, made.n)
    assert made.b.compute("add", value, made.b.const(0, ir.FLOAT32)) is not value  # -0.0 + 0.0 is 0.0
    assert not isinstance(made.b.compute("div", made.one, made.b.const(0, ir.INT32)), ir.Constant)


def test_what_is_computed_twice_is_computed_once(made: Made) -> None:
    b = made.b
    first, second = (b.compute("mul", made.n, made.n) for _ in range(2))
    loads = [b.load(made.out, index) for index in (first, second)]
    b.store(made.out, first, loads[0])
    b.store(made.out, second, loads[1])
    eliminate_common_subexpressions(made.function)
    assert made.codes() == ["mul", "load", "load", "store", "store"]  # loads stay: what is between may write
    ir.verify(made.function)


def test_swapped_operands_are_computed_once(made: Made) -> None:
    b = made.b
    for code in ("add", "sub"):
        one, other = b.compute(code, made.n, made.one), b.compute(code, made.one, made.n)
        b.store(made.out, b.compute("shl", one, other), made.half)
    eliminate_common_subexpressions(made.function)
    assert made.codes().count("add") == 1
    assert made.codes().count("sub") == 2


def test_branches_do_not_share_with_each_other(made: Made) -> None:
    branch = made.b.if_(made.b.compute("lt", made.n, made.one))
    for region in (branch.then, branch.otherwise):
        with region:
            made.b.store(made.out, made.b.compute("mul", made.n, made.n), made.half)
    eliminate_common_subexpressions(made.function)
    ir.verify(made.function)
    assert made.codes().count("mul") == 2


def test_what_nobody_uses_goes(made: Made) -> None:
    made.b.compute("neg", made.b.compute("mul", made.n, made.n))
    made.b.store(made.out, made.n, made.half)
    eliminate_dead_code(made.function)
    assert made.codes() == ["store"]


def test_what_a_loop_need_not_repeat_moves_out_of_all_loops_that_it_can(made: Made) -> None:
    b = made.b
    outer = b.loop(made.n)
    with outer.body:
        inner = b.loop(outer.params[0])
        with inner.body:
            fixed = b.compute("mul", made.n, made.n)
            middle = b.compute("add", outer.params[0], fixed)
            quotient = b.compute("div", made.n, made.n)
            done = b.if_(b.compute("lt", inner.params[0], middle))
            with done.then:
                b.break_(inner, quotient)
            b.yield_(b.compute("sub", inner.params[0], made.one))
        b.break_(outer, *inner.results)
    hoist_loop_invariants(made.function)
    ir.verify(made.function)
    assert made.codes() == ["mul", "loop", "add", "loop", "div", "lt", "if", "break", "sub", "yield", "break"]


def test_the_text(made: Made) -> None:
    tile = made.function.shared("tile", ir.UINT32, 4)
    made.b.store(made.out, made.n, made.b.cast(made.b.load(tile, made.one), ir.FLOAT32))
    made.b.barrier()
    assert ir.text(made.function).splitlines() == [
        "kernel made(out: float32[], n: int32) local_size (64, 1, 1)",
        "  shared tile: uint32[4]",
        "  %0:uint32 = load.tile 1:int32",
        "  %1:float32 = cast.float32 %0",
        "  store.out n, %1",
        "  barrier",
    ]


def test_a_further_exit_of_loops_is_for_targets_that_need_it(made: Made) -> None:
    b = made.b
    loop = b.loop(made.n)
    with loop.body:
        half = b.compute("div", loop.params[0], b.const(2, ir.INT32))
        done = b.if_(b.compute("lt", half, made.one))
        with done.then:
            b.break_(loop, half)
        b.yield_(half)
    b.store(made.out, loop.results[0], made.half)
    modules = [ir.lower(made.function, target).spirv for target in (ir.Target(), ir.Target(keeps_loop_results=True))]
    assert len(modules[0]) > len(modules[1])
