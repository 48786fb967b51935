"""What arrays refuse, and how: shapes, dtypes, closed ones, those of another runtime; and views that share memory."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from arrays import DTYPES, random_bits, same_bits

import vkcompute as vc
from vkcompute.runtime.memory import view


@pytest.mark.parametrize(
    "dtype", ["longdouble", "clongdouble", "S3", "U1", "O", ">f4", "datetime64[s]", [("x", "O")], "nonsense"]
)
def test_dtypes_that_no_array_holds(gpu: vc.Runtime, dtype: object) -> None:
    with pytest.raises(TypeError):
        gpu.empty(3, dtype)


@pytest.mark.parametrize("shape", [-1, (2, -1), (-3, 0)])
def test_negative_lengths(gpu: vc.Runtime, shape: object) -> None:
    with pytest.raises(ValueError, match="not negative"):
        gpu.empty(shape)
    with pytest.raises(ValueError, match="not negative"):
        gpu.zeros(1).broadcast_to(shape)


@pytest.mark.parametrize("shape", [2.0, (2.5,), ("3",), None, (None,)])
def test_lengths_are_ints(gpu: vc.Runtime, shape: object) -> None:
    with pytest.raises(TypeError, match=re.escape(f"a shape is an integer or a tuple of integers; got {shape!r}")):
        gpu.empty(shape)


def test_a_shape_is_one_argument(gpu: vc.Runtime) -> None:
    for wrong in (lambda: gpu.zeros(3, 4), lambda: gpu.empty(3, 4), lambda: gpu.full(3, 4, 4)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"got 4; lengths are one argument, as in zeros\(\(3, 4\)\)"):
            wrong()


def test_full_has_the_dtype_of_its_value(gpu: vc.Runtime) -> None:
    for value in (7, 7.5, True, np.uint8(3), np.float64(2)):
        assert gpu.full(3, value).dtype == gpu.array(value).dtype
    assert gpu.full(3, 7, np.uint8).dtype == np.uint8


def test_masked_arrays_are_refused(gpu: vc.Runtime) -> None:
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    for use in (gpu.array, gpu.zeros(2).write, partial(gpu.zeros(2).__setitem__, slice(2))):
        with pytest.raises(TypeError, match=r"a masked array has a mask, which device arrays lack; pass x\.filled"):
            use(masked)


def test_lengths_of_every_kind_of_int(gpu: vc.Runtime) -> None:
    for shape in (np.int64(3), [3], (np.uint8(3),), np.array([3])):
        array = gpu.empty(shape)
        assert array.shape == (3,)
        assert type(array.shape[0]) is int
    assert gpu.empty(6).reshape(np.int64(6)).shape == (6,)
    assert gpu.empty(6).reshape([2, np.int64(3)]).shape == (2, 3)


@pytest.mark.parametrize("shape", [(4,), (7,), (-1, 4), (-1, -1), (0,), (-1, 0), (-2, -3)])
def test_reshape_keeps_the_elements(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="6 elements"):
        gpu.empty((2, 3)).reshape(shape)


def test_reshape_views_the_same_memory(gpu: vc.Runtime) -> None:
    data = np.arange(24, dtype=np.int32)
    array = gpu.array(data)
    for shape in ((4, 6), (2, -1), (1, 24, 1), -1):
        assert same_bits(array.reshape(shape).numpy(), data.reshape(shape))
    assert same_bits(array.reshape(2, 3, 4).numpy(), data.reshape(2, 3, 4))
    array.reshape(4, 6)[1, 2] = -5
    assert array.numpy()[8] == -5
    part = array.reshape(4, 6)[1:3]
    assert same_bits(part.reshape(-1).numpy(), array.numpy()[6:18])
    copied = array.reshape(4, 6)[:, 1:].reshape(-1)
    assert same_bits(copied.numpy(), array.numpy().reshape(4, 6)[:, 1:].reshape(-1))
    copied.fill(0)
    assert array.numpy()[7] == 7


@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_view_of_every_dtype_as_every_other(gpu: vc.Runtime, of: np.dtype) -> None:
    data = random_bits((3, 32), of)
    array = gpu.array(data)
    for other in DTYPES:
        assert array.view(other).numpy().tobytes() == data.view(other).tobytes()
        assert array.view(other).shape == data.view(other).shape
        assert array[1:, 16:].view(other).numpy().tobytes() == data[1:, 16:].view(other).tobytes()


def test_view_of_a_last_axis_of_one_element(gpu: vc.Runtime) -> None:
    """Its stride is that of other elements, and means nothing."""
    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    array = gpu.array(data)
    for index in ((slice(None), slice(2, 3)), (None, slice(0, 1), 3)):
        part, expected = array[index], data[index]
        assert np.array_equal(part.view(np.int16).numpy(), expected.copy().view(np.int16))
    with pytest.raises(ValueError, match="contiguous last axis"):
        array[:, ::2].view(np.int64)


def test_view_errors(gpu: vc.Runtime) -> None:
    array = gpu.empty((4, 6), np.int32)
    for wrong in (array[:, :3].view, array[:, ::2].view, array.reshape(2, 3, 2, 2)[..., 0].view, array[0, 0].view):
        with pytest.raises(ValueError, match="last axis"):
            wrong(np.int64)
    with pytest.raises(TypeError, match="an array's dtype must be one of"):
        array.view(np.longdouble)


def test_errors_of_indices(gpu: vc.Runtime) -> None:
    array = gpu.empty((4, 6))
    for index in (4, 1.5, "a", np.array([0.5])):
        with pytest.raises(IndexError):
            array[index]
    assert [row.shape for row in array] == [(6,)] * 4, "it is iterated over as an array is"


def test_copies_are_of_fitting_shape_and_equal_dtype(gpu: vc.Runtime) -> None:
    array = gpu.empty((2, 3))
    with pytest.raises(ValueError, match=r"shape \(3, 2\) does not broadcast to \(2, 3\)"):
        array.copy_from(gpu.empty((3, 2)))
    with pytest.raises(TypeError, match="int32 into float32"):
        array.copy_from(gpu.empty((2, 3), np.int32))
    with pytest.raises(ValueError, match="share bytes"):
        array[:, :2].copy_from(array[:, 1:])
    with pytest.raises(TypeError, match="copy_from takes a device array"):
        array.copy_from(np.zeros((2, 3), np.float32))


def test_fill_takes_one_value_of_the_kind(gpu: vc.Runtime) -> None:
    array = gpu.zeros(3, np.int32)
    with pytest.raises(ValueError, match="one value"):
        array.fill([1, 2, 3])
    assert array.fill(np.array(7)).numpy().tolist() == [7, 7, 7]
    for wrong in ("x", None, object()):
        with pytest.raises((TypeError, ValueError)):
            array.fill(wrong)
    assert array.numpy().tolist() == [7, 7, 7]


def test_arrays_of_another_runtime() -> None:
    with vc.Runtime() as one, vc.Runtime() as other:
        a, b = one.full(3, 1.0), other.full(3, 2.0)
        with pytest.raises(
            ValueError, match=r"another runtime; make all on one with device=gpu or vc.set_default_runtime\(gpu\)"
        ):
            a.copy_from(b)
        a.write(b)
        assert a.numpy().tolist() == [2, 2, 2]
        assert other.array(a).numpy().tolist() == [2, 2, 2]


@pytest.mark.parametrize("kind", ["in memory", "lazy"])
def test_attributes_of_other_libraries_are_named_with_a_remedy(gpu: vc.Runtime, kind: str) -> None:
    x = gpu.array(np.arange(6, dtype=np.int32).reshape(2, 3))
    x = x + 0 if kind == "lazy" else x
    with pytest.raises(AttributeError, match=r"'Array' object has no attribute 'get'; write x.numpy\(\)$"):
        x.get()  # type: ignore[attr-defined]
    for name, remedy in view._REMEDIES.items():
        assert not hasattr(x, name)
        program = re.split(r", | as |; ", remedy)[0]
        eval(program, {"x": x, "np": np, "gpu": gpu, "dtype": np.float32, "axes": (1, 0), "axis": 0, "data": x.numpy()})


USES: dict[str, Callable[[vc.Array], object]] = {
    "numpy": lambda t: t.numpy(),
    "asarray": lambda t: np.asarray(t),
    "item": lambda t: t[0].item(),
    "write": lambda t: t.write(np.zeros(4, np.float32)),
    "fill": lambda t: t.fill(1),
    "copy": lambda t: t.copy(),
    "copy_from": lambda t: t.copy_from(t),
    "getitem": lambda t: t[1:],
    "setitem": lambda t: t.__setitem__(0, 1),
    "reshape": lambda t: t.reshape(2, 2),
    "view": lambda t: t.view(np.int32),
    "range": lambda t: t.range,
    "buffer": lambda t: t.buffer,
    "dlpack": lambda t: t.__dlpack__(),
    "array": lambda t: t.runtime.array(t),
}


@pytest.mark.parametrize("use", USES)
def test_a_closed_array_says_so(gpu: vc.Runtime, use: str) -> None:
    array = gpu.zeros(4)
    view = array[2:]
    array.close()
    array.close()
    assert array.closed
    assert "closed" in repr(array)
    with pytest.raises(vc.ClosedError, match=r"shape \(4,\) is closed"):
        USES[use](array)
    assert view.numpy().tolist() == [0, 0], "a view keeps the memory"


@pytest.mark.parametrize("use", USES)
def test_an_array_of_a_closed_runtime_says_so(use: str) -> None:
    with vc.Runtime() as runtime:
        array = runtime.zeros(4)
    with pytest.raises(vc.ClosedError, match="untime is closed; "):
        USES[use](array)
    array.close()


def test_dlpack_shares_the_memory(gpu: vc.Runtime) -> None:
    if not gpu.device.memory.unified:
        pytest.skip("the host does not see this device's memory")
    numpy_2 = int(np.__version__.split(".")[0]) >= 2
    for dtype in DTYPES if numpy_2 else DTYPES[1:]:  # numpy 1's DLPack has no bool
        data = random_bits((4, 6), dtype)
        array = gpu.array(data)
        view = np.from_dlpack(array[1:, ::2])
        assert same_bits(np.ascontiguousarray(view), np.ascontiguousarray(data[1:, ::2]))
        array.fill(1)
        gpu.wait()
        assert same_bits(np.ascontiguousarray(view), np.ones((3, 3), dtype))
    assert np.from_dlpack(gpu.full((), 3.5)).item() == 3.5
    assert np.from_dlpack(gpu.empty((3, 0, 2))).shape == (3, 0, 2)


def test_dlpack_keeps_the_memory_alive(gpu: vc.Runtime) -> None:
    if not gpu.device.memory.unified:
        pytest.skip("the host does not see this device's memory")
    views = [np.from_dlpack(gpu.full(1000, i, np.int32))[::2] for i in range(20)]
    gc.collect()
    gpu.device.collect(wait=True)
    others = [gpu.full(1000, -1, np.int32) for _ in range(100)]
    gpu.wait()
    assert [set(view.tolist()) for view in views] == [{i} for i in range(20)]
    used = gpu.device.memory.used_bytes
    del others, views
    gpu.device.collect(wait=True)
    assert gpu.device.memory.used_bytes <= used - 120 * 4000


def test_dlpack_waits_for_the_work(gpu: vc.Runtime) -> None:
    if not gpu.device.memory.unified:
        pytest.skip("the host does not see this device's memory")
    array = gpu.zeros(1 << 20, np.int32)
    for i in range(20):
        array.fill(i)
    assert set(np.unique(np.from_dlpack(array)).tolist()) == {19}


def test_dlpack_of_a_staged_array_says_why_not(staged: vc.Runtime) -> None:
    with pytest.raises(BufferError, match="not host-visible"):
        np.from_dlpack(staged.zeros(3))


def test_staging_leaves_the_memory_to_the_device(staged: vc.Runtime) -> None:
    assert staged.zeros(3).buffer.address == 0
