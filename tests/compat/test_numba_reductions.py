"""Reductions of arrays in Numba's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from vkcompute.compat.numba import cuda
from vkcompute.compat.numba.errors import TypingError
from vkcompute.compat.numba.loops import literal_unroll
from vkcompute.compat.numba.reductions import REDUCTIONS

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("float64_device"),
]
NAMES = tuple(REDUCTIONS)


@cuda.jit
def every(x, out):
    out[0] = np.sum(x)
    out[1] = np.prod(x)
    out[2] = np.nansum(x)
    out[3] = np.nanprod(x)
    out[4] = x.min()
    out[5] = x.max()
    out[6] = np.nanmin(x)
    out[7] = np.nanmax(x)
    out[8] = x.all()
    out[9] = np.any(x)
    out[10] = np.count_nonzero(x)
    out[11] = x.mean()
    out[12] = np.nanmean(x)
    out[13] = x.var()
    out[14] = np.nanvar(x)
    out[15] = np.std(x)
    out[16] = np.nanstd(x)
    out[17] = x.argmin()
    out[18] = x.argmax()


@pytest.mark.parametrize(
    "x",
    [
        np.array([[1.5, np.nan, -2], [0, 3, np.nan]]),
        np.array([np.nan, 4, -1, 4], np.float32),
        np.array([7, -3, 100, 0, -3], np.int32),
    ],
    ids=str,
)
def test_reductions_are_numpys(x: np.ndarray) -> None:
    out = np.zeros(len(NAMES))
    every[1, 1](x, out)
    np.testing.assert_allclose(out, [getattr(np, name)(x) for name in NAMES], rtol=1e-6)


def test_sums_of_parts_have_numbas_types() -> None:
    @cuda.jit
    def kernel(x, small, z, out, sums):
        i = cuda.grid(1)
        out[i] = x[i, ::2].sum()
        sums[i] = z[i:].sum() * z[:i].prod()
        if i == 0:
            out[2] = small.sum()  # in 64 bits
            out[3] = small.max() + small.max()

    x, z = np.arange(12.0).reshape(2, 6), np.array([1 + 2j, 3 - 1j])
    out, sums = np.zeros(4), np.zeros(2, complex)
    kernel[1, 2](x, np.full(3, 2**31 - 1, np.int32), z, out, sums)
    assert out.tolist() == [6, 24, 3 * (2**31 - 1), 2**32 - 2]
    assert sums.tolist() == [4 + 1j, (3 - 1j) * (1 + 2j)]


def test_an_axis_is_refused() -> None:
    with pytest.raises(TypingError, match="takes no axis"):

        @cuda.jit("void(float64[:, :])")
        def kernel(x):
            x[0, 0] = np.sum(x, axis=0)


CASES = np.float64([1, 2, 4]), np.float64([[1.5, np.nan], [2, 3]])[::-1], np.int32([7])


def test_loops_over_tuples_of_different_arrays_are_unrolled() -> None:
    @cuda.jit
    def kernel(out):
        for case in literal_unroll(CASES):
            out[case.size - 1] = np.nansum(case)

    out = np.zeros(4)
    kernel[1, 1](out)
    assert out.tolist() == [7, 0, 7, 6.5]
