"""What Numba's kernels raise and refuse, in Numba's words; rules of NaN, and grids that wait for all threads."""

from __future__ import annotations

import numpy as np
import pytest

from vkcompute.compat.numba import cuda, float32, guvectorize, int32, void
from vkcompute.compat.numba.errors import TypingError
from vkcompute.runtime.runtime import current_runtime

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]


def test_divisions_and_indices_of_tuples_are_checked_with_debug() -> None:
    @cuda.jit(debug=True, opt=False)
    def kernel(x, d, n):
        x[0] = 1 / d
        x[1] = x.shape[n]
        x[0] //= d

    device = cuda.to_device(np.zeros(2))
    kernel[1, 1](device, 2, -1)
    assert device.copy_to_host().tolist() == [0, 2]
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        kernel[1, 1](device, 0, 0)
    with pytest.raises(IndexError, match="tuple index out of range"):
        kernel[1, 1](device, 1, -2)
    assert device.copy_to_host().tolist() == [1, 2]


def test_atomic_extremes_of_nan() -> None:
    @cuda.jit
    def kernel(x, value):
        cuda.atomic.max(x, 0, value[cuda.threadIdx.x])
        cuda.atomic.min(x, 1, value[cuda.threadIdx.x])
        cuda.atomic.nanmax(x, 2, value[cuda.threadIdx.x])
        cuda.atomic.nanmin(x, 3, value[cuda.threadIdx.x])

    has_wide = "shaderBufferInt64Atomics" in current_runtime().device.features
    for dtype in (np.float32, np.float64) if has_wide else (np.float32,):
        value = np.arange(64, dtype=dtype)
        value[5] = np.nan
        x = np.array([3, 3, 3, 3], dtype)
        kernel[1, 64](x, value)
        assert x.tolist() == [63, 0, 63, 0]
        x[:] = np.nan
        kernel[1, 64](x, value)
        assert np.isnan(x[:2]).all()
        assert x[2:].tolist() == [63, 0]


def test_is_compares_bools_and_numbers_of_one_type() -> None:
    @cuda.jit
    def kernel(x, out):
        flag = x[0] > 1
        out[0] = flag is True
        out[1] = flag is not True
        out[2] = x[0] is x[1]

    out = np.zeros(3, bool)
    kernel[1, 1](np.array([2, 2]), out)
    assert out.tolist() == [True, False, True]


def test_a_grid_of_one_block_waits_for_all_threads() -> None:
    @cuda.jit
    def kernel(m):
        i, grid = cuda.grid(1), cuda.cg.this_grid()
        for row in range(1, m.shape[0]):
            m[row, i] = m[row - 1, m.shape[1] - i - 1] + 1
            grid.sync()

    m = np.zeros((9, 64), np.int32)
    kernel[1, 64](m)
    assert np.array_equal(m, np.tile(np.arange(9)[:, None], (1, 64)))
    assert kernel.cooperative
    m[:] = 0
    kernel[2, 32](m[:, :64])
    assert np.array_equal(m, np.tile(np.arange(9)[:, None], (1, 64)))


def test_copies_of_arrays_of_known_shape() -> None:
    @cuda.jit
    def kernel(x, out):
        local = cuda.local.array((2, 2), int32)
        local[:] = x[0]
        other = local.copy()
        local[0, 0] = 9
        out[0], out[1] = local[0, 0], other[0, 0]

    out = np.zeros(2, np.int32)
    kernel[1, 1](np.array([4], np.int32), out)
    assert out.tolist() == [9, 4]


def test_errors_in_numbas_words() -> None:
    def fill(x, n):
        x[0] = cuda.shared.array(n, "int33")[0]

    with pytest.raises(TypingError, match="Invalid NumPy dtype specified: 'int33'"):
        cuda.jit("void(int32[:], int32)")(fill)
    with pytest.raises(ValueError, match=r"must be a sequence of 1, 2 or 3 integers, got \[1, 2, 3, 4\]"):
        cuda.jit(fill)[(1, 2, 3, 4), 1]
    for options in ({"nopython": False}, {"other": True}):
        with pytest.raises(TypeError, match=r"nopython flag must be True|target options are not supported: 'other'"):
            guvectorize([void(float32[:], float32[:])], "(x)->(x)", **options)


def test_arguments_of_functions_of_parts() -> None:
    @guvectorize([void(float32[:], float32[:])], "(x)->(x)")
    def double(x, out):
        for i in range(x.shape[0]):
            out[i] = 2 * x[i]

    x = np.ones(3, np.float32)
    with pytest.raises(TypeError, match=r"accepts 1 positional arguments .* Got 3 positional arguments"):
        double(x, x, x)
    with pytest.raises(ValueError, match="cannot specify argument 'out' as both positional and keyword"):
        double(x, x, out=x)
    assert double(x).tolist() == [2, 2, 2]


def test_dates_are_refused_by_name() -> None:
    for dates in (np.zeros(2, "M8[D]"), np.zeros(2, "m8[s]")):
        with pytest.raises(TypingError, match=r"kernels take no (datetime|timedelta)64\[.\]; pass the integers"):
            cuda.to_device(dates)
