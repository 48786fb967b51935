"""The table of operations: a row is all that an operation needs."""

from __future__ import annotations

from typing import Any

import interpreter
import numpy as np
import pytest

import vkcompute as vc
from vkcompute import ir
from vkcompute.ir.elimination import eliminate_common_subexpressions
from vkcompute.ir.function import walk
from vkcompute.ir.operations import numeric
from vkcompute.spirv import glsl_std_450 as glsl


@pytest.fixture
def fma(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for x * y + z."""
    row = numeric("fma", 3, {}, {"f": glsl.Fma}, lambda x, y, z: x * y + z, exact=True)
    monkeypatch.setitem(ir.OPERATIONS, "fma", row)
    monkeypatch.setitem(interpreter.OPERATIONS, "fma", lambda x, y, z: x * y + z)


def repeated(n: int = 2) -> ir.Function:
    """Writes the same fma n times."""
    function = ir.Function("repeated", (4, 1, 1))
    x, out = function.buffer("x", ir.FLOAT32), function.buffer("out", ir.FLOAT32)
    b = ir.Builder(function)
    me = b.builtin("global_id")
    number = b.load(x, me)
    for _ in range(n):
        b.store(out, me, b.compute("fma", number, number, b.const(0.5, ir.FLOAT32)))
    return function


def test_a_row_is_built_optimized_and_run(gpu: vc.Runtime, fma: None) -> None:
    function = repeated()
    ir.verify(function)
    eliminate_common_subexpressions(function)
    assert [op.code for op in walk(function.body)].count("fma") == 1
    ir.verify(ir.optimize(function))
    x = np.arange(8, dtype=np.float32)
    array, out = gpu.array(x), gpu.zeros(8)
    gpu.kernel(ir.lower(function).spirv, name="repeated")(array, out, grid=2)
    assert out.numpy().tolist() == (x * x + np.float32(0.5)).tolist()


@pytest.mark.pure
def test_a_row_is_checked_and_folded(fma: None) -> None:
    b = ir.Builder(ir.Function("folded"))
    two, half = b.const(2, ir.FLOAT32), b.const(0.5, ir.FLOAT32)
    assert b.compute("fma", two, two, half) is b.const(4.5, ir.FLOAT32)
    with pytest.raises(ir.IrError, match="fma takes 3 of one type"):
        b.compute("fma", two, two)
    with pytest.raises(ir.IrError, match="fma takes numbers of kind f; got int32, int32, int32"):
        b.compute("fma", *[b.const(1, ir.INT32)] * 3)


@pytest.mark.pure
@pytest.mark.parametrize("row", ir.OPERATIONS.values(), ids=ir.OPERATIONS)
def test_rows_are_whole(row: ir.Operation) -> None:
    assert not row.terminator or row.effect
    assert not row.writes or row.effect
    assert row.foldable is None or row.evaluate is not None
    assert row.arity is None or row.evaluate is not None
    assert row.identity is None or row.arity == 2
    replaced = row.elementary or row.name in ("rem", "mod")  # before lowering, or by other instructions
    assert replaced or {*row.kinds} == {*row.opcodes, *row.extended}


NUMBERS: dict[str, tuple[Any, ...]] = {
    "b": (False, True),
    "i": (-7, -1, 0, 3, 5),
    "u": (0, 2, 7),
    "f": (-2.5, 0.0, 3.5),
}
TYPES = {"b": ir.BOOL, "i": ir.INT32, "u": ir.UINT32, "f": ir.FLOAT32}
OF_NUMBERS = [(row.name, kind) for row in ir.OPERATIONS.values() if row.arity and row.foldable for kind in row.kinds]


@pytest.mark.pure
@pytest.mark.parametrize(("name", "kind"), OF_NUMBERS)
def test_constants_are_folded_as_numpy_computes_them(name: str, kind: str) -> None:
    b, arity = ir.Builder(ir.Function("folded")), ir.OPERATIONS[name].arity
    for numbers in np.stack(np.meshgrid(*[NUMBERS[kind]] * (arity or 0)), -1).reshape(-1, arity or 0):
        args = [b.const(number, TYPES[kind]) for number in numbers]
        result = b.compute(name, *args)
        if isinstance(result, ir.Constant):
            expected = interpreter.compute(name, [arg.value for arg in args])
            assert result.value.tobytes() == expected.tobytes(), numbers
        else:
            assert ir.OPERATIONS[name].may_trap, numbers
