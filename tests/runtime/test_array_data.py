"""What goes into an array comes out of it, bit for bit, for every dtype and shape, staged or not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from arrays import DTYPES, SHAPES, indexed, picked, random_bits, same_bits
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute import dtypes
from vkcompute.core.staging import SLOT_BYTES

SEEDS = st.integers(0, 1 << 32)


@given(shape=SHAPES, dtype=st.sampled_from(DTYPES), seed=SEEDS)
def test_roundtrip(rt: vc.Runtime, shape: tuple[int, ...], dtype: np.dtype, seed: int) -> None:
    data = random_bits(shape, dtype, seed)
    array = rt.array(data)
    assert (array.shape, array.dtype, array.size, array.nbytes) == (shape, dtype, data.size, data.nbytes)
    assert same_bits(array.numpy(), data)
    assert same_bits(np.asarray(array), data)
    assert same_bits(array.copy().numpy(), data)
    assert same_bits(rt.array(array).numpy(), data)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_every_order_of_memory(rt: vc.Runtime, dtype: np.dtype) -> None:
    data = random_bits((5, 6, 7), dtype)
    for source in (data, data.T, data[::-1, ::2], np.asfortranarray(data), data[2, 3, 4]):
        assert same_bits(rt.array(source).numpy(), np.ascontiguousarray(source).reshape(source.shape))


TWICE = """
layout(local_size_x = 1) in;
layout(binding = 0) buffer A { vec2 a[]; };
void main() { a[gl_GlobalInvocationID.x] *= 2; }
"""


def test_a_row_of_the_table_is_all_that_a_dtype_needs(rt: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    row = dtypes.DType("complex64", np.dtype("complex64"), "float32", ())
    monkeypatch.setitem(dtypes.BY_NUMPY, row.numpy, row)
    numbers = np.array([1 + 2j, -3j], row.numpy)
    array, filled = rt.array(numbers), rt.full(2, 1j, row.numpy)
    rt.kernel(vc.glsl(TWICE))(array)
    filled[1:].copy_from(array[:1])
    assert array.numpy().tolist() == [2 + 4j, -6j]
    assert filled.numpy().tolist() == [1j, 2 + 4j]


@given(shape=SHAPES, dtype=st.sampled_from(DTYPES), seed=SEEDS, data=st.data())
def test_views_read_and_write(
    rt: vc.Runtime, shape: tuple[int, ...], dtype: np.dtype, seed: int, data: st.DataObject
) -> None:
    host = random_bits(shape, dtype, seed)
    array, index = rt.array(host), data.draw(indexed(shape))
    view, expected = array[index], picked(host, index)
    assert same_bits(view.numpy(), np.ascontiguousarray(expected).reshape(expected.shape))
    assert view.contiguous == expected.flags.c_contiguous
    patch = random_bits(expected.shape, dtype, seed + 1)
    view.write(patch)
    expected[...] = patch
    assert same_bits(array.numpy(), host), "the view's elements have changed, and no others"


@given(shape=SHAPES, dtype=st.sampled_from(DTYPES), seed=SEEDS, data=st.data())
def test_fill(rt: vc.Runtime, shape: tuple[int, ...], dtype: np.dtype, seed: int, data: st.DataObject) -> None:
    host = random_bits(shape, dtype, seed)
    array, index = rt.array(host), data.draw(indexed(shape))
    element = random_bits((), dtype, seed + 1)[()]
    assert array[index].fill(element).shape == picked(host, index).shape
    picked(host, index)[...] = element
    assert same_bits(array.numpy(), host)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fill_of_every_piece_of_an_array(rt: vc.Runtime, dtype: np.dtype) -> None:
    """Every start and stop modulo a word, at the array's own end too."""
    element = random_bits((), dtype, 1)[()]
    for length in (1, 5, 17, 18, 19, 35):
        host = random_bits((length,), dtype, length)
        for start in range(min(length, 5)):
            for stop in range(max(length - 5, start), length + 1):
                array, expected = rt.array(host), host.copy()
                array[start:stop].fill(element)
                expected[start:stop] = element
                assert same_bits(array.numpy(), expected), (length, start, stop)


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 1 << 17])
def test_fill_of_eight_bytes_that_differ(rt: vc.Runtime, n: int) -> None:
    element = np.uint64(0x0123456789ABCDEF)
    assert np.array_equal(rt.full(n, element, np.uint64).numpy(), np.full(n, element))
    assert np.array_equal(rt.zeros(n, np.float64).numpy(), np.zeros(n))


@given(shape=SHAPES, dtype=st.sampled_from(DTYPES), seed=SEEDS, data=st.data())
def test_strided_copies_on_the_device(
    rt: vc.Runtime, shape: tuple[int, ...], dtype: np.dtype, seed: int, data: st.DataObject
) -> None:
    a, index = random_bits(shape, dtype, seed), data.draw(indexed(shape))
    source = rt.array(a)
    wanted = picked(a, index)
    assert same_bits(source[index].copy().numpy(), np.ascontiguousarray(wanted).reshape(wanted.shape))
    b = random_bits(shape, dtype, seed + 1)
    target = rt.array(b)
    target[index].copy_from(source[index])
    picked(b, index)[...] = wanted
    assert same_bits(target.numpy(), b)
    whole = rt.array(b)
    compact = source[index].copy()
    whole[index] = compact
    picked(b, index)[...] = wanted
    assert same_bits(whole.numpy(), b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "complex64"])
def test_copies_of_many_short_runs(rt: vc.Runtime, dtype: str) -> None:
    a, b = random_bits((90, 80), np.dtype(dtype), 1), random_bits((80, 90), np.dtype(dtype), 2)
    source, target = rt.array(a), rt.array(b)
    target.copy_from(source.T).result()
    assert same_bits(target.numpy(), np.ascontiguousarray(a.T))
    target.write(b)
    target.T[:, ::2].copy_from(source[:, ::2])
    b[::2] = a.T[::2]
    assert same_bits(target.numpy(), b)
    square = target[:80, :80]
    with pytest.raises(ValueError, match="share bytes"):
        square.copy_from(square.T)


@pytest.mark.parametrize("nbytes", [SLOT_BYTES - 1, SLOT_BYTES, SLOT_BYTES + 1, 6 * SLOT_BYTES + 12345])
def test_transfers_longer_than_staging_slots(staged: vc.Runtime, nbytes: int) -> None:
    data = random_bits((nbytes,), np.dtype(np.uint8), nbytes)
    array = staged.array(data)
    assert np.array_equal(array.numpy(), data)
    array[7:-3].write(data[10:])
    assert np.array_equal(array.numpy(), np.concatenate([data[:7], data[10:], data[-3:]]))


def test_the_source_may_be_changed_after_a_write(rt: vc.Runtime) -> None:
    data = np.arange(1000, dtype=np.float32)
    array = rt.array(data)
    for i in range(20):
        data[:] = i
        array.write(data)
        data[:] = -1
        assert np.all(array.numpy() == i)


def test_writes_broadcast_and_convert_within_the_kind(rt: vc.Runtime) -> None:
    array = rt.zeros((2, 3), np.float32)
    array.write(np.arange(3, dtype=np.float64))
    assert array.numpy().tolist() == [[0, 1, 2], [0, 1, 2]]
    array[:, 1] = 7
    array[1] = np.int8(3)
    array[0, 0] = 5
    assert array.numpy().tolist() == [[5, 7, 2], [3, 3, 3]]
    for shape in ((2,), (3, 2), (1, 2, 3)):
        with pytest.raises(ValueError, match=rf"shape {re.escape(str(shape))} does not broadcast"):
            array.write(np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        (np.int32, np.ones(3, np.complex64)),
        (np.int32, np.ones(3, np.float32)),
        (np.int32, np.float64(1)),
        (np.uint8, np.ones(3, np.int64)),
        (np.bool_, np.ones(3, np.int8)),
        (np.int32, [1.5, 2.5, 3.5]),
        (np.int32, 1.5),
        (np.float32, [1j, 2, 3]),
        (np.float32, "3"),
        (np.float32, [None, 1, 2]),
    ],
)
def test_writes_of_another_kind_are_refused(rt: vc.Runtime, dtype: type, data: object) -> None:
    array = rt.zeros(3, dtype)
    with pytest.raises(TypeError, match="convert"):
        array.write(data)
    assert not array.numpy().any()


def test_an_array_of_another_kind_is_refused(rt: vc.Runtime) -> None:
    with pytest.raises(TypeError, match="convert"):
        rt.zeros(3, np.int32).write(rt.zeros(3, np.float32))


def test_pythons_ints_go_into_every_dtype_that_holds_them(rt: vc.Runtime) -> None:
    for dtype in DTYPES:
        assert rt.array([0, 1], dtype).numpy().tolist() == [0, 1]
        array = rt.zeros(2, dtype)
        array[1] = 1
        array.write([1, 0])
        assert array.numpy().tolist() == [1, 0]
    for dtype, number in ((np.int8, 128), (np.uint16, -1), (np.int32, 1 << 31), (np.int64, 1 << 63)):
        with pytest.raises(ValueError, match=f"{np.iinfo(dtype).min} to {np.iinfo(dtype).max}"):
            rt.zeros(2, dtype).write(number)


def test_scalars_and_empty_arrays(rt: vc.Runtime) -> None:
    scalar = rt.full((), 2.5)
    assert (scalar.shape, scalar.item(), scalar.ndim) == ((), 2.5, 0)
    with pytest.raises(TypeError, match="no length"):
        len(scalar)
    nothing = rt.empty((3, 0, 2), np.int16)
    assert (len(nothing), nothing.size, nothing.nbytes) == (3, 0, 0)
    assert nothing.numpy().shape == (3, 0, 2)
    nothing.fill(1)
    nothing.write(np.zeros((3, 0, 2)).astype(np.int16))
    assert nothing.copy_from(nothing.copy()).done()
    nothing[1:, :, 0].copy_from(nothing.copy()[1:, :, 0])
    assert nothing.reshape(-1, 7).shape == (0, 7)
    assert nothing[::-1, :0, ::-1].copy().shape == (3, 0, 2)


def test_what_is_made_of_python_numbers(rt: vc.Runtime) -> None:
    for data, dtype in ((3, "int64"), (2.5, "float32"), (True, "bool"), ([1, 2], "int64"), ([[1.5]], "float32")):
        assert same_bits(rt.array(data).numpy(), np.asarray(data, dtype))
    assert same_bits(rt.array([1, 2], np.uint8).numpy(), np.array([1, 2], np.uint8))


@given(index=st.sampled_from([np.s_[:], np.s_[::2], np.s_[1:, ::-1], np.s_[:, 2:3], np.s_[:0]]), strided=st.booleans())
def test_an_array_is_read_into_any_array(rt: vc.Runtime, index: Any, strided: bool) -> None:
    host = random_bits((6, 5), np.dtype(np.int16), 1)
    with rt.array(host) as array:
        want = host[index]
        wide = np.zeros((*want.shape, 2), np.int16)
        out = wide[..., 1] if strided else np.zeros(want.shape, np.int16)
        array[index].read(out)
        assert np.array_equal(out, want)
        assert not wide[..., 0].any()
        for wrong in (np.empty((6, 4), np.int16), np.empty((6, 5), np.uint16), np.broadcast_to(np.int16(0), (6, 5))):
            with pytest.raises(ValueError, match=r"shape \(6, 5\) and int16 is read into"):
                array.read(wrong)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, np.float32),
        ([1.0, 2], np.float32),
        ([[1.0], [2.5]], np.float32),
        ((1, 2), np.int64),
        ([True], np.bool_),
        ([np.float64(0.1)], np.float64),
        ([1.0, np.float64(0.1)], np.float64),
        ([np.zeros(2), np.zeros(2)], np.float64),
        (np.arange(2.0), np.float64),
        ([np.float32(1)], np.float32),
    ],
)
def test_python_floats_become_float32_and_numpys_keep_their_type(gpu: vc.Runtime, data: Any, dtype: Any) -> None:
    x = gpu.array(data)
    assert x.dtype == dtype
    assert np.array_equal(x.numpy(), np.asarray(data, dtype))
    assert gpu.array(data, np.float64).dtype == np.float64
    with vc.DeviceGroup([gpu]) as group:
        assert group.replicate(data).dtype == dtype
        if np.ndim(data):
            assert group.array(data).dtype == dtype
