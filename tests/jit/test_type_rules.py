"""A language that types numbers by rules of its own: integers of 64 bits, floats of 64 bits, constants that wrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.ir import BOOL, FLOAT64, INT64, Scalar
from vkcompute.jit.compilation.build import Signature
from vkcompute.jit.frontend.type_rules import number_kind
from vkcompute.jit.frontend.values import Kind, Number
from vkcompute.jit.kernel import PythonKernel


class WideTypes:
    """Operators have 64 bits, as in Numba: integers int64, all else float64. A variable keeps a float type."""

    real, integer = FLOAT64, INT64

    def constant(self, number: bool | int | float) -> Kind:
        return Kind(BOOL if isinstance(number, bool) else INT64 if isinstance(number, int) else FLOAT64)

    def fitted(self, number: int, target: Scalar) -> int:
        return int(np.array(number).astype(target.numpy))

    def common(self, *operands: Any) -> Kind:
        return Kind(FLOAT64 if any(number_kind(x, self).type.kind == "f" for x in operands) else INT64)

    def binary(self, sign: str, one: Any, other: Any) -> Kind:
        return Kind(FLOAT64) if sign == "/" else self.common(one, other)

    def unary(self, sign: str, operand: Any) -> Kind:
        return self.common(operand)

    def compared(self, one: Any, other: Any) -> Scalar:
        return self.common(one, other).type

    def joined(self, one: Kind, other: Kind) -> Kind:
        return one if one == other else Kind(FLOAT64 if "f" in (one.type.kind, other.type.kind) else INT64)

    def variable(self, kind: Kind) -> Kind:
        return kind

    def accumulator(self, kind: Kind) -> Kind:
        return kind

    def assigned(self, before: Any, value: Any) -> Kind | None:
        kept = isinstance(before, Number) and before.kind.type is FLOAT64 and isinstance(value, (Number, int))
        return Kind(FLOAT64) if kept else None

    def floating(self, kind: Scalar) -> Scalar:
        return kind if kind.kind == "f" else FLOAT64

    def range_types(self, bounds: Sequence[Any]) -> list[Scalar]:
        return [INT64] * len(bounds)


def wide_types(signature: Signature) -> WideTypes:
    return WideTypes()


def program(x: Any, y: Any, flags: Any, whole: Any, real: Any, narrow: Any) -> None:
    whole[0] = x[0] + y[0]
    whole[1] = x[0] * 3
    whole[2] = -x[1]
    whole[3] = ~flags[0]
    whole[4] = flags[0] + flags[0]
    whole[5] = x[0] // 2 + y[0]
    whole[6] = x[0] if y[0] > 1 << 40 else y[0] + 1
    real[0] = x[2] / 3
    total = 0
    for i in range(3):
        total += i + 0.1
    real[1] = total
    real[2] = x[2] ** 0.5
    kept = x[2] * 0.5
    kept = x[2]
    real[3] = kept / 1
    narrow[0] = 300
    narrow[1] = x[0] + 1


KERNEL = PythonKernel(program, rules=wide_types)  # type: ignore[arg-type]


def arguments() -> list[np.ndarray[Any, Any]]:
    top = np.iinfo(np.int32).max
    x, y = np.array([top, np.iinfo(np.int32).min, 2], np.int32), np.array([top], np.int32)
    return [x, y, np.ones(1, bool), np.zeros(7, np.int64), np.zeros(4), np.zeros(2, np.uint8)]


def check(whole: Any, real: Any, narrow: Any) -> None:
    top = 2**31 - 1
    np.testing.assert_array_equal(whole, [2 * top, 3 * top, 2**31, -2, 2, top // 2 + top, top + 1])
    np.testing.assert_allclose(real, [2 / 3, 3.3, 2**0.5, 2], rtol=1e-15)
    np.testing.assert_array_equal(narrow, [300 & 255, 0])


@pytest.mark.pure
def test_a_kernel_is_simulated_by_the_rules_of_its_language() -> None:
    given = arguments()
    KERNEL.simulate[1, 1](*given)
    check(*given[3:])


def test_a_kernel_is_compiled_by_the_rules_of_its_language(gpu: vc.Runtime) -> None:
    """Beside the same function with the rules of kernels, which refuse the constant that does not fit."""
    given = [gpu.array(argument) for argument in arguments()]
    with pytest.raises(vc.KernelError, match="300 does not fit uint8"):
        PythonKernel(program)[1, 1](*given)
    try:
        KERNEL[1, 1](*given)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    check(*[array.numpy() for array in given[3:]])
