"""The array multiply against numpy: every dtype, shape and way in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from runtimes import lacks

import vkcompute as vc
from vkcompute import dtypes
from vkcompute.core.quirks import quirks_of
from vkcompute.pipelines.multiply import Multiplier
from vkcompute.pipelines.product_stream import _blocks

DTYPES = [row.name for row in dtypes.TABLE]
FLUSHED = {np.dtype(np.float32)}


@pytest.fixture(autouse=True, scope="module")
def _flushed(gpu: vc.Runtime) -> None:
    if quirks_of(gpu.device.physical).flushes_float64:
        FLUSHED.add(np.dtype(np.float64))


def assert_same_product(got: Any, a: Any, b: Any) -> None:
    """Bit for bit numpy's, but for NaN payloads and flushed subnormals (inputs or results)."""
    with np.errstate(all="ignore"):
        want = np.asarray(a * b)
    got = np.asarray(got)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype in FLUSHED:
        normal = np.finfo(want.dtype).tiny
        tiny = (np.abs(want) <= normal) | (np.abs(a) < normal) | (np.abs(b) < normal)
        assert np.all(np.abs(got[tiny & np.isfinite(want)]) <= np.abs(want[tiny & np.isfinite(want)]))
        got, want = got[~tiny], want[~tiny]
    number = ~np.isnan(want) if want.dtype.kind == "f" else np.ones(want.shape, bool)
    assert np.array_equal(np.isnan(got) if want.dtype.kind == "f" else ~number, ~number)
    assert got[number].tobytes() == want[number].tobytes()


@pytest.fixture(params=DTYPES)
def dtype(gpu: vc.Runtime, request: pytest.FixtureRequest) -> str:
    """Each dtype that the device has; of the others, multiply says that it lacks them."""
    name: str = request.param
    if lacks(gpu, name):
        with pytest.raises(vc.MissingFeature, match=f"cannot run multiply {name}: .* needs the feature shader"):
            vc.multiply(np.ones(3, name), np.ones(3, name), runtime=gpu)
        pytest.skip(f"the device lacks {name}")
    return name


def random_bits(shape: Any, dtype: str, seed: int) -> np.ndarray[Any, Any]:
    """Elements of random bits: every exponent, subnormals, infinities and NaN among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def test_arrays_of_every_dtype(gpu: vc.Runtime, dtype: str) -> None:
    for n in (0, 1, 3, 16, 17, 1000, 65_537):
        a, b = random_bits(n, dtype, n), random_bits(n, dtype, n + 1)
        assert_same_product(vc.multiply(a, b, runtime=gpu), a, b)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name.startswith("float")], indirect=True)
def test_all_pairs_of_special_floats(gpu: vc.Runtime, dtype: str) -> None:
    info = np.finfo(dtype)
    specials = [0.0, 1.0, 1.5, info.max, info.tiny, info.smallest_subnormal, info.eps, 1 - info.epsneg, np.inf, np.nan]
    values = np.array([*specials, *(-np.array(specials))], dtype)
    values = np.concatenate([values, np.nextafter(values, np.array(0, dtype)), np.sqrt(np.abs(values))])
    a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(values, values))
    assert_same_product(vc.multiply(a, b, runtime=gpu), a, b)


@given(
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1 << 32),
    chunk_bytes=st.sampled_from([1, 64, 1000, 1 << 20]),
    orders=st.tuples(st.sampled_from("CF"), st.sampled_from("CF"), st.sampled_from("CF")),
)
def test_shapes_orders_and_chunks(
    gpu: vc.Runtime, shape: tuple[int, ...], dtype: str, seed: int, chunk_bytes: int, orders: tuple[str, str, str]
) -> None:
    assume(not lacks(gpu, dtype))
    a = np.array(random_bits(shape, dtype, seed), order=orders[0])
    b = np.array(random_bits(shape, dtype, seed + 1), order=orders[1])
    out = np.empty(shape, dtype, order=orders[2])
    assert vc.multiply(a, b, out, runtime=gpu, chunk_bytes=chunk_bytes) is out
    assert_same_product(out, a, b)


def test_a_scalar_on_either_side(gpu: vc.Runtime, dtype: str) -> None:
    a = random_bits((7, 11), dtype, 3)
    for scalar in (a[0, 0], np.array(a[1, 1]), a[2, 2].item() if dtype != "float16" else a[2, 2]):
        value = np.asarray(scalar).astype(dtype)
        assert_same_product(vc.multiply(a, scalar, runtime=gpu), a, value)
        assert_same_product(vc.multiply(scalar, a, runtime=gpu), a, value)


def test_zero_dimensional_arrays_and_single_elements(gpu: vc.Runtime) -> None:
    a = np.array(2.5, np.float32)
    for one in (a, a.reshape(1), a.reshape(1, 1)):
        for other in (one, 3, np.float32(3), np.array([3], np.float32), np.full((2, 2), 3, np.float32)):
            for operands in ((one, other), (other, one)):
                got = vc.multiply(*operands, runtime=gpu)
                shape = max((one.shape, np.shape(other)), key=lambda shape: (len(shape), shape))
                assert (got.dtype, got.shape) == (np.float32, shape), operands
                assert np.all(got == one.item() * np.asarray(other).reshape(-1)[0])
    assert vc.multiply(np.int32(2), 3, runtime=gpu) == 6


def test_strided_arrays_and_in_place(gpu: vc.Runtime) -> None:
    whole = random_bits((40, 30), "int32", 5)
    a, b = whole[::2, 1::3].copy(), whole[1::2, ::3]
    want = a * b
    vc.multiply(whole[::2, 1::3], b, a, runtime=gpu)
    assert np.array_equal(a, want)
    vc.multiply(a, a, a, runtime=gpu)
    assert np.array_equal(a, want * want)


def test_arrays_and_unaligned_views_of_them(gpu: vc.Runtime, dtype: str) -> None:
    host = random_bits(500, dtype, 9)  # the validation layer compares each region of a copy with all others
    with gpu.array(host) as a:
        assert_same_product(vc.multiply(a, a).numpy(), host, host)
        for start, stop, step in [(1, 401, 1), (0, 256, 1), (64, 499, 1), (3, 400, 7), (400, 3, -2)]:
            part = slice(start, stop, step)
            out = gpu.zeros(500, dtype)
            vc.multiply(a[part], a[part], out[part])
            want = np.zeros(500, dtype)
            with np.errstate(all="ignore"):
                want[part] = host[part] * host[part]
            inside = np.zeros(500, bool)
            inside[part] = True
            got = out.numpy()
            assert_same_product(got[inside], host[part] if step > 0 else host[part][::-1],
                                host[part] if step > 0 else host[part][::-1])  # fmt: skip
            assert not got[~inside].any(), "elements outside of the view were written"


def test_windows_in_a_graph(gpu: vc.Runtime) -> None:
    multiplier = Multiplier(gpu, "float32")
    multiplier._window_bytes = 1 << 16
    a = np.arange(50_001, dtype=np.float32)
    x, other, out = gpu.array(a), gpu.array(a + 1), gpu.zeros(50_001)
    with gpu.record(x=x) as graph:
        multiplier(graph["x"], np.float32(3), out)
        multiplier(out, graph["x"], out)
    for array in (x, other):
        graph.run(x=array)
        assert np.array_equal(out.numpy(), array.numpy() * np.float32(3) * array.numpy())


def test_windows_where_an_array_exceeds_the_largest_binding(gpu: vc.Runtime) -> None:
    multiplier = Multiplier(gpu, "float32")
    multiplier._window_bytes = 1 << 16
    host = random_bits(100_003, "float32", 1)
    a, out = gpu.array(host), gpu.empty(host.shape)
    multiplier(a, a, out)
    assert_same_product(out.numpy(), host, host)


def test_the_result_of_a_chain_needs_no_waiting(gpu: vc.Runtime) -> None:
    a = gpu.full(1000, 3, "int32")
    for _ in range(100):
        a = vc.multiply(a, 3)
    assert np.array_equal(a.numpy(), np.full(1000, pow(3, 101, 1 << 32), np.uint32).view(np.int32))


def test_many_short_batches_are_forgotten_one_by_one(gpu: vc.Runtime) -> None:
    a = gpu.full(16, 1, "int32")
    for i in range(300):
        assert vc.multiply(a, i).numpy()[0] == i


def test_progress_counts_every_byte(gpu: vc.Runtime) -> None:
    seen: list[tuple[int, int]] = []
    a = np.ones(1000, np.float32)
    vc.multiply(a, a, runtime=gpu, chunk_bytes=512, progress=lambda *step: seen.append(step))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (4000, 4000)
    assert len(seen) == 8


def test_everything_is_given_back_after_a_failure_in_the_middle(clean_handles: None) -> None:
    a = np.ones(10_000, np.float32)

    def fail(done: int, _total: int) -> None:
        if done > 8000:
            raise KeyboardInterrupt

    with vc.Runtime() as gpu:
        with pytest.raises(KeyboardInterrupt):
            vc.multiply(a, a, runtime=gpu, chunk_bytes=1024, progress=fail)
        gpu.wait()
        gpu.device.collect()
        assert gpu.device.memory.used_bytes == 0
        assert np.array_equal(vc.multiply(a, 2, runtime=gpu), a * 2)


@pytest.mark.parametrize(
    ("a", "b", "error", "words"),
    [
        (np.ones(3), np.ones(4), ValueError, r"shapes must be equal or broadcast; got \(3,\) and \(4,\)"),
        ("a.npy", 2, TypeError, r"got 'a\.npy'; for \.npy files use multiply_files\(a, b, out\)"),
        (np.ones(3), None, TypeError, "arrays and numbers are multiplied; got None"),
        (np.ma.ones(3), 2, TypeError, r"a masked array has a mask, .* pass x\.filled\(value\)"),
        (np.ones(3, np.int8), 300, ValueError, "300 does not fit int8.*-128 to 127"),
        (np.ones(3, np.uint8), -1, ValueError, "-1 does not fit uint8"),
        (np.array(["x"]), np.array(["x"]), TypeError, "an array's dtype must be one of"),
        (np.ones(3, ">f4"), np.ones(3, ">f4"), TypeError, r"astype\('float32'\)"),
    ],
)
def test_bad_operands(gpu: vc.Runtime, a: Any, b: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        vc.multiply(a, b, runtime=gpu)


_CORNERS = [
    ((3, 1), (1, 4)), ((2, 1, 3), (5, 1)), ((), (4,)), ((0, 3), (3,)), ((1,), (1, 1)), ((3,), (1,)), ((2, 3), (2, 3)),
]  # fmt: skip


@pytest.mark.parametrize(
    "dtypes", ["int8 int16", "uint8 float32", "float32 int16", "bool bool", "bool float32", "int32 int32"]
)
def test_operands_of_any_shapes_and_dtypes(gpu: vc.Runtime, dtypes: str) -> None:
    random = np.random.default_rng(0)
    for shapes in _CORNERS:
        a, b = (random.integers(0, 9, shape).astype(name) for shape, name in zip(shapes, dtypes.split(), strict=True))
        if any(lacks(gpu, name) for name in (a.dtype.name, b.dtype.name, (a * b).dtype.name)):
            pytest.skip("the device lacks a dtype")
        for result in (
            vc.multiply(a, b, runtime=gpu),
            vc.multiply(a, b, np.empty_like(a * b), runtime=gpu, chunk_bytes=16),
            vc.multiply(gpu.array(a), gpu.array(b)).numpy(),
            vc.multiply(gpu.array(a), gpu.array(b), gpu.empty((a * b).shape, (a * b).dtype)).numpy(),
        ):
            assert result.dtype == (a * b).dtype
            np.testing.assert_array_equal(result, a * b)


def test_numbers_of_a_higher_kind(gpu: vc.Runtime) -> None:
    a = np.arange(5, dtype=np.int32)
    for result in (vc.multiply(a, 2.5, runtime=gpu), vc.multiply(2.5, gpu.array(a)).numpy()):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, a * 2.5)
    for result in (vc.multiply(a, 2j, runtime=gpu), vc.multiply(gpu.array(a), 2j).numpy()):
        assert result.dtype == np.complex64
        np.testing.assert_array_equal(result, a * 2j)
    wide = vc.multiply(gpu.array(a.astype(np.int16)), np.int32(70_000))
    assert wide.dtype == np.int32
    np.testing.assert_array_equal(wide.numpy(), a * 70_000)


def test_a_result_over_its_broadcast_operand(gpu: vc.Runtime) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    host, x = a.copy(), gpu.array(a)
    assert vc.multiply(host, host[:1], host, runtime=gpu, chunk_bytes=16) is host
    assert vc.multiply(x, x[:1], x) is x
    np.testing.assert_array_equal(host, a * a[:1])
    np.testing.assert_array_equal(x.numpy(), a * a[:1])


def test_arrays_are_not_multiplied_by_a_group(gpu: vc.Runtime) -> None:
    group: Any = vc.DeviceGroup([gpu])
    with group, pytest.raises(TypeError, match="on one Runtime; got DeviceGroup"):
        vc.multiply(np.ones(3), 2, runtime=group)


def test_bad_out(gpu: vc.Runtime) -> None:
    a = np.ones(3, np.float32)
    locked = np.ones(3, np.float32)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match=r"out has shape \(4,\)"):
        vc.multiply(a, a, np.ones(4, np.float32), runtime=gpu)
    with pytest.raises(ValueError, match="read-only"):
        vc.multiply(a, a, locked, runtime=gpu)
    with pytest.raises(TypeError, match="out is Array"):
        vc.multiply(a, a, gpu.empty(3), runtime=gpu)
    with pytest.raises(TypeError, match="out is ndarray"):
        vc.multiply(gpu.array(a), gpu.array(a), a)


@given(shape=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple), most=st.integers(1, 100))
def test_blocks_cover_an_array_once(shape: tuple[int, ...], most: int) -> None:
    count = np.zeros(shape, int)
    for block in _blocks(shape, most):
        assert 1 <= count[block].size <= most
        count[block] += 1
    assert np.all(count == 1)


def test_one_huge_row_of_strided_arrays_is_more_than_one_chunk(gpu: vc.Runtime) -> None:
    a = np.arange(60_000, dtype=np.float32).reshape(2, 30_000)[:, ::3]
    seen: list[tuple[int, int]] = []
    got = vc.multiply(a, a, runtime=gpu, chunk_bytes=4096, progress=lambda *step: seen.append(step))
    assert np.array_equal(got, a * a)
    assert len(seen) == 20
    assert seen[-1] == (80_000, 80_000)


def test_arrays_of_a_group(group: vc.DeviceGroup) -> None:
    a = np.arange(60, dtype=np.int32).reshape(20, 3)
    x, whole, out = group.array(a), group.replicate(a[:1]), group.zeros(a.shape, a.dtype)
    assert np.array_equal(vc.multiply(x, x, out).numpy(), a * a)
    assert np.array_equal(out.numpy(), a * a)
    for product in (vc.multiply(x, 2), vc.multiply(2, x)):
        assert product.rows == x.rows
        assert np.array_equal(product.numpy(), a * 2)
    few = group.array(a[:1])  # one device has no row
    assert np.array_equal(vc.multiply(few, few).numpy(), a[:1] * a[:1])
    with group.balance() as launched:
        vc.multiply(x, x, out)
    assert launched == [len(rows) for rows in x.rows or ()]
    result = vc.multiply(x, whole)
    assert (result.rows, result.dtype) == (x.rows, np.int32)
    assert np.array_equal(result.numpy(), a * a[:1])
    with pytest.raises(ValueError, match="got a replicated array of shape"):
        vc.multiply(x, group.replicate(a))
    with pytest.raises(ValueError, match="got a sharded array of shape"):
        vc.multiply(group.array(a[:, 0]), group.replicate(a[:3, :1]))


def test_arrays_that_are_not_all_of_one_group(group: vc.DeviceGroup) -> None:
    a = np.ones((6, 2), np.float32)
    x, runtime = group.array(a), group.runtimes[0]
    for operands in ((a, 2, x), (x, 2, a)):
        with pytest.raises(TypeError, match="multiplied"):
            vc.multiply(*operands)
    with pytest.raises(ValueError, match=r"pass group\.array"):
        vc.multiply(x, runtime.array(a))
    with pytest.raises(ValueError, match="omit `runtime`"):
        vc.multiply(x, x, runtime=runtime)


@pytest.mark.parametrize("shape", [(6, 2), (1, 2), (2,), (6, 1)])
def test_a_groups_arrays_beside_host_data(group: vc.DeviceGroup, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(6, 2)).astype(np.float32), rng.normal(size=shape).astype(np.float32)
    x = group.array(a)
    for result in (vc.multiply(x, b), vc.multiply(b.tolist(), x)):
        np.testing.assert_allclose(result.numpy(), a * b, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
@pytest.mark.parametrize("shape", [(6, 2), (1, 2), (2,), (6, 1), (3, 6, 2)])
def test_device_arrays_beside_host_data(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(6, 2)).astype(np.float32), rng.normal(size=shape).astype(np.float32)
    x = gpu.array(a)
    for result in (vc.multiply(x, b), vc.multiply(b.tolist(), x), vc.multiply(b, x)):
        assert result.runtime is gpu
        np.testing.assert_allclose(result.numpy(), a * b, rtol=1e-6)
    with pytest.warns(vc.HostCopyWarning, match="multiply is called with an array of the host"):
        vc.multiply(x, b)


def test_a_number_that_is_an_input_of_a_graph_is_refused(gpu: vc.Runtime) -> None:
    a = gpu.zeros(8)
    with (
        gpu.record(k=2.0) as graph,
        pytest.raises(TypeError, match="the number 'k' is given with each run"),
    ):
        vc.multiply(a, graph["k"])
