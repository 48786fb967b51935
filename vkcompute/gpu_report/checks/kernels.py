"""Kernels in Python: numbers of each dtype, and each feature of the language that a driver may compile wrongly."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute import dtypes
from vkcompute.gpu_report.checks import numbers
from vkcompute.gpu_report.checks.numbers import LOCAL, N
from vkcompute.gpu_report.items import Item, Items, Session, equal

_GROUPS = 8


def items() -> Items:
    """Returns the items by name, the most doubtful first."""
    features = (
        subgroups, barriers, atomics, float_atomics, fences, loops, branches, private_arrays, vectors,
        numbers.bits, numbers.functions, numbers.fast_functions, numbers.integers_of_64_bits, numbers.random_numbers,
        views, many_arguments, large_grid, printing, checked_indices,
    )  # fmt: skip
    by_name: dict[str, Item] = {item.__name__.replace("_", " "): item for item in features}
    names = [row.name for row in dtypes.TABLE]
    by_name |= {f"arithmetic {name}": partial(numbers.arithmetic, name) for name in names}
    return by_name | {f"conversions from {name}": partial(numbers.conversions, name) for name in names}


@vc.kernel
def _lanes(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    v = x[i]
    out[i, 0] = vc.subgroup.local_id()
    out[i, 1] = vc.subgroup.add(v)
    out[i, 2] = vc.subgroup.exclusive_add(v)
    out[i, 3] = vc.subgroup.shuffle_xor(v, 1)
    out[i, 4] = vc.subgroup.broadcast_first(v)
    if v % 2 == 0:  # only some lanes are active
        out[i, 5] = vc.subgroup.add(1)
        out[i, 6] = vc.subgroup.max(v)
    if vc.subgroup.any(v > 900):
        out[i, 7] = 1


def subgroups(session: Session) -> dict[str, Any]:
    """Reductions, scans, shuffles and votes, in uniform and in divergent control flow, of subgroups of any size."""
    x = np.random.default_rng(1).integers(0, 1000, _GROUPS * LOCAL).astype(np.int32)
    out = session.gpu.zeros((x.size, 8), np.int32)
    _lanes[_GROUPS, LOCAL](session.gpu.array(x), out)
    lanes = out.numpy()[:, 0]
    starts = [*np.flatnonzero(lanes == 0).tolist(), x.size]
    rows = [_expected_lanes(x[start:stop]) for start, stop in pairwise(starts)]
    equal(out, np.concatenate(rows))
    return {"sizes": sorted({stop - start for start, stop in pairwise(starts)})}


def _expected_lanes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the results of the lanes of a subgroup with these values."""
    sums, lanes, even = np.cumsum(values, dtype=np.int32), np.arange(len(values)), values % 2 == 0
    columns = [lanes, np.full(len(values), sums[-1]), sums - values, values[lanes ^ 1]]
    columns += [np.full(len(values), values[0]), even * even.sum(), even * values[even].max(initial=0)]
    columns.append(np.full(len(values), (values > 900).any()))
    return np.stack(columns, 1).astype(np.int32)


@vc.kernel
def _tree(x: Any, out: Any) -> None:
    shared, i = vc.shared(64, vc.int32), vc.local_id(0)
    shared[i] = x[vc.global_id(0)]
    vc.barrier()
    step = 32
    while step > 0:
        if i < step:
            shared[i] += shared[i + step]
        vc.barrier()
        step //= 2
    out[vc.group_id(0)] = shared[0]


def barriers(session: Session) -> None:
    """A sum in workgroup memory, with a barrier in a loop."""
    x = np.arange(_GROUPS * LOCAL, dtype=np.int32) * 7919
    out = session.gpu.zeros(_GROUPS, np.int32)
    _tree[_GROUPS, LOCAL](session.gpu.array(x), out)
    equal(out, x.reshape(_GROUPS, -1).sum(1, dtype=np.int32))


@vc.kernel
def _histogram(bins: Any, highest: Any, old: Any, x: Any) -> None:
    i, local = vc.global_id(0), vc.shared(16, vc.uint32)
    if vc.local_id(0) < 16:
        local[vc.local_id(0)] = 0
    vc.barrier()
    if i < x.size:
        vc.atomic.add(local, x[i] % 16, 1)
        vc.atomic.max(highest, x[i] % 4, x[i])
        old[vc.atomic.add(bins, 16, 1)] = 1
    vc.barrier()
    if vc.local_id(0) < 16:
        vc.atomic.add(bins, vc.local_id(0), local[vc.local_id(0)])


def atomics(session: Session) -> None:
    """Atomic operations in workgroup memory and buffers, and the old values that they return."""
    gpu, x = session.gpu, np.random.default_rng(2).integers(0, 2**31, N).astype(np.uint32)
    bins, highest, old = gpu.zeros(17, np.uint32), gpu.zeros(4, np.uint32), gpu.zeros(N, np.uint32)
    _histogram[-(-N // LOCAL), LOCAL](bins, highest, old, gpu.array(x))
    equal(bins, np.append(np.bincount(x % 16, minlength=16), N).astype(np.uint32))
    equal(highest, np.array([x[x % 4 == k].max() for k in range(4)]))
    equal(old, np.ones(N, np.uint32))


@vc.kernel
def _float_sums(out: Any, x: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        vc.atomic.add(out, 0, x[i])
        vc.atomic.min(out, 1, x[i])
        vc.atomic.max(out, 2, x[i])


def float_atomics(session: Session) -> None:
    """Atomic operations on float32, by instructions or by loops of compare-exchanges."""
    x = np.random.default_rng(3).integers(-500, 500, N).astype(np.float32) / 4
    out = session.gpu.zeros(3)
    _float_sums[-(-N // LOCAL), LOCAL](out, session.gpu.array(x))
    equal(out, np.array([x.sum(), x.min(), x.max()], np.float32))


@vc.kernel
def _last_group(x: Any, partial: Any, counter: Any, out: Any) -> None:
    group, is_last = vc.group_id(0), vc.shared(1, vc.int32)
    if vc.local_id(0) == 0:
        partial[group] = x[2 * group] + x[2 * group + 1]
        vc.memory_fence()
        is_last[0] = vc.atomic.add(counter, 0, 1) == vc.num_groups(0) - 1
        vc.memory_fence()
    vc.barrier()
    if is_last[0] == 1 and vc.local_id(0) == 0:
        for k in range(len(partial)):
            out[0] += partial[k]


def fences(session: Session) -> None:
    """A sum by the last workgroup, which reads what all others have written in the same launch."""
    gpu, n_groups = session.gpu, 256
    for _ in range(4):
        out = gpu.zeros(1)
        _last_group[n_groups, 2](gpu.full(2 * n_groups, 3.0), gpu.zeros(n_groups), gpu.zeros(1, np.int32), out)
        equal(out, np.array([6 * n_groups], np.float32))


@vc.kernel
def _collatz(out: Any) -> None:
    i = vc.global_id(0)
    if i < out.shape[0]:
        value, steps, highest = i + 1, 0, i + 1
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            highest = max(highest, value)
            steps += 1
            if steps > 90:
                break
        else:
            out[i, 2] = 1
        for k in range(i % 7):
            for m in range(k):
                if m == 3:
                    continue
                steps += m
        out[i, 0], out[i, 1] = steps, highest


def loops(session: Session) -> None:
    """Loops of which invocations leave at different times, with results that leave with them."""
    out = session.gpu.zeros((N, 3), np.int32)
    _collatz(out, grid=-(-N // LOCAL), local_size=LOCAL)
    expected = np.zeros((N, 3), np.int32)
    for i in range(N):
        value, steps, highest = i + 1, 0, i + 1
        while value != 1 and steps <= 90:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            highest, steps = max(highest, value), steps + 1
        steps_in_loops = sum(m for k in range(i % 7) for m in range(k) if m != 3)
        expected[i] = steps + steps_in_loops, highest, steps <= 90
    equal(out, expected)


@vc.kernel
def _chosen(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        v = x[i]
        match v % 7:
            case 0:
                result = 5
            case 1 | 2:
                result = v * 3
            case 3 if v > 100:
                result = -v
            case _:
                result = v ^ 21
        if v > 500:
            if v % 3 == 0:
                out[i] = result + 1
                return
            result += 2
        elif v > 250 or v % 5 == 1:
            result -= 3
        out[i] = result


def branches(session: Session) -> None:
    """Nested branches, a match statement and early returns."""
    x, out = np.arange(N, dtype=np.int32), session.gpu.zeros(N, np.int32)
    _chosen(session.gpu.array(x), out, grid=-(-N // LOCAL), local_size=LOCAL)

    def expected(v: int) -> int:
        match v % 7:
            case 0:
                result = 5
            case 1 | 2:
                result = v * 3
            case 3 if v > 100:
                result = -v
            case _:
                result = v ^ 21
        if v > 500:
            return result + 1 if v % 3 == 0 else result + 2
        return result - 3 if v > 250 or v % 5 == 1 else result

    equal(out, np.array([expected(int(v)) for v in x], np.int32))


@vc.kernel
def _sorted_rows(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < x.shape[0]:
        row = vc.local(8, vc.float32)
        for k in range(8):
            row[k] = x[i, k]
        for k in range(1, 8):
            value, m = row[k], k
            while m > 0 and row[m - 1] > value:
                row[m] = row[m - 1]
                m -= 1
            row[m] = value
        for k in range(8):
            out[i, k] = row[k]


def private_arrays(session: Session) -> None:
    """An insertion sort in private memory, with indices that are known at run time only."""
    x = np.random.default_rng(4).random((N, 8), np.float32)
    out = session.gpu.zeros(x.shape)
    _sorted_rows(session.gpu.array(x), out, grid=-(-N // LOCAL), local_size=LOCAL)
    equal(out, np.sort(x, axis=1))


@vc.kernel
def _rotated(x: Any, out: Any, k: Any) -> None:
    i = vc.global_id(0)
    if i < x.shape[0]:
        v = vc.int32x4(x[i, 0], x[i, 1], x[i, 2], x[i, 3])
        w = vc.int32x4(v.wz, v[1:3]) * 3 - v
        out[i, 0], out[i, 1] = w @ v, w[k % 4]
        out[i, 2], out[i, 3] = max(v), sum(w.zyx)


def vectors(session: Session) -> None:
    """Vectors of four integers, with elements in other orders and by an index at run time."""
    v = np.random.default_rng(5).integers(-99, 99, (N, 4)).astype(np.int32)
    out = session.gpu.zeros(v.shape, np.int32)
    _rotated(session.gpu.array(v), out, 6, grid=-(-N // LOCAL), local_size=LOCAL)
    w = v[:, [3, 2, 1, 2]] * 3 - v
    equal(out, np.stack([(w * v).sum(1), w[:, 2], v.max(1), w[:, :3].sum(1)], 1).astype(np.int32))


@vc.kernel
def _transposed(x: Any, out: Any) -> None:
    i, j = vc.global_id(1), vc.global_id(0)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = x[i, j] + 1


def views(session: Session) -> None:
    """Views of other strides, transposed and reversed, as sources and targets."""
    host = np.arange(40 * 60, dtype=np.int32).reshape(40, 60)
    array, out = session.gpu.array(host), session.gpu.zeros((60, 40), np.int32)
    _transposed[(3, 4), (8, 8)](array[::2, 1:31].T, out[::-1, :20][:30])
    expected = np.zeros((60, 40), np.int32)
    expected[::-1, :20][:30] = host[::2, 1:31].T + 1
    equal(out, expected)


@vc.kernel
def _summed(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any, j: Any, k: Any, out: Any) -> None:
    at = vc.global_id(0)
    if at < out.size:
        out[at] = a[at] + b[at] + c[at] + d[at] + e[at] + f[at] + g[at] + h[at] + i[at] + j[at] + k[at]


def many_arguments(session: Session) -> None:
    """A kernel of twelve arrays."""
    arrays = [session.gpu.full(N, 2**k, np.int32) for k in range(11)]
    out = session.gpu.zeros(N, np.int32)
    _summed(*arrays, out, grid=-(-N // LOCAL), local_size=LOCAL)
    equal(out, np.full(N, 2**11 - 1, np.int32))


@vc.kernel
def _numbered(out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = i * 3


def large_grid(session: Session) -> None:
    """More workgroups than any device takes along an axis."""
    n = 70_001 * 16
    out = session.gpu.zeros(n, np.int32)
    _numbered(out, grid=70_001, local_size=16)
    equal(out, np.arange(n, dtype=np.int32) * 3)


@vc.kernel
def _said(out: Any) -> None:
    i = vc.global_id(0)
    out[i] = i * i
    print("the square of", i, "is", out[i])


def printing(session: Session) -> None:
    """Prints of a kernel, in the order of the grid."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        _said[2, 2](session.gpu.zeros(4, np.int32)).result()
    if text.getvalue() != "".join(f"the square of {i} is {i * i}\n" for i in range(4)):
        raise AssertionError(f"a kernel printed {text.getvalue()!r}")


@vc.kernel(check_bounds=True)
def _ahead(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i + 1]


def checked_indices(session: Session) -> None:
    """An index beyond an array, which a launch reports."""
    try:
        _ahead(session.gpu.zeros(4), session.gpu.zeros(4)).result()
    except vc.KernelError as error:
        if "index 4" not in str(error):
            raise AssertionError(str(error)) from error
        return
    raise AssertionError("an index out of bounds is not reported")
