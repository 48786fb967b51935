"""Atomic operations on bfloat16, and `tl.atomic_poll`."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError, ir, tile


def words(numbers: object) -> np.ndarray:
    """The bits of bfloat16 numbers that it represents exactly."""
    return (np.asarray(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)


@triton.jit
def combined(x_words, old_words, n, CODE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x_ptr, value = x_words.to(tl.pointer_type(tl.bfloat16)) + at // 2, (at + 1).to(tl.bfloat16)
    if CODE == "add":
        old = tl.atomic_add(x_ptr, value, mask=at < n)
    elif CODE == "max":
        old = tl.atomic_max(x_ptr, value, mask=at < n)
    else:
        old = tl.atomic_xchg(x_ptr, value, mask=at < n)
    tl.store(old_words.to(tl.pointer_type(tl.bfloat16)) + at, old, mask=at < n)


@pytest.mark.parametrize("code", ["add", "max", "xchg"])
def test_elements_with_several_values(machine: vkcompute.Runtime | None, code: str) -> None:
    x, old = run(machine, combined, (1,), (words(np.full(8, 3)), words(np.zeros(16)), 13), CODE=code, N=16)
    result = (x.astype(np.uint32) << 16).view(np.float32)
    pairs = np.arange(1, 17, dtype=np.float32)[:12].reshape(6, 2)
    if code == "xchg":
        assert all(result[at] in pairs[at] for at in range(6))
        assert result[6:].tolist() == [13, 3]
    else:
        wanted = 3 + pairs.sum(1) if code == "add" else np.maximum(3, pairs.max(1))
        assert result.tolist() == [*wanted, 16 if code == "add" else 13, 3]
    befores = (old.astype(np.uint32) << 16).view(np.float32)
    assert (befores[:12].reshape(6, 2) == 3).any(1).all()


@triton.jit
def of_one(x_words, n):
    x_ptr = x_words.to(tl.pointer_type(tl.bfloat16))
    tl.atomic_add(x_ptr, 2.0, mask=n > 3)
    tl.atomic_min(x_ptr + 1, -1.0)


def test_scalars_of_several_programs(machine: vkcompute.Runtime | None) -> None:
    assert np.array_equal(run(machine, of_one, (9,), (words([1, 1]), 5))[0], words([19, -1]))
    assert np.array_equal(run(machine, of_one, (9,), (words([1, 1]), 2))[0], words([1, -1]))


@triton.jit
def exchanged(x_words, old_words, N: tl.constexpr):
    at = tl.arange(0, N)
    x_ptr, old_ptr = x_words.to(tl.pointer_type(tl.bfloat16)), old_words.to(tl.pointer_type(tl.bfloat16))
    tl.store(old_ptr + at, tl.atomic_cas(x_ptr + at, tl.full((N,), 2.0, tl.bfloat16), (at + 1).to(tl.bfloat16)))
    tl.atomic_store(x_ptr + N, tl.atomic_load(x_ptr) + 1)


def test_compare_and_exchange(machine: vkcompute.Runtime | None) -> None:
    x, old = run(machine, exchanged, (1,), (words([2, 3, 2, 2, 5]), words(np.zeros(4))), N=4)
    assert np.array_equal(x, words([1, 3, 3, 4, 2]))
    assert np.array_equal(old, words([2, 3, 2, 2]))


@triton.jit
def polled(flag_ptr, out_ptr):
    tl.store(out_ptr, tl.atomic_poll(flag_ptr, 1).to(tl.int32))
    tl.store(out_ptr + 1, tl.atomic_poll(flag_ptr, 2, timeout_ns=1000).to(tl.int32))


@triton.jit
def polled_block(flag_ptr):
    tl.atomic_poll(flag_ptr + tl.arange(0, 4), 1)


def test_polls_end(machine: vkcompute.Runtime | None) -> None:
    flag, out = np.ones(1, np.int32), np.full(2, -1, np.int32)
    assert run(machine, polled, (1,), (flag, out))[1].tolist() == [1, 0]


@pytest.mark.pure
def test_a_poll_is_of_one_element() -> None:
    with pytest.raises(KernelError) as caught:
        polled_block.interpret[(1,)](np.zeros(4, np.int32))
    check_error(caught.value, "tl.atomic_poll takes a pointer to one element", "tl.atomic_poll")


@pytest.mark.pure
def test_an_invocation_has_few_atomic_operations() -> None:
    """Those of a block of 128 x 128 took lavapipe a minute to compile."""
    function = ir.Function("added")
    memory, b = function.buffer("x", ir.FLOAT32), tile.Builder(function)
    b.atomic_block("add", memory, b.arange(0, 16384), [b.full(b.const(1.0, ir.FLOAT32), (16384,))], None)
    kernel = tile.lower(function, tile.Target(max_invocations=1024), n_warps=1).function
    assert kernel.local_size == (512, 1, 1)


@triton.jit
def result_is_dropped(x_ptr):
    tl.atomic_add(x_ptr, 1).to(tl.float32)


@pytest.mark.pure
def test_a_statement_is_evaluated_once() -> None:
    x = np.zeros(1, np.int32)
    result_is_dropped.interpret[(1,)](x)
    assert x[0] == 1
