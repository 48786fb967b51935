"""More numbers and arrays than push constants and bindings hold; also on a device with the least limits of Vulkan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.compiled.completion import expect
from vkcompute.jit.kernel import PythonKernel

LEAST = {"maxPushConstantsSize": 128, "maxPerStageDescriptorStorageBuffers": 4}
N, N_ARRAYS = 130, 12
GRID = (-(-N // 64),)


@pytest.fixture(scope="module")
def small() -> Iterator[vc.Runtime]:
    with open_runtime(limits=LEAST) as runtime:
        yield runtime


def kernel_of(parameters: Sequence[str], lines: Sequence[str], **options: Any) -> PythonKernel:
    """Makes a kernel from its text: one invocation per element of the first array."""
    first, body = parameters[0], "\n        ".join(lines)
    text = f"def made({', '.join(parameters)}):\n    i = vc.global_id(0)\n    if i < {first}.size:\n        {body}\n"
    names: dict[str, Any] = {"vc": vc}
    exec(text, names)
    return vc.kernel(source=text, **options)(names["made"])


PARTS = st.sampled_from(["whole", "column", "offset", "reversed"])
ARRAYS = [f"a{k}" for k in range(N_ARRAYS)]
LINES = [f"a0[i] = {' + '.join(f'{each}[i]' for each in ARRAYS)} + s", "a5[i] = a1[i]", "a3[i] += 1"]
changed = kernel_of([*ARRAYS, "s"], LINES)


every = kernel_of(ARRAYS, [f"{each}[i] += 1" for each in ARRAYS])


def after(arrays: Sequence[np.ndarray[Any, Any]], s: float) -> list[np.ndarray[Any, Any]]:
    """What `changed` makes of arrays."""
    results = [array.copy() for array in arrays]
    results[0][:], results[5][:], results[3][:] = sum(arrays) + s, arrays[1], arrays[3] + 1
    return results


def some(seed: int = 0, shape: int | tuple[int, ...] = N, dtype: str = "float32") -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 9, shape).astype(dtype) for _ in range(N_ARRAYS)]


def assert_equal(result: Sequence[vc.Array], expected: Sequence[np.ndarray[Any, Any]]) -> None:
    for at, (one, other) in enumerate(zip(result, expected, strict=True)):
        np.testing.assert_array_equal(one.numpy(), other, err_msg=f"a{at}")


def test_forty_arrays_and_two_hundred_numbers(gpu: vc.Runtime, small: vc.Runtime) -> None:
    arrays, numbers = [f"a{k}" for k in range(40)], [f"s{k}" for k in range(200)]
    terms = [f"t += {each}" for each in ([f"{each}[i]" for each in arrays] + numbers)]
    total = kernel_of(["out", *arrays, *numbers], ["t = 0.0", *terms, "out[i] = t"])
    host = np.arange(40 * N).reshape(40, N).astype(np.float32)
    for runtime in (gpu, small):
        outs, given = [runtime.empty(N) for _ in range(5)], runtime.array(host)
        for k, out in enumerate(outs):  # in flight at the same time, each with its own numbers
            total(out, *given, *[float(k)] * 200)
        assert_equal(outs, [host.sum(axis=0) + 200 * k for k in range(5)])


def test_each_launch_has_its_own_numbers() -> None:
    """Also on several queues, and where the host does not see the device's memory."""
    numbers = [f"s{k}" for k in range(40)]
    total = kernel_of(["out", *numbers], [f"out[i] = {' + '.join(numbers)}"])
    with open_runtime(limits=LEAST, timelines=3, staging=True) as runtime:
        outs = [runtime.empty(N) for _ in range(100)]
        for k, out in enumerate(outs):
            total(out, *range(k, k + 40), queue=k % 3)
        assert_equal(outs, [np.full(N, 40 * k + 780) for k in range(100)])


@pytest.mark.parametrize("dtypes", [["float32"], ["int32", "float32", "uint32"], ["float32", "int32", "bool"]])
def test_more_arrays_than_bindings(gpu: vc.Runtime, small: vc.Runtime, dtypes: list[str]) -> None:
    if "bool" in dtypes and "storageBuffer8BitAccess" not in gpu.device.features:
        pytest.skip("the device has no arrays of bools")
    host = [array.astype(dtypes[k % len(dtypes)]) for k, array in enumerate(some())]
    host[3] = host[3].astype("float32")
    arrays = [small.array(each) for each in host]
    for s in (1, 2):
        changed(*arrays, s)
        host = after(host, s)
        assert_equal(arrays, host)


@settings(max_examples=6)
@given(st.integers(0, 99), st.lists(PARTS, min_size=N_ARRAYS, max_size=N_ARRAYS))
def test_views_beyond_the_bindings(small: vc.Runtime, seed: int, kinds: list[str]) -> None:
    def part(of: Any, kind: str) -> Any:
        if kind == "column":
            return of[:, 1]
        start = 3 if kind == "offset" else 0
        flat = of.reshape(-1)[start : start + N]
        return flat[::-1] if kind == "reversed" else flat

    whole = some(seed, (N, 3))
    arrays = [small.array(host) for host in whole]
    changed[GRID](*map(part, arrays, kinds), 3)
    parts = [part(item, kind) for item, kind in zip(whole, kinds, strict=True)]
    for each, result in zip(parts, after(parts, 3), strict=True):
        each[:] = result
    assert_equal(arrays, whole)


def test_in_a_graph_with_inputs(small: vc.Runtime) -> None:
    host, other = some(), np.arange(N + 64).astype(np.float32)
    arrays, more = [small.array(each) for each in host], small.array(other)
    with small.record(x=arrays[1], s=1.5) as graph:
        changed(arrays[0], graph["x"], *arrays[2:], graph["s"])
        between = [graph.empty(N) for _ in range(N_ARRAYS)]
        for target, source in zip(between, arrays, strict=True):
            target.copy_from(source)
        changed(*between, graph["s"])
        for target, source in zip(arrays, between, strict=True):
            target.copy_from(source)
    given = [({}, host[1], 1.5), ({"s": 4.0}, None, 4.0), ({"x": more[64:], "s": 2.0}, other[64:], 2.0)]
    for inputs, x, s in given:
        graph.run(**inputs)
        x = host[1] if x is None else x
        first = after([host[0], x, *host[2:]], s)
        host = after([first[0], host[1], *first[2:]], s)
        assert_equal(arrays, host)


def test_reports_and_loops(small: vc.Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    checked = kernel_of([*ARRAYS, "k"], [*LINES[1:], "a0[i] = a7[i + k]"], check_bounds=True)
    arrays = [small.array(host) for host in some()]
    checked(*arrays, 0).result()
    with pytest.raises(vc.KernelError, match=rf"index {N} is outside of a7.*invocation \({N - 1}, 0, 0\)"):
        checked(*arrays, 1).result()
    with pytest.raises(vc.KernelError, match="outside of a7"):
        arrays[0].numpy()
    printing = kernel_of([*ARRAYS, "s"], [*LINES, "if i == 3:", "    print(a7[i], s)"])
    arrays = [small.array(host) for host in some()]
    printing(*arrays, 2.5).result()
    assert capsys.readouterr().out == f"{some()[7][3]} 2.5\n"
    assert_equal(arrays, after(some(), 2.5))
    counting = kernel_of([*ARRAYS, "s"], [*LINES, "while a2[i] < 20:", "    a2[i] += 1"])
    arrays, expected = [small.array(host) for host in some()], after(some(), 1)
    counting(*arrays, 1)
    expected[2][:] = 20
    assert_equal(arrays, expected)


DTYPES = ["int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "bool", "int8", "int64"]
TABLE = np.array([3, -1, 7, 2], np.int8)


@vc.kernel(check_bounds=True)
def of_all_types(a, b, c, d, e, f, g, h, k, m, n, o, s):
    i = vc.global_id(0)
    if i < a.size:
        t = a[i] + b[i] + c[i] + d[i] + f[i] + k[i] + TABLE[i % 4]
        vc.atomic.add(g, i % 5, 1)
        if m[i]:
            h[i] = e[i] + t + s
        while a[i] < 20:
            a[i] += 1
        b[i], c[i], d[i], m[i] = b[i] + 1, -c[i], d[i] * 2, not m[i]
        o[i] = k[i] * 1_000_000_007 + n[i]
        e[i] *= 2


def of_all_types_on_host(arrays: Sequence[np.ndarray[Any, Any]], s: int) -> list[np.ndarray[Any, Any]]:
    """What the kernel makes of arrays."""
    a, b, c, d, e, f, g, h, k, m, n, _ = [array.copy() for array in arrays]
    t = a.astype(int) + b + c + d + f + k + np.resize(TABLE, a.size)
    g += np.bincount(np.arange(a.size) % 5, minlength=g.size).astype(g.dtype)
    h[m] = (e + t + s)[m]
    return [np.maximum(a, 20), b + 1, -c, d * 2, e * 2, f, g, h, k, ~m, n, k * 1_000_000_007 + n]


@pytest.mark.rotates
@pytest.mark.parametrize("profile", ["", "poor"])
@pytest.mark.parametrize("step", [1, 3])
def test_arrays_of_all_types_share_a_binding(profile: str, step: int) -> None:
    """With the buffers for reports and for loops, and a constant array: more than four types of memory."""
    with open_runtime(limits=LEAST, profile=profile) as runtime:
        host = [array.astype(dtype) for array, dtype in zip(some(shape=N * step), DTYPES, strict=True)]
        arrays = [runtime.array(array) for array in host]
        of_all_types[GRID](*[array[::step] for array in arrays], 5)
        expected = of_all_types_on_host([array[::step] for array in host], 5)
        assert_equal([array[::step] for array in arrays], expected)
        for array, before in zip(arrays, host, strict=True):
            np.testing.assert_array_equal(array.numpy()[1::3] if step > 1 else 0, before[1::3] if step > 1 else 0)


@vc.kernel
def counted_in_all_types(a, b, c, d, e, f):
    i = vc.global_id(0)
    vc.atomic.max(a, 0, 3 - i)
    vc.atomic.min(a, 1, -i)
    vc.atomic.max(b, 0, vc.uint32(i))
    vc.atomic.add(c, 0, 0.5)
    d[i], f[i] = i, i
    for _ in range(i):
        e[i] += 1


def test_arrays_with_atomic_operations_of_several_types_share_a_binding(small: vc.Runtime) -> None:
    """Each array keeps its type: minima of signed numbers, and sums of floats."""
    dtypes = "int32", "uint32", "float32", "int8", "float16", "int64"
    arrays = [small.array(np.full(64, -90 if dtype == "int32" else 7, dtype)) for dtype in dtypes]
    counted_in_all_types[1, 64](*arrays)
    a, b, c, d, e, f = [array.numpy() for array in arrays]
    assert a[:3].tolist() == [3, -90, -90]
    assert b[:2].tolist() == [63, 7]
    assert c[:2].tolist() == [39, 7]
    assert d.tolist() == f.tolist() == [*range(64)]
    assert e.tolist() == [*range(7, 71)]


@vc.kernel
def counted_in_small_types(x, a, b, c, d, e, f, g):
    i = vc.global_id(0)
    vc.atomic.add(a, i % 5, vc.uint8(i))
    vc.atomic.min(b, i % 3, vc.int8(-i))
    vc.atomic.add(c, i % 7, vc.int16(i))
    vc.atomic.add(d, i % 2, vc.float16(0.5))
    vc.atomic.max(e, 1, vc.float32(i))
    vc.atomic.add(f, 0, x[i])
    g[i] = vc.uint8(i)


@pytest.mark.parametrize("is_shared", [False, True])
def test_arrays_with_atomic_operations_on_parts_of_words_share_a_binding(small: vc.Runtime, is_shared: bool) -> None:
    """Arrays that begin within a word of one buffer, too: what is beside them stays."""
    dtypes = "int32", "uint8", "int8", "int16", "float16", "float32", "int32", "uint8"
    memory, i = small.full(2000, 9, np.uint8), np.arange(64)
    arrays = [small.zeros(64, dtype) for dtype in dtypes]
    if is_shared:
        arrays[1], arrays[2], arrays[7] = memory[3:67], memory[101:165].view(np.int8), memory[1001:1065]
        for n in (1, 2, 7):
            arrays[n].fill(0)
    arrays[0].fill(2)
    counted_in_small_types[1, 64](*arrays)
    _, a, b, c, d, e, f, g = [array.numpy() for array in arrays]
    assert a[:6].tolist() == [*[int(i[k::5].sum()) % 256 for k in range(5)], 0]
    assert b[:4].tolist() == [-63, -61, -62, 0]
    assert c[:8].tolist() == [*[int(i[k::7].sum()) for k in range(7)], 0]
    assert (d[:3].tolist(), e[:2].tolist(), f[:2].tolist()) == ([16, 16, 0], [0, 63], [128, 0])
    assert g.tolist() == i.tolist()
    if is_shared:
        rest = np.delete(memory.numpy(), [*range(3, 67), *range(101, 165), *range(1001, 1065)])
        assert (rest == 9).all()


def test_a_failure_among_arrays_with_atomic_operations(small: vc.Runtime) -> None:
    """The buffer for reports, which has atomic operations, too, is in no pack: the launch itself fails."""
    counting = kernel_of(ARRAYS, [f"vc.atomic.add({each}, i + 1, 1)" for each in ARRAYS], check_bounds=True)
    arrays = [small.zeros(N, np.uint32) for _ in ARRAYS]
    with pytest.raises(vc.KernelError, match=rf"index {N} is outside of a"):
        counting[GRID](*arrays).result()
    with pytest.raises(vc.KernelError, match=rf"index {N} is outside of a"):
        arrays[3].numpy()


def judged(words: Any) -> Exception | None:
    """The error of a launch that leaves a number for the host; the buffer is zero again."""
    largest = int(words[0])
    words[:] = 0
    return OverflowError(f"got {largest}") if largest else None


COUNTS = [f"vc.atomic.add({each}, i, s)" for each in ARRAYS]
counted = kernel_of([*ARRAYS, "most", "s"], [*COUNTS, "vc.atomic.max(most, 0, a9[i])"])


@pytest.mark.parametrize("at", [0, 5])  # bound by itself, and in the pack
@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_buffer_for_the_host_in_a_pack_fails_all_that_the_launch_writes(
    small: vc.Runtime, is_recorded: bool, at: int
) -> None:
    arrays = [small.array(host) for host in some(dtype="uint32")]

    def run(s: int) -> None:
        expect(small, 64, judged, lambda most: counted[GRID](*arrays, most, s))

    if is_recorded:
        with small.record() as graph:
            run(3)
        graph.submit()
    else:
        run(3)
    with pytest.raises(OverflowError, match="got 11"):
        arrays[at].numpy()
    for array in arrays:
        array.fill(0)
    run(0)
    assert not arrays[at].numpy().any(), "the buffer is zero again"


@vc.kernel(local_size=64)
def refused(a, b, c, d, e, f, which):
    i, here = vc.global_id(0), vc.local_id(0)
    tile = vc.shared(64, vc.int32)
    tile[here] = b[i]
    vc.barrier()
    if which == 0:
        assert b[i] < 40
    if which == 1 and b[i] == 41:
        raise OverflowError("large", i)
    while which == 2 and tile[here] < 40:
        vc.barrier()
        tile[here] += 40
    a[i], c[i], d[i] = b[i], i, i
    vc.atomic.add(e, i % 4, 1)
    vc.atomic.max(f, i % 4, i)


@triton.jit
def refused_block(a, b, c, d, e, f, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.device_assert(tl.load(b + i) < 40, "large")
    for out in tl.static_range(2):
        tl.store(a + i if out else c + i, i)
    tl.store(d + i, i)
    tl.atomic_add(e + i % 4, 1)
    tl.atomic_max(f + i % 4, i)


@pytest.mark.parametrize("at", [0, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("error", "which"), [(AssertionError, 0), (OverflowError, 1), (vc.KernelError, 2), (vc.KernelError, 3)]
)
def test_failures_reach_all_results(small: vc.Runtime, error: type[Exception], which: int, at: int) -> None:
    """Of `assert`, `raise`, a check of a barrier, and a block program: whether a result is copied or not."""
    arrays = [small.array(np.arange(64), dtype="int32") for _ in range(6)]
    if which == 3:
        refused_block[(1,)](*arrays, N=64, debug=True)
    else:
        refused[1](*arrays, which)
    with pytest.raises(error):
        arrays[at].numpy()


def test_arrays_that_share_memory_share_a_binding(small: vc.Runtime) -> None:
    """Copies would not see each other's changes."""
    arrays, host = [small.array(each) for each in some()], some()
    changed(*arrays[:-1], arrays[1], 1)
    host = after([*host[:-1], host[1]], 1)
    assert_equal(arrays[:-1], host[:-1])
    changed(*arrays[:-1], arrays[0], 1)
    assert_equal(arrays[:-1], after([*host[:-1], host[0]], 1)[:-1])
    with small.record(x=arrays[0]) as graph, pytest.raises(ValueError, match="share memory"):
        changed(graph["x"], *arrays[1:-1], graph["x"], 1)


@pytest.mark.parametrize("gap", [0, 1, 7])
def test_parts_of_one_array_are_not_copied(small: vc.Runtime, gap: int) -> None:
    """Whole rows, rows that do not begin where the device binds, overlapping ones that are written, and columns."""
    host = np.arange(N_ARRAYS * (N + gap), dtype=np.float32).reshape(N_ARRAYS, -1)
    whole = small.array(host)
    every[GRID](*[whole[k, :N] for k in range(N_ARRAYS)])
    host[:, :N] += 1
    np.testing.assert_array_equal(whole.numpy(), host)
    shifted = kernel_of(ARRAYS, [f"vc.atomic.add({each}, i, 1)" for each in ARRAYS])
    flat, counts = small.zeros(N + N_ARRAYS, np.uint32), np.zeros(N + N_ARRAYS, np.uint32)
    shifted[GRID](*[flat[k : k + N] for k in range(N_ARRAYS)])
    for k in range(N_ARRAYS):
        counts[k : k + N] += 1
    np.testing.assert_array_equal(flat.numpy(), counts)
    columns = small.array(np.zeros((N, N_ARRAYS), np.float32))
    with small.record() as graph:
        every[GRID](*[columns[::-1, k] for k in range(N_ARRAYS)])
    graph.run()
    graph.run()
    assert (columns.numpy() == 2).all()


@vc.kernel(local_size=16)
def of_bytes(p, q, r, s, t, u, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = p.view(vc.uint8)[i] + q.view(vc.uint8)[i] + r.view(vc.uint8)[i] + s.view(vc.uint8)[i] + t[i] + u[i]
        out.view(vc.uint8)[i] += p[i]
        q[i] = i


@pytest.mark.parametrize("start", [0, 1, 3, 257])
def test_views_by_bytes_share_a_binding(small: vc.Runtime, start: int) -> None:
    """Also those that begin within a word."""
    host = [np.random.default_rng(n).integers(-100, 100, 400).astype(np.int8) for n in range(7)]
    arrays, part = [small.array(array) for array in host], slice(start, start + 41)
    of_bytes[3](*[array[part] for array in arrays])
    p, q, r, s, t, u, _ = [array[part].astype(int) for array in host]
    total = (p & 255) + (q & 255) + (r & 255) + (s & 255) + t + u + p
    host[6][part], host[1][part] = (total & 255).astype(np.uint8).view(np.int8), np.arange(41)
    assert_equal(arrays, host)


@vc.kernel(local_size=16)
def of_records(p, q, r, s, t, u, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i].a = p[i].a + q[i].a
        out[i].b = r[i].b + s[i].b
        out[i].c = t[i].c + u[i].c + p[i].b


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("part", [slice(None), slice(1, 30), slice(None, None, 2)])
def test_records_share_a_binding(small: vc.Runtime, part: slice, align: bool) -> None:
    host = [np.zeros(37, np.dtype([("a", "i1"), ("b", "i2"), ("c", "f4")], align=align)) for _ in range(7)]
    for n, array in enumerate(host):
        for field in "abc":
            array[field] = np.random.default_rng(n).integers(-60, 60, 37)
    arrays = [small.array(array) for array in host]
    of_records[3](*[array[part] for array in arrays])
    p, q, r, s, t, u, out = [array[part] for array in host]
    out["a"], out["b"], out["c"] = p["a"] + q["a"], r["b"] + s["b"], t["c"] + u["c"] + p["b"]
    assert_equal(arrays, host)


def test_arrays_that_cannot_be_copied(gpu: vc.Runtime, small: vc.Runtime) -> None:
    arrays = [small.zeros(N) for _ in range(N_ARRAYS)]
    with pytest.raises(ValueError, match="array 9 of made: the array belongs to another runtime"):
        changed(*arrays[:9], gpu.zeros(N), *arrays[10:], 1)
    with pytest.raises(ValueError, match=r"share memory.*\.copy\(\)"):
        every(*arrays[:9], small.zeros(1).broadcast_to(N), *arrays[10:])
    arrays[9].close()
    with pytest.raises(vc.ClosedError):
        changed(*arrays, 1)


def test_functions_of_elements_and_reductions(gpu: vc.Runtime, small: vc.Runtime) -> None:
    names = [f"x{k}" for k in range(40)]
    total, host = vc.elementwise(" + ".join(names)), np.arange(40 * 1000).reshape(40, 10, 100).astype(np.float32)
    largest = vc.reduce("max(a, b)", 0, map=" + ".join(names))
    for runtime in (gpu, small):
        given = [runtime.array(item if k % 3 else item[:1]) for k, item in enumerate(host)]
        expected = sum([item if k % 3 else item[:1] for k, item in enumerate(host)])
        np.testing.assert_array_equal(total(*given).numpy(), expected)
        np.testing.assert_array_equal(largest(*given, axis=0).numpy(), expected.max(axis=0))
        total(*given, out=given[1])
        np.testing.assert_array_equal(given[1].numpy(), expected)
    with open_runtime(limits=LEAST | {"maxStorageBufferRange": 16 << 20}) as runtime:  # in windows
        x = np.arange(600_000).astype(np.int32)
        given = [runtime.array(x) for _ in range(9)]
        function = " + ".join(names[:9])
        np.testing.assert_array_equal(vc.elementwise(function)(*given).numpy(), 9 * x)
        assert vc.reduce("a ^ b", 0, map=function)(*given).item() == np.bitwise_xor.reduce(9 * x)
    several = vc.elementwise(", ".join(f"x + {k}" for k in range(10)))
    for k, array in enumerate(several(small.array(host[0]))):
        np.testing.assert_array_equal(array.numpy(), host[0] + k)


def test_numpy_arrays_and_atomic_operations(small: vc.Runtime) -> None:
    counts = [f"c{k}" for k in range(6)]
    lines = [f"vc.atomic.add({each}, x[i] % {each}.size, {k})" for k, each in enumerate(counts)]
    count = kernel_of(["x", *counts], lines)
    x, result = np.arange(N, dtype=np.int32), [np.zeros(k + 1, np.int32) for k in range(6)]
    with pytest.warns(vc.HostCopyWarning):
        count[GRID](small.array(x), *result)
    for k, each in enumerate(result):
        assert each.tolist() == (k * np.bincount(x % (k + 1))).tolist()


def test_limits_that_remain() -> None:
    numbers = [f"s{k}" for k in range(20)]
    total = kernel_of(["out", *numbers], [f"out[i] = {' + '.join(numbers)}"])
    limits = LEAST | {"maxPushConstantsSize": 64, "maxUniformBufferRange": 64, "maxStorageBufferRange": 1024}
    with open_runtime(limits=limits) as runtime:
        with pytest.raises(ValueError, match=r"made has 84 bytes of numbers.*takes 64; pass numbers in an array"):
            total(runtime.empty(N), *range(20))
        with pytest.raises(ValueError, match=r"9 of them, 5184 bytes, share a binding of at most 1024; put several"):
            changed(*[runtime.zeros(N) for _ in range(N_ARRAYS)], 1)
