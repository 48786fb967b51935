"""Records in kernels: arrays of them, fields, assignments, arguments, and views of memory as another type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc

FIELDS: list[Any] = [
    ("x", "f4"), ("k", "i1"), ("h", "f2"), ("b", "?"), ("z", "c8"), ("v", "i4", (2, 3)),
    ("n", [("p", "u2"), ("q", "i4")]),
]  # fmt: skip
PACKED, ALIGNED = np.dtype(FIELDS), np.dtype(FIELDS, align=True)
ODD = np.dtype([("a", "i1"), ("b", "f4"), ("c", "u2"), ("d", "f4", 2)])  # of 15 bytes


def filled(dtype: np.dtype[Any], n: int) -> np.ndarray[Any, Any]:
    """Returns records of numbers that all differ."""
    rng = np.random.default_rng(n)
    host = np.zeros(n, dtype)
    for name in dtype.names or ():
        part = host[name]
        if part.dtype.names:
            part["p"], part["q"] = rng.integers(0, 60_000, n), rng.integers(-(2**31), 2**31, n)
        else:
            part[...] = rng.integers(-100 if part.dtype.kind in "if" else 0, 100, part.shape)
    return host


@pytest.mark.parametrize("dtype", [PACKED, ALIGNED], ids=["packed", "aligned"])
def test_fields_of_all_types_are_loaded_and_stored(gpu: vc.Runtime, dtype: np.dtype[Any]) -> None:
    @vc.kernel
    def change(a, b):
        i = vc.global_id(0)
        if i < a.size:
            r = a[i]
            b[i] = r
            b[i].x = r.x * 2
            b[i].k += 1
            b[i]["h"] = r["h"] + 1
            b[i].b = not r.b
            b[i].z = r.z * 1j
            b[i].v[1, -1] = r.v[0, 1] + r.n.p
            b[i].n.q = r.n.q - 1
            b[i].n.p = i

    host = filled(dtype, 70)
    b = gpu.zeros(70, dtype)
    change(gpu.array(host), b)
    want = host.copy()
    want["x"] *= 2
    want["k"] += 1
    want["h"] += 1
    want["b"] = ~host["b"]
    want["z"] *= 1j
    want["v"][:, 1, 2] = host["v"][:, 0, 1] + host["n"]["p"]
    want["n"]["q"] -= 1
    want["n"]["p"] = np.arange(70)
    got = b.numpy()
    for name in dtype.names or ():
        assert np.array_equal(got[name], want[name]), name


def test_wide_fields_are_at_multiples_of_words(gpu: vc.Runtime) -> None:
    dtype = np.dtype([("f", "f8"), ("i", "i4"), ("g", "i8"), ("z", "c16")])

    @vc.kernel
    def change(a):
        i = vc.global_id(0)
        if i < a.size:
            a[i].f = a[i].f / 3
            a[i].g += vc.int64(1) << 40
            a[i].z = a[i].z * 2j

    host = filled(dtype, 9)
    device = gpu.array(host)
    change(device, grid=1)
    got = device.numpy()
    assert np.array_equal(got["f"], host["f"] / 3)
    assert np.array_equal(got["g"], host["g"] + (1 << 40))
    assert np.array_equal(got["z"], host["z"] * 2j)
    assert np.array_equal(got["i"], host["i"])


@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(None, None, 3), slice(None, None, -1)])
def test_views_of_records_across_words(gpu: vc.Runtime, part: slice) -> None:
    @vc.kernel
    def change(a):
        i = vc.global_id(0)
        if i < a.size:
            a[i].a += 1
            a[i].b += a[i].c
            a[i].d[1] = a[i].d[0]

    host = filled(ODD, 37)
    device = gpu.array(host)
    change(device[part], grid=1)
    want = host.copy()[part]
    want["a"] += 1
    want["b"] += want["c"]
    want["d"][:, 1] = want["d"][:, 0]
    whole = host.copy()
    whole[part] = want
    assert np.array_equal(device.numpy(), whole)


def test_stores_to_parts_of_a_word_do_not_race(gpu: vc.Runtime) -> None:
    dtype = np.dtype([("a", "u1"), ("b", "u1"), ("c", "u2")])

    @vc.kernel
    def store(out):
        i = vc.global_id(0)
        if i < 3 * out.size:
            k = i // 3
            if i % 3 == 0:
                out[k].a = vc.uint8(k)
            elif i % 3 == 1:
                out[k].b = vc.uint8(k + 1)
            else:
                out[k].c = vc.uint16(k + 2)

    out = gpu.zeros(1000, dtype)
    store(out, grid=50)
    k = np.arange(1000)
    got = out.numpy()
    assert np.array_equal(got["a"], k.astype("u1"))
    assert np.array_equal(got["b"], (k + 1).astype("u1"))
    assert np.array_equal(got["c"], k + 2)


def test_shared_and_private_arrays_of_records(gpu: vc.Runtime) -> None:
    dtype = np.dtype([("key", "i4"), ("small", "u1"), ("pair", "f4", 2)])

    @vc.function
    def swap(one, other):
        key = one.key
        one.key = other.key
        other.key = key

    @vc.kernel(local_size=8)
    def reverse(a):
        tile, mine = vc.shared(8, dtype), vc.local(2, dtype)
        i = vc.local_id(0)
        tile[i] = a[i]
        vc.barrier()
        mine[0] = tile[7 - i]
        mine[1] = a[i]
        swap(mine[0], mine[1])
        mine[i % 2].small = mine[(i + 1) % 2].small
        a[i] = mine[1]

    host = np.zeros(8, dtype)
    host["key"], host["small"], host["pair"] = np.arange(8), np.arange(8) * 20, np.arange(16).reshape(8, 2)
    device = gpu.array(host)
    reverse(device, grid=1)
    got = device.numpy()
    assert got["key"].tolist() == [*range(7, -1, -1)]
    i = np.arange(8)
    assert got["small"].tolist() == np.where(i % 2 == 1, host["small"][::-1], host["small"]).tolist()
    assert np.array_equal(got["pair"], host["pair"])


def test_records_as_arguments(gpu: vc.Runtime) -> None:
    @vc.kernel
    def scale(r, x, y):
        i = vc.global_id(0)
        if i < x.size:
            y[i] = x[i] * r.x + r.n.q + r.v[1, 0]

    record = filled(PACKED, 3)[1]
    x, y = gpu.array(np.arange(9, dtype=np.float32)), gpu.zeros(9)
    for factor in (2, 3):  # another value of the same type
        record["x"], record["n"]["q"] = factor, 5
        scale(record, x, y)
        assert y.numpy().tolist() == [i * factor + 5 + record["v"][1, 0] for i in range(9)]


def test_arrays_of_a_field_and_atomic_operations(gpu: vc.Runtime) -> None:
    dtype = np.dtype([("n", "i4"), ("sum", "f4")])

    @vc.kernel
    def count(bins, x):
        i = vc.global_id(0)
        if i < x.size:
            n, sums = bins.n, bins["sum"]
            vc.atomic.add(n, i % 3, 1)
            vc.atomic.add(sums, i % 3, x[i])
            vc.atomic.max(n, 3, i - 50)

    bins = gpu.zeros(4, dtype)
    bins["n"].fill(-100)
    count(bins, gpu.array(np.ones(90, np.float32)), grid=2)
    assert bins.numpy()["n"].tolist() == [-70, -70, -70, 39]
    assert bins["sum"].numpy().tolist() == [30, 30, 30, 0]


def test_views_of_memory_as_another_type(gpu: vc.Runtime) -> None:
    @vc.kernel(local_size=4)
    def bits(x, words, out, small):
        i = vc.local_id(0)
        words[i] = x.view(vc.int32)[i]
        tile = vc.shared(4, vc.float32)
        tile[i] = x[i]
        vc.barrier()
        out[i] = tile.view(vc.uint8)[4 * i + 3]  # sign and exponent
        tile.view(np.int16)[2 * i + 1] = 0x4000
        vc.barrier()
        x[i] = tile[i]
        small.view(vc.float32)[i] = i + 0.5

    host = np.array([1, -1.5, 0.25, 1e30], np.float32)
    x, words, out = gpu.array(host), gpu.zeros(4, np.int32), gpu.zeros(4, np.int32)
    small = gpu.zeros(16, np.uint8)
    bits(x, words, out, small, grid=1)
    assert np.array_equal(words.numpy(), host.view(np.int32))
    assert np.array_equal(out.numpy(), host.view(np.uint8)[3::4])
    changed = host.view(np.int16).copy()
    changed[1::2] = 0x4000
    assert np.array_equal(x.numpy(), changed.view(np.float32))
    assert np.array_equal(small.numpy().view(np.float32), np.arange(4) + 0.5)


def test_tables_of_records(gpu: vc.Runtime) -> None:
    table = filled(PACKED, 4)

    @vc.kernel
    def look_up(out):
        i = vc.global_id(0)
        if i < 4:
            out[i] = table[i].x + table[i].n.p

    out = gpu.zeros(4)
    look_up(out)
    assert np.array_equal(out.numpy(), table["x"] + table["n"]["p"].astype(np.float32))


@pytest.mark.device_only
def test_indices_of_records_are_checked(gpu: vc.Runtime) -> None:
    @vc.kernel(check_bounds=True)
    def store(a, n):
        a[n].x = 1

    device = gpu.zeros(3, PACKED)
    store(device, 2, grid=1).result()
    with pytest.raises(vc.KernelError, match=r"index 3 is outside of a, whose shape is \(3,\)"):
        store(device, 3, grid=1).result()


@pytest.mark.device_only
def test_what_records_refuse(gpu: vc.Runtime) -> None:
    @vc.kernel
    def unknown(a):
        a[0].nothing = 1

    @vc.kernel
    def number(a):
        a[0] = 1

    @vc.kernel
    def computed(a, x):
        x[0] = a[0] + 1

    device = gpu.zeros(3, PACKED)
    with pytest.raises(vc.KernelError, match="a has no field 'nothing'; it has x, k"):
        unknown(device)
    with pytest.raises(vc.KernelError, match="takes a record with x, k"):
        number(device)
    with pytest.raises(vc.KernelError, match="got a record of a"):
        computed(device, gpu.zeros(1))
    with pytest.raises(TypeError, match="dtype"):
        device + 1
    with pytest.raises(ValueError, match="its fields are x, k"):
        device["nothing"]
    with pytest.raises(ValueError, match="its fields are x, k"):
        device["nothing"] = 1
    device["x"] = 2
    assert device["x"].numpy().tolist() == [2, 2, 2]


@pytest.mark.pure
def test_races_and_uninitialized_bytes_are_found_where_views_overlap() -> None:
    dtype = np.dtype([("a", "u1"), ("b", "u1"), ("c", "u2")])

    @vc.kernel(local_size=4)
    def overlapping(x):
        i = vc.local_id(0)
        x.view(vc.uint8)[i] = 1
        if i == 3:
            x[0] = 5

    @vc.kernel(local_size=4)
    def apart(out):
        out.view(vc.uint8)[vc.local_id(0)] = vc.local_id(0)

    @vc.kernel(local_size=2)
    def half(out):
        tile = vc.shared(1, vc.uint32)
        i = vc.local_id(0)
        if i == 0:
            tile.view(vc.uint16)[0] = 1
        vc.barrier()
        out[i] = tile[0]

    @vc.kernel(local_size=4)
    def fields(out):
        i = vc.local_id(0)
        if i % 2:
            out[0].a = i
        else:
            out[0].b = i

    words = np.zeros(1, np.uint32)
    apart.simulate(words, grid=1)
    assert words[0] == 0x03020100
    with pytest.raises(vc.KernelError, match=r"a race: this writes x\[0\], which invocation \(0, 0, 0\) wrote"):
        overlapping.simulate(words, grid=1)
    with pytest.raises(vc.KernelError, match=r"tile\[0\] is read, and no invocation"):
        half.simulate(np.zeros(2, np.uint32), grid=1)
    with pytest.raises(vc.KernelError, match="a race: this writes byte 1 of out, which invocation"):
        fields.simulate(np.zeros(1, dtype), grid=1)


@pytest.mark.pure
def test_simulated_views_of_arrays_with_gaps() -> None:
    @vc.kernel
    def bits(x, out):
        i = vc.global_id(0)
        if i < x.size:
            out[i] = x.view(vc.uint32)[i]

    x, out = np.arange(10, dtype=np.float32), np.zeros(5, np.uint32)
    for part in (x[::2], x[::-2], x[5:]):
        bits.simulate(part, out)
        assert np.array_equal(out, np.ascontiguousarray(part).view(np.uint32))


@pytest.mark.device_only
def test_functions_of_arrays_take_fields_that_lie_anywhere(gpu: vc.Runtime) -> None:
    dtype = np.dtype([("k", "i1"), ("x", "f4"), ("h", "f2"), ("z", "c8"), ("i", "i8")])
    host = np.zeros((3, 5), dtype)
    for at, name in enumerate(dtype.names or ()):
        host[name] = np.arange(15).reshape(3, 5)[::-1] + at
    device = gpu.array(host)
    for name in dtype.names or ():
        assert np.array_equal((device[name] + 1).numpy(), host[name] + host[name].dtype.type(1)), name
        assert np.array_equal(device[name].T[1:].copy().numpy(), host[name].T[1:]), name
    assert device["x"].sum().item() == host["x"].sum()
    assert np.array_equal(device["x"].max(axis=0).numpy(), host["x"].max(axis=0))
    assert np.array_equal(vc.numpy.sort(device["x"][1:, ::-2], axis=0).numpy(), np.sort(host["x"][1:, ::-2], axis=0))
    for array in (device, host):
        array["x"] += array["k"]
        array["z"][0] = array["x"][1] * 2
    vc.numpy.add(device["h"], 1, out=device["h"])
    vc.numpy.sum(device["x"], axis=1, out=device["x"][:, 3])
    host["h"] += 1
    host["x"][:, 3] = host["x"].sum(axis=1)
    assert device.numpy().tobytes() == host.tobytes(), "the other fields are as they were"

    doubled = vc.graph(lambda records: records["x"] * 2)
    for shift in (0, 1):
        host["x"] += shift
        assert np.array_equal(doubled(gpu.array(host)).numpy(), host["x"] * 2)


@pytest.mark.device_only
@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_repeated_reductions_of_arrays_that_are_copied(gpu: vc.Runtime) -> None:
    host, out, total = filled(ODD, 7), gpu.zeros(()), vc.reduce("a + b", 0)
    device = gpu.array(host)
    for _ in range(3):
        assert total(device["b"], out=out).item() == host["b"].sum()
        assert total(np.ascontiguousarray(host["b"]), out=out).item() == host["b"].sum()
        host["b"] += 1
        device.write(host)


@pytest.mark.device_only
def test_copies_of_records_of_other_types_in_the_same_memory(gpu: vc.Runtime) -> None:
    @vc.kernel
    def first(x, out):
        i = vc.global_id(0)
        if i < out.size:
            out[i] = x[i].a

    out, numbers = gpu.zeros(8), np.arange(8)
    for _ in range(4):  # the later copies repeat a plan
        for dtype in ([("a", "i4"), ("b", "i4")], [("a", "f4"), ("b", "f4")], [("b", "f4"), ("a", "f4")]):
            host = np.zeros(8, dtype)
            host["a"] = numbers
            copy = gpu.array(host).copy()
            again = copy.copy()
            first(copy, out, grid=1, local_size=8)
            assert np.array_equal(out.numpy(), numbers)
            assert again.dtype == host.dtype
            assert again.numpy().tobytes() == host.tobytes()
            del copy, again


@pytest.mark.pure
def test_simulated_views_of_packed_fields_are_refused() -> None:
    @vc.kernel
    def viewed(x):
        x.view(vc.int32)[0] = 1

    with pytest.raises(vc.KernelError, match="x has elements at no multiples of their size; pass a copy"):
        viewed.simulate[1, 1](np.zeros(3, ODD)["b"])
