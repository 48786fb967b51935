"""Orthogonal polynomials, by their recurrences: DLMF 18.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from vkcompute.arrays.algorithms.lines import launch
from vkcompute.jit.kernel import kernel as device_kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.torch.element_types import wide
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import operand
from vkcompute.torch.storage import resize_to, runtime, store

_MOST_DEGREES = 65536


class _Recurrence(NamedTuple):
    """Numbers of a recurrence: P(0) is 1, and P(1) is first_slope * x + first.

    P(k + 1) is (a * P(k) - b * P(k - 1)) / (division * k + 1). There a is (slope_rise * k + slope) * x + rise * k +
    offset. And b is back_rise * k + back.
    """

    first_slope: float
    first: float
    slope_rise: float = 0
    slope: float = 0
    rise: float = 0
    offset: float = 0
    back_rise: float = 0
    back: float = 0
    division: float = 0


_CHEBYSHEV = {name: _Recurrence(*first, slope=2, back=1) for name, first in
              {"t": (1, 0), "u": (2, 0), "v": (2, -1), "w": (2, 1)}.items()}  # fmt: skip
_OTHERS = {
    "hermite_polynomial_h": _Recurrence(2, 0, slope=2, back_rise=2),
    "hermite_polynomial_he": _Recurrence(1, 0, slope=1, back_rise=1),
    "laguerre_polynomial_l": _Recurrence(-1, 1, slope=-1, rise=2, offset=1, back_rise=1, division=1),
    "legendre_polynomial_p": _Recurrence(1, 0, slope_rise=2, slope=1, back_rise=1, division=1),
}


@device_kernel
def _polynomial(
    x: Any, degrees: Any, out: Any, first_slope: float, first: float, slope_rise: float, slope: float, rise: float,
    offset: float, back_rise: float, back: float, division: float,
) -> None:  # fmt: skip
    i = global_id(0)
    if i < out.size:
        at, n = x[i], degrees[i]
        before, value = at * 0 + 1, at * first_slope + first
        k = 1
        while k < n and k < _MOST_DEGREES:
            factor = (slope_rise * k + slope) * at + (rise * k + offset)
            after = (factor * value - (back_rise * k + back) * before) / (division * k + 1)
            before, value = value, after
            k = k + 1
        out[i] = 0 if n < 0 else (1 if n < 1 else value)


def _polynomials(recurrence: _Recurrence, *, is_shifted: bool) -> Callable[..., Any]:
    def run(x: Any, n: Any, *, out: Any) -> Any:
        dtype = torch.result_type(x, n)
        dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        dtype = dtype if dtype.itemsize > 2 else torch.float32
        given = (
            torch.as_tensor(x, dtype=dtype, device=DEVICE_NAME),
            torch.as_tensor(n, dtype=torch.int32, device=DEVICE_NAME),
        )
        at, degrees = torch.broadcast_tensors(*given)  # one of them may be a number of Python
        resize_to(out, at.shape)
        if not out.numel():
            return out
        numbers = operand((2 * at - 1 if is_shifted else at).contiguous(), wide(dtype)).copy().reshape(-1)
        result = runtime().empty(numbers.shape, numbers.dtype)
        launch(_polynomial, result.size, numbers, operand(degrees.contiguous()).copy().reshape(-1), result,
               *map(float, recurrence))  # fmt: skip
        return store(out, result.reshape(tuple(out.shape)))

    return run


for _kind, _row in _CHEBYSHEV.items():
    kernel(f"special_chebyshev_polynomial_{_kind}.out")(_polynomials(_row, is_shifted=False))
    kernel(f"special_shifted_chebyshev_polynomial_{_kind}.out")(_polynomials(_row, is_shifted=True))
for _name, _row in _OTHERS.items():
    kernel(f"special_{_name}.out")(_polynomials(_row, is_shifted=False))
