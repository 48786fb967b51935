"""Pointers converted to wider elements than the array's, and pointers of address 0."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError

N = 16


@triton.jit
def pairs_of_bytes(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = (x_ptr + 2).to(tl.pointer_type(tl.int16))
    out = out_ptr.to(tl.pointer_type(tl.int16))
    tl.store(out + 1 + at, tl.load(x + at, mask=at < n, other=-300), mask=at != 3)
    rows = tl.make_block_ptr(out, (2, N), (N + 2, 1), (1, 0), (1, N), (1, 0))
    tl.store(rows, tl.load(rows, boundary_check=(0, 1)) + 1, boundary_check=(0, 1))


def test_elements_of_two_bytes(machine: vkcompute.Runtime | None) -> None:
    x = np.random.default_rng(3).integers(-128, 128, 2 * N + 2).astype(np.int8)
    out = np.zeros(4 * N + 4, np.int8)
    wanted = out.view(np.int16).copy()
    wanted[1 : N + 1] = np.where(np.arange(N) < 11, x[2:].view(np.int16), -300)
    wanted[4] = 0
    wanted[N + 2 :] += 1
    found = run(machine, pairs_of_bytes, (1,), (x, np.append(out, out)[: 4 * N + 4], 11), N=N)[1]
    np.testing.assert_array_equal(found.view(np.int16), wanted)


@triton.jit
def words_of_halves(x_ptr, out_ptr):
    words = x_ptr.to(tl.pointer_type(tl.int32)) + tl.program_id(0)
    tl.store(out_ptr.to(tl.pointer_type(tl.float32)) + tl.program_id(0), tl.load(words).to(tl.float32, bitcast=True))


def test_scalars_of_two_words(machine: vkcompute.Runtime | None) -> None:
    x = np.linspace(-2, 2, 8).astype(np.float32)
    found = run(machine, words_of_halves, (8,), (x.view(np.float16), np.zeros(16, np.uint16)))[1]
    np.testing.assert_array_equal(found.view(np.float32), x)


@triton.jit
def too_narrow(x_ptr):
    tl.store(x_ptr.to(tl.pointer_type(tl.int8)), 1)


@pytest.mark.pure
def test_narrower_elements_are_refused() -> None:
    with pytest.raises(KernelError) as caught:
        too_narrow.interpret[(1,)](np.zeros(4, np.int32))
    check_error(caught.value, "pass a view of the array, as x.view(torch.int8)", "x_ptr.to(")


@triton.jit
def nowhere(out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    none = tl.full((N,), 0, tl.int64).to(tl.pointer_type(tl.int32), bitcast=True)
    one = tl.cast(0, tl.pointer_type(tl.float32))
    tl.store(none + at, at, mask=at < n)
    old = tl.atomic_add(none, at, mask=at < n)
    tl.store(out_ptr + at, tl.load(none, mask=at < n, other=7) + tl.load(one, mask=n > 0, other=2).to(tl.int32) + old)


def test_address_0_is_not_accessed(machine: vkcompute.Runtime | None) -> None:
    assert run(machine, nowhere, (1,), (np.zeros(4, np.int32), 0), N=4)[0].tolist() == [9] * 4
    if machine is None:
        with pytest.raises(KernelError, match="accesses address 0, where no array is"):
            run(machine, nowhere, (1,), (np.zeros(4, np.int32), 1), N=4)
