"""Views of NumPy's arrays as arguments of block programs, whose strides are arguments, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import Array, Runtime

pytestmark = pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")


@triton.jit
def doubled(x_ptr, out_ptr, s0, s1, t0, t1, m, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    mask = (i < m) & (j < n)
    tl.store(out_ptr + i * t0 + j * t1, tl.load(x_ptr + i * s0 + j * s1, mask=mask) * 2, mask=mask)


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": lambda x: x[0].T,
    "sliced": lambda x: x[:, 1, :],
    "every other": lambda x: x[1, ::2, 1::3],
    "of one column": lambda x: x[:2, :, 3],
    "broadcast": lambda x: np.broadcast_to(x[0, 0, :3], (4, 3)),
}


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("target", [name for name in VIEWS if name != "broadcast"])
@pytest.mark.parametrize("interpreted", [False, True])
def test_strides_are_arguments(gpu: Runtime, kind: str, target: str, *, interpreted: bool) -> None:
    x = VIEWS[kind](np.arange(8 * 6 * 9, dtype=np.int32).reshape(8, 6, 9))
    memory, right = (np.full((12, 12, 12), -1, np.int32) for _ in range(2))
    out, expected = (VIEWS[target](item)[: x.shape[0], : x.shape[1]] for item in (memory, right))
    x = x[: out.shape[0], : out.shape[1]]
    expected[...] = x * 2
    launch: Any = doubled.interpret if interpreted else doubled
    strides = [step // 4 for step in (*x.strides, *out.strides)]
    launch[(1,)](x, out, *strides, *x.shape, M=16, N=16)
    np.testing.assert_array_equal(memory, right)


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("target", [name for name in VIEWS if name != "broadcast"])
@pytest.mark.parametrize("interpreted", [False, True])
def test_views_of_device_arrays(gpu: Runtime, kind: str, target: str, *, interpreted: bool) -> None:
    x: Any = VIEWS[kind](np.arange(8 * 6 * 9, dtype=np.int32).reshape(8, 6, 9))
    host = np.full((12, 12, 12), -1, np.int32)
    memory = gpu.array(host)
    out, expected = (VIEWS[target](item)[: x.shape[0], : x.shape[1]] for item in (memory, host))  # type: ignore[arg-type]
    x = x[: out.shape[0], : out.shape[1]]
    expected[...] = x * 2
    x = gpu.array(np.lib.stride_tricks.as_strided(x, x.shape, x.strides)) if kind == "broadcast" else _alike(gpu, x)
    launch: Any = doubled.interpret if interpreted else doubled
    strides = [step // 4 for step in (*x.strides, *out.strides)]
    launch[(1,)](x, out, *strides, *x.shape, M=16, N=16)
    np.testing.assert_array_equal(memory.numpy(), host)


def _alike(gpu: Runtime, view: Any) -> Any:
    """Returns a view of a device array with the elements and the strides of a view in memory."""
    base = view
    while base.base is not None:
        base = base.base
    start = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // view.itemsize
    flat = gpu.array(base.reshape(-1))
    return Array(gpu, flat.buffer, start * view.itemsize, view.shape, view.strides, view.dtype)


@pytest.mark.parametrize("interpreted", [False, True])
def test_pointers_to_other_elements_than_the_first(gpu: Runtime, *, interpreted: bool) -> None:
    launch: Any = doubled.interpret if interpreted else doubled
    x, out = np.zeros((4, 4), np.int32), np.zeros((4, 4), np.int32)
    with pytest.raises(ValueError, match=r"pass a \.copy"):
        launch[(1,)](x[::-1], out, -4, 1, 4, 1, 4, 4, M=4, N=4)
    fields = np.zeros(4, [("a", np.int32), ("b", np.int16)])["a"]
    with pytest.raises(ValueError, match=r"pass a \.copy"):
        launch[(1,)](fields, out, 1, 1, 4, 1, 1, 1, M=4, N=4)
    if not interpreted:
        fixed = np.zeros((4, 4), np.int32)
        fixed.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            launch[(1,)](x, fixed.T, 4, 1, 1, 4, 4, 4, M=4, N=4)


@triton.jit
def masked(x_ptr, out_ptr, n, MASK: tl.constexpr):
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 2)[None, :]
    at = i * 2 + j
    if MASK == 0:
        mask = j // 2 > 0
    elif MASK == 1:
        mask = (j + 3) % 5 < 3
    elif MASK == 2:
        mask = (j // n) > 4
    elif MASK == 3:
        mask = tl.minimum(j, 1) > 1
    elif MASK == 4:
        mask = (j ^ j) > 0
    else:
        mask = tl.where(j > 0, j, 1) < 1
    tl.store(out_ptr + at, tl.load(x_ptr + at), mask=mask)


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("interpreted", [False, True])
def test_masks_that_are_false_everywhere(gpu: Runtime, which: int, *, interpreted: bool) -> None:
    launch: Any = masked.interpret if interpreted else masked
    out = np.full(16, 7, np.float32)
    launch[(1,)](np.arange(16, dtype=np.float32), out, 1, MASK=which)
    i = np.arange(16) % 2
    stored = (i + 3) % 5 < 3 if which == 1 else np.zeros(16, bool)
    np.testing.assert_array_equal(out, np.where(stored, np.arange(16), 7))


@triton.jit
def gelu(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)))


@pytest.mark.parametrize("interpreted", [False, True])
def test_error_functions_of_blocks(gpu: Runtime, *, interpreted: bool) -> None:
    from math import erf

    x, out = np.linspace(-4, 4, 32, dtype=np.float32), np.zeros(32, np.float32)
    (gelu.interpret if interpreted else gelu)[(1,)](x, out, N=32)
    np.testing.assert_allclose(out, [0.5 * v * (1 + erf(v * 0.7071067811865476)) for v in x], rtol=2e-6, atol=1e-7)
