"""Numba's types: their names, signatures, and the rules by which operators and variables take them."""

from __future__ import annotations

import numpy as np
import pytest

from vkcompute.compat.numba import types
from vkcompute.compat.numba.typing_rules import common, operated
from vkcompute.ir import SCALARS

pytestmark = pytest.mark.pure

NAMES = "bool int8 int32 int64 uint8 uint64 float32 float64".split()
# By the typing context of Numba 0.68.1, for the types in NAMES.
SUMS = """
    int64 int64 int64 int64 int64 int64 float32 float64
    int64 int64 int64 int64 int64 int64 float32 float64
    int64 int64 int64 int64 int64 int64 float64 float64
    int64 int64 int64 int64 int64 int64 float64 float64
    int64 int64 int64 int64 uint64 uint64 float32 float64
    int64 int64 int64 int64 uint64 uint64 float64 float64
    float32 float32 float64 float64 float32 float64 float32 float64
    float64 float64 float64 float64 float64 float64 float64 float64
"""
UNIFIED = """
    bool int8 int32 int64 uint8 uint64 float32 float64
    int8 int8 int32 int64 int16 float64 float32 float64
    int32 int32 int32 int64 int32 float64 float64 float64
    int64 int64 int64 int64 int64 float64 float64 float64
    uint8 int16 int32 int64 uint8 uint64 float32 float64
    uint64 float64 float64 float64 uint64 uint64 float64 float64
    float32 float32 float64 float64 float32 float64 float32 float64
    float64 float64 float64 float64 float64 float64 float64 float64
"""


def table(text: str) -> dict[tuple[str, str], str]:
    rows = [line.split() for line in text.strip().splitlines()]
    return {(one, other): rows[i][k] for i, one in enumerate(NAMES) for k, other in enumerate(NAMES)}


def test_operators_and_variables_have_numbas_types() -> None:
    pairs = [(one, other) for one in NAMES for other in NAMES]
    sums = {pair: operated("+", *[SCALARS[name] for name in pair]).name for pair in pairs}
    assert sums == table(SUMS)
    assert {pair: common(*[SCALARS[name] for name in pair]).name for pair in pairs} == table(UNIFIED)


@pytest.mark.parametrize(
    ("sign", "one", "other", "expected"),
    [
        ("/", "int32", "int8", "float64"),
        ("/", "float32", "int32", "float64"),
        ("**", "float32", "int64", "float32"),
        ("**", "int32", "int32", "int64"),
        ("&", "bool", "bool", "bool"),
        ("&", "uint8", "uint32", "uint64"),
        ("<<", "uint8", "int64", "uint64"),
        ("<<", "int32", "uint64", "int64"),
        *[(sign, "uint16", "float32", "float64") for sign in ("+", "-", "*", "/", "//", "%", "**")],
        ("*", "float32", "uint16", "float64"),
        ("**", "float32", "uint16", "float32"),
        ("*", "int16", "float32", "float32"),
    ],
)
def test_other_operators(sign: str, one: str, other: str, expected: str) -> None:
    assert operated(sign, SCALARS[one], SCALARS[other]).name == expected


def test_types_are_written_as_objects_and_strings() -> None:
    signature = types.signature_of("void(float32[:, ::1], int32)")
    assert signature == types.void(types.float32[:, ::1], types.int32)
    assert types.signature_of("(f4[:], i8)").args == (types.float32[:], types.int64)
    assert types.float32[::1].layout == "C"
    assert types.typeof(np.zeros((2, 3), "i2", order="F")) == types.Array(types.int16, 2, "F")
    assert [types.typeof(x) for x in (1, 1.0, True, 1j, (1, 2))] == [
        types.int64,
        types.float64,
        types.boolean,
        types.complex128,
        types.UniTuple(types.int64, 2),
    ]
    assert types.int32(7).dtype == np.int32
    with pytest.raises(types.NumbaTypeError):
        types.signature_of("void(float33)")
