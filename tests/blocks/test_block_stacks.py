"""Products of blocks: `tl.dot` of matrices and of stacks of matrices, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


@triton.jit
def stacked(a_ptr, b_ptr, c_ptr, S: tl.constexpr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    s, m, k, n = tl.arange(0, S), tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    a = tl.load(a_ptr + (s[:, None, None] * M + m[None, :, None]) * K + k[None, None, :])
    b = tl.load(b_ptr + (s[:, None, None] * K + k[None, :, None]) * N + n[None, None, :])
    at = (s[:, None, None] * M + m[None, :, None]) * N + n[None, None, :]
    tl.store(c_ptr + at, tl.dot(a, b, tl.load(c_ptr + at)))


_LENGTHS = st.sampled_from([1, 2, 8])


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=st.tuples(_LENGTHS, _LENGTHS, _LENGTHS, _LENGTHS), dtype=st.sampled_from([np.int8, np.float32]))
def test_stacks_of_matrices(
    machine: vkcompute.Runtime | None, shape: tuple[int, int, int, int], dtype: type[np.number]
) -> None:
    s, m, k, n = shape
    random = np.random.default_rng(sum(shape))
    shapes = (s, m, k), (s, k, n), (s, m, n)
    a, b, c = (random.integers(-50, 50, each).astype(dtype) for each in shapes)  # their products are exact
    c = c.astype(np.int32 if dtype == np.int8 else dtype)
    result = run(machine, stacked, (1,), (a, b, c, s, m, k, n))[2]
    np.testing.assert_array_equal(result, a.astype(c.dtype) @ b.astype(c.dtype) + c)


@pytest.mark.parametrize("shape", [(2, 32, 8, 32), (32, 8, 4, 4)])
def test_sums_of_several_registers(machine: vkcompute.Runtime | None, shape: tuple[int, int, int, int]) -> None:
    s, m, k, n = shape
    a, b = (np.arange(np.prod(item), dtype=np.float32).reshape(item) % 31 for item in ((s, m, k), (s, k, n)))
    result = run(machine, stacked, (1,), (a, b, np.ones((s, m, n), np.float32), s, m, k, n))[2]
    np.testing.assert_array_equal(result, a @ b + 1)
