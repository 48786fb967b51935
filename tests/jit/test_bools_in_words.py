"""Bools on a device that cannot store single bytes: kernels access words, and leave the neighbours' bytes alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled import target
from vkcompute.runtime.launching.launch_config import DEFAULT
from vkcompute.spirv import opcodes
from vkcompute.spirv.enums import Decoration
from vkcompute.spirv.module import Module

Bools = np.ndarray[Any, np.dtype[np.bool_]]
FLAGS = np.arange(11) % 3 == 1


@pytest.fixture(scope="module")
def words() -> Iterator[vc.Runtime]:
    """A runtime for which bools are compiled as on a device without 8-bit types."""
    made = target._target
    with vc.Runtime() as runtime:
        with pytest.MonkeyPatch.context() as patch:  # only as long as the target of this runtime is made
            patch.setattr(target, "_target", lambda given: replace(made(given), missing_types=("int8", "uint8")))
            assert target.target_of(runtime).missing_types
        yield runtime


def bools(n: int, seed: int) -> Bools:
    return np.random.default_rng(seed).random(n) < 0.5


@vc.kernel
def differ(x, y, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] != y[i]


@vc.kernel(check_bounds=True)
def invert(x):
    i = vc.global_id(0)
    x[i] = not x[i]


@vc.kernel
def scattered(x, out, step):
    i = vc.global_id(0)
    if i < out.size:
        j = i * step % out.size
        out[j] = not out[j]
        out[j] ^= x[j]


@vc.kernel
def anywhere(x, result):
    if x[vc.global_id(0)] > 0:
        result[0] = True


@vc.kernel
def sorts(x, out):
    """Uses bools in a shared array, a private one, a list and a constant table."""
    tile, mine, several = vc.shared(64, vc.bool_), vc.local(4, vc.bool_), [False] * 5
    i, here = vc.global_id(0), vc.local_id(0)
    tile[here] = x[i % x.size]
    for k in range(4):
        mine[(here + k) % 4] = (here + k) % 3 == 0
    several[here % 5] = True
    vc.barrier()
    if i < out.size:
        out[i] = (tile[63 - here] ^ mine[here % 4]) == FLAGS[i % 11] and several[here % 5]


@st.composite
def places(draw: st.DrawFn, n: int) -> tuple[int, slice]:
    """The length of an array, and a slice of `n` of its elements."""
    start, step, rest = draw(st.integers(0, 9)), draw(st.sampled_from([1, 1, 2, 3, -1, -2])), draw(st.integers(0, 9))
    last = start + max(n - 1, 0) * abs(step)
    if step > 0:
        return last + 1 + rest, slice(start, last + 1 if n else start, step)
    return last + 1 + rest, slice(last, (start - 1 if start else None) if n else last, step)


equal = vc.elementwise("x == y")
both = vc.elementwise("x and y, x or y")
flipped = vc.elementwise("not x")


@settings(max_examples=30)
@given(n=st.integers(0, 41), seed=st.integers(0, 999), data=st.data())
def test_views_and_their_neighbours(words: vc.Runtime, n: int, seed: int, data: st.DataObject) -> None:
    drawn = [data.draw(places(n)) for _ in range(3)]
    hosts = [bools(length, seed + at) for at, (length, _) in enumerate(drawn)]
    bases = [words.array(host) for host in hosts]
    x, y, out = [base[where] for base, (_, where) in zip(bases, drawn, strict=True)]
    a, b, c = [host[where] for host, (_, where) in zip(hosts, drawn, strict=True)]

    def same() -> None:
        assert np.array_equal(bases[2].numpy(), hosts[2]), "the elements of the view have changed, and no others"

    if n:
        differ(x, y, out)
        c[...] = a != b
        same()
        differ(out, x, out)
        c[...] = c != a
        same()
    assert np.array_equal(equal(x, y).numpy(), a == b)
    equal(x, y, out=out)
    c[...] = a == b
    same()
    flipped(out, out=out)
    c[...] = ~c
    same()
    assert [array.numpy().tolist() for array in both(x, out)] == [(a & c).tolist(), (a | c).tolist()]
    assert vc.reduce("a != b", False)(x).item() == (a.sum() % 2 == 1)


@pytest.mark.parametrize("n", [1, 3, 4, 15, 16, 17, 64, 1001, 4099])
def test_whole_arrays(words: vc.Runtime, n: int) -> None:
    a, b, numbers = bools(n, n), bools(n, n + 1), np.random.default_rng(n).random(n, np.float32)
    x, y, z = words.array(a), words.array(b), words.array(numbers)
    assert np.array_equal(equal(x, y).numpy(), a == b)
    assert np.array_equal(vc.elementwise("x and z < 0.5")(x, z).numpy(), (numbers < 0.5) & a)
    assert np.array_equal(vc.elementwise("(1 if x else -1) * z")(x, z).numpy(), np.where(a, numbers, -numbers))
    assert vc.reduce("a + b", 0)(x).item() == a.sum()
    assert vc.reduce("a or b", False)(x).item() == a.any()
    assert np.array_equal(equal(x.reshape(n, 1), y[:3]).numpy(), a[:, None] == b[:3])


def test_any_byte_but_zero_is_true(words: vc.Runtime) -> None:
    given = np.array([0, 1, 2, 255, 128, 0, 64, 3, 0], np.uint8)
    x, out = words.array(given), words.full(9, 7, np.uint8)
    expected = np.where(given != 0, 0, 1)
    assert flipped(x.view(bool)).numpy().view(np.uint8).tolist() == expected.tolist()
    flipped(x.view(bool)[1:-1], out=out.view(bool)[1:-1])
    assert out.numpy().tolist() == [7, *expected[1:-1].tolist(), 7]


@pytest.mark.parametrize("n", [5, 203, 20_011])
def test_many_invocations_store_to_adjacent_bytes(words: vc.Runtime, n: int) -> None:
    a, expected = bools(n, 1), bools(n + 6, 2)
    x, base = words.array(a), words.array(expected)
    for step in (1, 2, 101, n - 1):  # n is prime or coprime to these: each element is stored once
        scattered(x, base[3:-3], step if np.gcd(step, n) == 1 else 1)
        expected[3:-3] = ~expected[3:-3] ^ a
    assert np.array_equal(base.numpy(), expected)


def test_launches_on_neighbours_of_a_word(words: vc.Runtime) -> None:
    expected = bools(64, 3)
    base, zeros = words.array(expected), words.zeros(64, bool)
    cuts = [0, 1, 2, 5, 6, 11, 30, 33, 64]
    for _ in range(5):
        for start, stop in itertools.pairwise(cuts):
            differ(base[start:stop], zeros[: stop - start], base[start:stop])
            flipped(base[start:stop], out=base[start:stop])
        base[1].fill(True)  # a copy of one byte, between launches that store to its word
        expected = ~expected
        expected[1] = True
    assert np.array_equal(base.numpy(), expected)


def test_what_is_loaded_may_be_what_a_store_clears_first() -> None:
    """In place, a load must not move past the operation that clears the byte before it is stored."""
    function = ir.Function("flip")
    x, out = function.buffer("x", ir.BOOL), function.buffer("out", ir.BOOL)
    b = ir.Builder(function)
    me = b.builtin("global_id")
    b.store(out, me, b.compute("not", b.load(x, me)))
    module = Module.parse(ir.lower(ir.optimize(function), ir.Target(missing_types=("int8", "uint8"))).spirv)
    decorations = [
        instruction.operands[1] for instruction in module.annotations if instruction.opcode == opcodes.OpDecorate
    ]
    assert decorations.count(Decoration.Aliased) == 2
    assert Decoration.NonWritable not in decorations


def test_a_launch_owns_the_words_that_it_stores_bytes_to(words: vc.Runtime) -> None:
    x, out = words.zeros(11, bool), words.zeros(20, bool)
    kernel = differ._launcher.kernel(DEFAULT, {}, (x, x, out[5:16]))
    writes, reads = kernel.ranges((x, x, out[5:16]))
    [(buffer, start, stop)] = writes
    assert (buffer, stop) == (out.buffer, 16)
    assert start in (0, 4), "the first word, or the aligned byte from which a view is bound"
    assert writes[0] in reads, "a failure of a neighbour is seen"


def test_many_store_true_to_one_byte(words: vc.Runtime) -> None:
    x = words.array(np.float32([0] * 200 + [1] * 100))
    result = words.zeros(3, bool)
    anywhere[300](x, result[1:2])
    assert result.numpy().tolist() == [False, True, False]


def test_bools_in_other_memory(words: vc.Runtime) -> None:
    a = bools(130, 5)
    x, out = words.array(a), words.zeros(130, bool)
    sorts[3, 64](x, out)
    simulated = np.zeros(130, bool)
    sorts.simulate[3, 64](a, simulated)
    assert np.array_equal(out.numpy(), simulated)
    assert simulated.any()


def test_indices_out_of_bounds_store_nothing(words: vc.Runtime) -> None:
    a = bools(12, 7)
    base = words.array(a)
    invert[1, 64](base[2:9])
    with pytest.raises(vc.KernelError, match=r"index 7 is outside of x, whose shape is \(7,\)"):
        words.wait()
    base.write(a)
    invert[1, 7](base[2:9])
    a[2:9] = ~a[2:9]
    assert np.array_equal(base.numpy(), a)


def test_graphs_with_other_inputs(words: vc.Runtime) -> None:
    a, b = bools(21, 8), bools(21, 9)
    x, y, out = words.array(a), words.array(b), words.zeros(21, bool)
    with words.record(x=x, out=out) as graph:
        between = graph.empty(21, bool)
        differ(graph["x"], y, between)
        flipped(between[::-1], out=graph["out"])
    graph.run()
    assert np.array_equal(out.numpy(), ~(a != b)[::-1])
    base = words.zeros(256 * 2 + 30, bool)  # an input begins where the device may bind it, and ends in a word
    graph.run(x=y, out=base[256:277])
    expected = np.zeros(256 * 2 + 30, bool)
    expected[256:277] = True
    assert np.array_equal(base.numpy(), expected)
