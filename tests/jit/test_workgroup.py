"""Shared arrays, barriers and atomics in Python kernels: numpy is the oracle."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from host import SimulatedRuntime
from oracle import module
from test_kernel_errors import compiled

import vkcompute as vc
from vkcompute.errors import KernelError, MissingFeature

GROUP = 64
TILE = 8


@vc.kernel
def turn(x):
    tile = vc.shared(GROUP, x.dtype)
    i, here = vc.global_id(0), vc.local_id(0)
    if i < x.size:
        tile[here] = x[i]
    vc.barrier()
    if i < x.size:
        x[i] = tile[len(tile) - 1 - here]


@pytest.mark.parametrize("dtype", "bool uint8 int16 int32 float16 float32 uint64 float64".split())
def test_tiles_turned_around(gpu: vc.Runtime, dtype: str) -> None:
    array = (np.random.default_rng(0).random(5 * GROUP) * 100 % 7).astype(dtype)
    array[::3] = 0
    try:
        x = gpu.array(array)
        turn(x)
    except MissingFeature as missing:
        pytest.skip(str(missing))
    assert np.array_equal(x.numpy(), array.reshape(5, GROUP)[:, ::-1].ravel())


@vc.kernel
def product(a, b, out):
    left = vc.shared((TILE, TILE), a.dtype)
    right = vc.shared((TILE, TILE), b.dtype)
    x, y = vc.local_id(0), vc.local_id(1)
    column, row = vc.global_id(0), vc.global_id(1)
    total = vc.float32(0)
    for tile in range((a.shape[1] + left.shape[1] - 1) // left.shape[1]):
        k = tile * TILE
        left[y, x] = a[row, k + x] if row < a.shape[0] and k + x < a.shape[1] else 0
        right[y, x] = b[k + y, column] if k + y < b.shape[0] and column < b.shape[1] else 0
        vc.barrier()
        for j in range(TILE):
            total += left[y, j] * right[j, x]
        vc.barrier()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


@pytest.mark.rotates
@pytest.mark.parametrize("sizes", [(1, 1, 1), (8, 8, 8), (9, 30, 17)])
def test_matrices_multiplied_by_tiles(gpu: vc.Runtime, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    out = gpu.empty((m, n))
    product[(-(-n // TILE), -(-m // TILE)), (TILE, TILE)](gpu.array(a), gpu.array(b), out)
    bound = k * np.finfo(np.float32).eps * (np.abs(a).astype(float) @ np.abs(b))
    assert np.all(np.abs(out.numpy() - a.astype(float) @ b) <= bound)


@vc.kernel
def block_sums(x, sums):
    part = vc.shared(vc.local_size(0), vc.float32)
    i, here = vc.global_id(0), vc.local_id(0)
    part[here] = x[i] if i < x.size else 0
    vc.barrier()
    half = vc.local_size(0) // 2
    while half > 0:
        if here < half:
            part[here] += part[here + half]
        vc.barrier()
        half //= 2
    if here == 0:
        sums[vc.group_id(0)] = part[0]


@pytest.mark.parametrize("group", [1, 32, 128])
def test_sums_of_blocks(gpu: vc.Runtime, group: int) -> None:
    n = 200 if isinstance(gpu, SimulatedRuntime) else 1000
    array = np.random.default_rng(2).integers(-9, 10, n).astype(np.float32)  # sums are exact
    n_groups = -(-array.size // group)
    sums = gpu.empty(n_groups)
    block_sums[n_groups, group](gpu.array(array), sums)
    whole = np.concatenate([array, np.zeros(n_groups * group - array.size, np.float32)])
    assert np.array_equal(sums.numpy(), whole.reshape(n_groups, group).sum(1))


@vc.kernel
def histogram(x, counts):
    bins = vc.shared(256, vc.uint32)
    i, here, n = vc.global_id(0), vc.local_id(0), vc.local_size(0)
    for k in range(here, bins.size, n):
        bins[k] = 0
    vc.barrier()
    if i < x.size:
        vc.atomic.add(bins, x[i], 1)
    vc.barrier()
    for k in range(here, bins.size, n):
        vc.atomic.add(counts, k, bins[k])


def test_a_histogram(gpu: vc.Runtime) -> None:
    n = 300 if isinstance(gpu, SimulatedRuntime) else 10_000  # which simulated take twenty seconds
    array = np.random.default_rng(3).integers(0, 256, n).astype(np.int32)
    x, counts = gpu.array(array), gpu.zeros(256, np.uint32)
    for times in (1, 2):  # a launch that adds reads what the one before has written
        histogram[(array.size + 99) // 100, 100](x, counts)
        assert np.array_equal(counts.numpy(), times * np.bincount(array, minlength=256))


ATOMICS: dict[str, Any] = {
    "add": (vc.atomic.add, np.add),
    "min": (vc.atomic.min, np.minimum),
    "max": (vc.atomic.max, np.maximum),
    "and": (vc.atomic.and_, np.bitwise_and),
    "or": (vc.atomic.or_, np.bitwise_or),
    "xor": (vc.atomic.xor, np.bitwise_xor),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_combine(gpu: vc.Runtime, name: str, dtype: type[np.integer[Any]], shared: bool) -> None:
    atomic, ufunc = ATOMICS[name]

    def combine(x, out):
        tile = vc.shared((2, 3), x.dtype)
        i = vc.local_id(0)
        if i < 6:
            tile[i // 3, i % 3] = out[i // 3, i % 3]
        vc.barrier()
        if shared:
            atomic(tile, (i % 2, -1), x[i])
        else:
            atomic(out, (i % 2, -1), x[i])
        vc.barrier()
        if shared and i < 6:
            out[i // 3, i % 3] = tile[i // 3, i % 3]

    info = np.iinfo(dtype)
    rng = np.random.default_rng(4)
    array = rng.integers(info.min, info.max, GROUP, dtype, endpoint=True)
    start = rng.integers(info.min, info.max, (2, 3), dtype, endpoint=True)
    out = gpu.array(start)
    try:
        vc.kernel(combine)[1, GROUP](gpu.array(array), out)
    except MissingFeature as missing:
        assert info.bits == 64
        pytest.skip(str(missing))
    expected = start.copy()
    for parity in (0, 1):
        expected[parity, 2] = ufunc.reduce(np.append(array[parity::2], start[parity, 2]), dtype=dtype)
    assert np.array_equal(out.numpy(), expected)


@vc.kernel
def tickets(place, seen, winner, wins):
    i = vc.global_id(0)
    seen[i] = vc.atomic.exchange(place, 0, i + 1)
    if vc.atomic.compare_exchange(winner, (), -1, i) == -1:
        wins[i] = 1


def test_exchanges_hand_on_what_was_there(gpu: vc.Runtime) -> None:
    n = 4 * GROUP
    place, seen, wins = gpu.zeros(1, np.int32), gpu.zeros(n, np.int32), gpu.zeros(n, np.int32)
    winner = gpu.full((), -1, np.int32)
    tickets[4, GROUP](place, seen, winner, wins)
    assert sorted([*seen.numpy().tolist(), place.item()]) == list(range(n + 1))
    assert np.flatnonzero(wins.numpy()).tolist() == [winner.item()]


@vc.kernel
def locked(total, lock, rounds):
    for _ in range(rounds):
        vc.atomic.add(total, 0, vc.atomic.add(lock, 0, 1) % 2)


@pytest.mark.device_only
def test_an_atomic_reads_and_writes_to_the_scheduler(gpu: vc.Runtime) -> None:
    from vkcompute.frontend.source import definition_of
    from vkcompute.jit.compilation.build import specialize

    def only(x):
        vc.atomic.max(x, 0, 3)

    compiled = specialize(definition_of(only), (("i", 1),))  # type: ignore[arg-type]
    kernel = gpu.kernel(compiled.spirv)
    assert (kernel.reads, kernel.writes, compiled.first) == ([0], [0], None)
    total, lock = gpu.zeros(1, np.int32), gpu.zeros(1, np.int32)
    for _ in range(20):
        locked[2, 32](total, lock, 3)
    assert (lock.item(), total.item()) == (20 * 2 * 32 * 3, 20 * 32 * 3)


def test_the_grid_is_over_what_is_assigned_and_not_over_a_counter(gpu: vc.Runtime) -> None:
    @vc.kernel
    def counted(count, x, out):
        i = vc.global_id(0)
        if i < x.size:
            vc.atomic.add(count, 0, 1)
            out[i] = x[i] + 1

    @vc.kernel
    def only_counted(count, x):
        if vc.global_id(0) < x.size:
            vc.atomic.add(count, 0, 1)

    count, x, out = gpu.zeros(1, np.int32), gpu.zeros(1000, np.int32), gpu.zeros(1000, np.int32)
    counted(count, x, out)
    assert count.numpy()[0] == out.numpy().sum() == 1000
    with pytest.raises(ValueError, match=r"only_counted assigns to no array.*give the grid"):
        only_counted(count, x)
    only_counted[16, 64](count, x)
    assert count.numpy()[0] == 2000


@pytest.mark.device_only
def test_more_than_the_device_has(gpu: vc.Runtime) -> None:
    most = gpu.device.physical.limits["maxComputeSharedMemorySize"]

    @vc.kernel
    def large(x):
        tile = vc.shared(most // 4 + 1, vc.float32)
        tile[0] = 1
        x[0] = tile[0]

    with pytest.raises(ValueError, match=rf"large has {most + 4} or more bytes of shared memory.* takes {most}; make"):
        large(gpu.zeros(1))


UNIFORM = [
    "for k in range(n):\n        vc.barrier()",
    "for k in range(x.size):\n        if k > 3:\n            break\n        vc.barrier()",
    "if vc.group_id(0) < n:\n        vc.barrier()",
    "if vc.local_size(0) > 3 and n < 3:\n        vc.barrier()",
    "if n < 3:\n        return\n    vc.barrier()",
    "if i < n:\n        return\n    vc.barrier()",
    "if n > 2:\n        if i > 3:\n            return\n    vc.barrier()",
    "for k in range(n):\n        vc.barrier()\n        if x[i] > k:\n            return",
    "for k in range(i):\n        if x[k] > 3: return\n    vc.barrier()",
    "while vc.barrier_any(x[i] > n):\n        if x[i] > 3: return\n        x[i] += 1",
    "if vc.barrier_count(i > n) > 2:\n        vc.barrier()",
    "if x[vc.group_id(0)] < 3:\n        vc.barrier()",
    "if i < n:\n        x[i] = 1\n    vc.barrier()",
    "for k in range(i):\n        x[k] = 1\n    vc.barrier()",
    "while i < 9:\n        i += 1\n        if x[i] > 1: continue\n        if x[i] < 0: break\n    vc.barrier()",
    "y = first(i)\n    vc.barrier()",
    "while n > 0:\n        vc.barrier()\n        n //= 2",
    # What one invocation writes, all read between two barriers.
    "if i == 0: t[0] = x[i]\n    vc.barrier()\n    if t[0] > 3:\n        vc.barrier()",
    "vc.barrier()\n    while t[0] > 1:\n        vc.barrier()\n        if i < 1: t[0] -= 1\n        vc.barrier()",
    "x[i] = 1\n    vc.barrier()\n    if x[0] > 3:\n        vc.barrier()",
    "t[i] = 1\n    if n > 2:\n        vc.barrier()\n        if t[1] > 3: vc.barrier()",
    "for k in range(n):\n        t[i] = k\n        vc.barrier()\n        if t[0] > 3: break\n        vc.barrier()",
    "c[i] = 1\n    if x[0] > 3:\n        vc.barrier()",
    "vc.atomic.add(t, 0, 1)\n    vc.barrier()\n    if t[0] > 3:\n        vc.barrier()",
]
DIVERGENT = [
    "if i < n:\n        vc.barrier()",
    "for k in range(i):\n        vc.barrier()",
    "for k in range(n):\n        if x[0] + i > k:\n            break\n        vc.barrier()",
    "for k in range(n):\n        vc.barrier()\n        if i > k:\n            continue\n        x[i] = 1",
    "for k in range(n):\n        n = i\n        if n > 3: x[i] = 2\n        if n > 2:\n            vc.barrier()",
    "y = 1\n    if i < n:\n        y = 2\n    if y == 2:\n        vc.barrier()",
    "y = 0\n    for k in range(n):\n        if y > 2:\n            vc.barrier()\n        y = i",
    "if first(i) > 0:\n        vc.barrier()",
    "if i < n:\n        return\n    if vc.local_id(0) < 2:\n        vc.barrier()",
    "guarded(i)",
    "if vc.barrier_any(i > n):\n        if i > 2: vc.barrier()",
]
# Conditions on memory or other lanes, which are compared at run time.
UNPROVED = [
    "for k in range(n):\n        if x[i] > k:\n            break\n        vc.barrier()",
    "for k in range(n):\n        vc.barrier()\n        if x[i] > k:\n            break",
    "for k in range(n):\n        vc.barrier()\n        if x[i] > k:\n            continue\n        x[i] = 1",
    "y = 0\n    while x[i] > y:\n        y += 1\n    if y > 2:\n        vc.barrier()",
    "if vc.atomic.add(c, 0, 1) == 0:\n        vc.barrier()",
    # Elements that invocations write while others read them.
    "t[0] = i\n    if t[0] > 3:\n        vc.barrier()",
    "x[0] = i\n    y = x[0]\n    if y > 3:\n        vc.barrier()",
    "if n > 2: t[i] = 1\n    if t[0] > 3:\n        vc.barrier()",
    "y = t[0]\n    t[i] = 1\n    if y > 3:\n        vc.barrier()",
    "t[i] = 1\n    if n > 2: vc.barrier()\n    if t[0] > 3:\n        vc.barrier()",
    "while t[0] > 1:\n        if i < 1: t[0] -= 1\n        vc.barrier()",
    "for k in range(n):\n        t[i] = k\n        vc.barrier()\n        if t[0] > 3: vc.barrier()",
    "for k in range(n):\n        if t[0] > 3: break\n        vc.barrier()\n        t[i] = k",
    "vc.atomic.add(t, 0, 1)\n    if t[0] > 3:\n        vc.barrier()",
    "vc.atomic.add(c, 0, 1)\n    vc.barrier()\n    if c[0] > 3:\n        vc.barrier()",  # by other workgroups, too
    "stored(t, i)\n    if t[0] > 3:\n        vc.barrier()",
    "if i < n:\n        return\n    if t[i] > 3:\n        vc.barrier()",
]
MODULE = """
import vkcompute as vc
def first(i):
    if i > 2:
        return i
    return 3
def guarded(i):
    if i > 0:
        vc.barrier()
def stored(t, i):
    t[i] = 1
def kernel(x, c, n):
    t = vc.shared(4, vc.float32)
    i = vc.global_id(0)
    {statement}
"""
_TYPES = ("f", 1), ("i", 1), int


@pytest.mark.pure
@pytest.mark.parametrize("statement", UNIFORM)
def test_barriers_where_all_come(statement: str) -> None:
    compiled(module(MODULE.format(statement=statement)).kernel, *_TYPES)


@pytest.mark.pure
@pytest.mark.parametrize("statement", DIVERGENT)
def test_barriers_where_only_some_may_come(statement: str) -> None:
    result = module(MODULE.format(statement=statement))
    with pytest.raises(KernelError, match="only some invocations of a workgroup may reach this barrier") as raised:
        compiled(result.kernel, *_TYPES)
    _, line, caret, *_ = str(raised.value).split("\n")
    assert line[caret.index("^") :] == "vc.barrier()"


@pytest.mark.pure
@pytest.mark.parametrize("statement", UNPROVED)
def test_conditions_that_are_compared_at_run_time(statement: str) -> None:
    (site,) = compiled(module(MODULE.format(statement=statement)).kernel, *_TYPES).sites
    assert site.fails
    assert "only some invocations of the workgroup reach this barrier" in site.text
    assert "vc.barrier()" in site.text.split("\n")[1]


@pytest.mark.device_only
def test_a_condition_on_an_array_that_another_argument_writes(gpu: vc.Runtime) -> None:
    @vc.kernel
    def waits(x, out):
        out[vc.global_id(0)] = vc.global_id(0)
        if x[0] > 3:
            vc.barrier()

    x, out = gpu.zeros(GROUP), gpu.zeros(GROUP)
    waits(x, out)
    assert np.array_equal(out.numpy(), np.arange(GROUP))
    waits(out, out)  # compared at run time
    assert np.array_equal(out.numpy(), np.arange(GROUP))


REFUSED = [
    (
        "y = vc.shared(n, vc.int32)",
        "positive ints, known at compile time; got an argument; launch the kernel with its value",
        "vc.shared",
    ),
    ("y = vc.shared((2, 0), vc.int32)", "positive ints, known at compile time; got 0", "vc.shared"),
    ("y = vc.shared(2, float)", "one of numpy's, as vc.float32; got", "vc.shared"),
    ("y = vc.shared(2**31, vc.int8)", "a shared array of 2147483648 bytes", "vc.shared"),
    ("y = vc.shared(n + i, vc.int32)", "got a value that is known at the launch only", "vc.shared"),
    ("y = make(i)", "got a value that is known at the launch only", "vc.shared"),
    ("y = vc.shared(2)", "shared takes 2 to 3 arguments; got 1", "vc.shared"),
    ("y = vc.shared(2, vc.int8)[2]", "has 2 elements along this axis; got 2", "vc.shared"),
    ("y = vc.shared(2, vc.int8) + 1", "got the shared array shared (int8, 1-D); index it", "vc.shared"),
    ("y = vc.shared(2, vc)", "one of numpy's, as vc.float32; got the module vkcompute", "vc.shared"),
    (
        "vc.atomic.and_(x, 0, 1)",
        "and_ takes integers; got the array x",
        "vc.atomic.and_",
    ),
    (
        "vc.atomic.add(c, 0, 1.5)",
        "atomic.add on int32 takes integers; got a Python float; write int(x)",
        "vc.atomic.add",
    ),
    ("vc.atomic.max(c, 0, x[0])", "atomic.max on int32 takes integers; got float32; write int(x)", "vc.atomic.max"),
    ("vc.atomic.compare_exchange(c, 0, 1, 1.0)", "on int32 takes integers; got a Python float", "vc.atomic.compare"),
    ("y = vc.shared(2, bool); vc.atomic.or_(y, 0, 1)", "got the shared array y (bool, 1-D); make it", "vc.atomic.or_"),
    ("vc.atomic.compare_exchange(x, 0, 1, 2)", "exchange the index of an element", "vc.atomic.compare_exchange"),
    ("vc.atomic.add(c, 0)", "atomic.add takes 3 arguments; got 2", "vc.atomic.add"),
    ("vc.atomic.add(c[0], 0, 1)", "only arrays, vectors and tuples are indexed; got int32", "vc.atomic.add"),
    ("vc.atomic.add(c, (0, 1), 1)", "c takes 1 indices, one per axis; got 2", "vc.atomic.add"),
]


@pytest.mark.pure
@pytest.mark.parametrize(("statement", "message", "at"), REFUSED, ids=[item[0] for item in REFUSED])
def test_what_is_refused(statement: str, message: str, at: str) -> None:
    text = MODULE.replace("def kernel", "def make(n):\n    return vc.shared(n, vc.int8)\ndef kernel")
    result = module(text.format(statement=statement))
    with pytest.raises(KernelError) as raised:
        compiled(result.kernel, *_TYPES)
    first, line, caret, *_ = str(raised.value).split("\n")
    assert message in first
    assert line[caret.index("^") :].startswith(at)


@pytest.mark.pure
@pytest.mark.parametrize("name", ["shared", "barrier", *(f"atomic.{name}" for name in dir(vc.atomic))])
def test_the_names_mean_nothing_outside(name: str) -> None:
    args = {"shared": (2, vc.int32), "barrier": (), "atomic.compare_exchange": ([1], 0, 1, 2)}.get(name, ([1], 0, 1))
    with pytest.raises(KernelError, match=rf"vc\.{name}.* inside of a function that vc.kernel compiles"):
        attrgetter(name)(vc)(*args)
