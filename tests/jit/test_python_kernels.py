"""Launching Python kernels: grids, arguments, specializations, graphs, and what is refused at the call."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import check

import vkcompute as vc
from vkcompute.errors import KernelError


@vc.kernel
def saxpy(x, y, out, a):
    """Adds a multiple."""
    i = vc.global_id(0)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@vc.kernel
def count(out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = i + 1


@vc.kernel
def axes2(out):
    x, y = vc.global_id(0), vc.global_id(1)
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] += y * 1000 + x


@vc.kernel
def axes3(out):
    x, y, z = vc.global_id(0), vc.global_id(1), vc.global_id(2)
    if z < out.shape[0] and y < out.shape[1] and x < out.shape[2]:
        out[z, y, x] += z * 10000 + y * 100 + x


FACTOR = 2


def helper(v):
    return v * FACTOR


@vc.kernel
def scaled(out):
    out[vc.global_id(0)] = helper(out[vc.global_id(0)])


@vc.kernel
def kinds(out, a, b, c, d, e):
    out[0] = a + b
    out[1] = c
    out[2] = d * 2
    out[3] = e


@vc.kernel
def nothing(x):
    pass


@pytest.mark.pure
def test_a_kernel_is_made_without_a_driver(run_python: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import sys\nimport vkcompute as vc\n@vc.kernel\ndef f(x):\n    x[0] = 1\nprint('vulkan' in sys.modules)"
    )
    assert run_python(f"import runpy; runpy.run_path({str(path)!r})").stdout == "False\n"


def test_the_first_example(gpu: vc.Runtime) -> None:
    n = 1000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    arrays = [gpu.array(x), gpu.array(y), gpu.zeros(n)]
    future = saxpy(*arrays, 2.0)
    assert isinstance(future, concurrent.futures.Future)
    assert np.array_equal(arrays[2].numpy(), 2 * x + y)
    saxpy[(n + 255) // 256, 256](*arrays, 3.0)
    assert np.array_equal(arrays[2].numpy(), 3 * x + y)
    saxpy[(2, 1), (64, 1)](*arrays[:2], a=4, out=arrays[2])
    assert np.array_equal(arrays[2].numpy()[:128], (4 * x + y)[:128])
    assert np.array_equal(arrays[2].numpy()[128:], (3 * x + y)[128:])
    assert (saxpy.__doc__, saxpy.__name__, repr(saxpy)) == ("Adds a multiple.", "saxpy", "<Python kernel saxpy>")


@pytest.mark.parametrize("shape", [(), (1,), (1000,)])
def test_default_grid_of_one_axis(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    if shape:
        out = gpu.zeros(shape, np.int32)
        count(out)
        assert np.array_equal(out.numpy(), np.arange(out.size) + 1)
    else:
        scalar = gpu.zeros(shape, np.int32)
        zero_axes(scalar)
        assert scalar.item() == 7


@vc.kernel
def zero_axes(out):
    if vc.global_id(0) < out.size:
        out[()] = 7


@pytest.mark.parametrize("shape", [(1, 1), (5, 37), (33, 2), (40, 50)])
def test_default_grid_of_two_axes(gpu: vc.Runtime, shape: tuple[int, int]) -> None:
    out = gpu.zeros(shape, np.int32)
    axes2(out)
    y, x = np.indices(shape)
    assert np.array_equal(out.numpy(), y * 1000 + x)


@vc.kernel
def rows(out):
    i = vc.global_id(0)
    if i < out.shape[0]:
        for j in range(out.shape[1]):
            out[i, j] += i


@pytest.mark.parametrize("simulated", [False, True])
def test_one_invocation_per_row_needs_a_grid(gpu: vc.Runtime, simulated: bool) -> None:
    """The default grid would start several invocations for each row."""
    launched, out = rows.simulate if simulated else rows, gpu.zeros((70, 3), np.int32)
    with pytest.raises(ValueError, match=r"rows reads ids along x only.*shape \(70, 3\).*give the grid"):
        launched(out)
    launched[2, 64](out)
    np.testing.assert_array_equal(out.numpy(), np.arange(70)[:, None] * [1, 1, 1])


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 9, 35), (7, 3, 2)])
def test_default_grid_of_three_axes(gpu: vc.Runtime, shape: tuple[int, int, int]) -> None:
    out = gpu.zeros(shape, np.int32)
    axes3(out)
    z, y, x = np.indices(shape)
    assert np.array_equal(out.numpy(), z * 10000 + y * 100 + x)


def test_no_elements(gpu: vc.Runtime) -> None:
    for shape, kernel in (((0,), count), ((0, 3), axes2), ((3, 0), axes2)):
        kernel(gpu.empty(shape, np.int32)).result()


@pytest.mark.device_only
def test_more_groups_than_the_device_has_along_an_axis(gpu: vc.Runtime) -> None:
    most = gpu.device.physical.limits["maxComputeWorkGroupCount"][0]
    if most > 1 << 20:
        pytest.skip(f"this device has {most}")
    n = most * 64 + 100
    out = gpu.zeros(n, np.int32)
    count(out)
    assert np.array_equal(out.numpy(), np.arange(n, dtype=np.int32) + 1)
    ids = gpu.zeros(((most + 2) * 2, 4), np.int32)
    places[(most + 2, 1), 2](ids)
    expected = np.arange((most + 2) * 2)
    groups = ids.numpy()[:, 3]
    assert set(groups.tolist()) == {most + 2}
    assert np.array_equal(ids.numpy()[:, 0], expected)
    assert np.array_equal(ids.numpy()[:, 1], expected // 2)
    assert np.array_equal(ids.numpy()[:, 2], expected % 2 + 10)


@vc.kernel(check_bounds=True)
def corners(out, past):
    i, y, z = vc.global_id(0), vc.global_id(1), vc.global_id(2)
    if i < out.shape[0]:
        out[i, y, z] = vc.local_id(1) + 10 * vc.local_id(2) + 100 * vc.group_id(1)
        if i == out.shape[0] - 1 and y == 1:
            out[i + past, y, z] = -1


@pytest.mark.device_only
def test_more_groups_than_an_axis_has_with_invocations_along_others(gpu: vc.Runtime) -> None:
    n = gpu.device.physical.limits["maxComputeWorkGroupCount"][0] + 2
    if n > 1 << 20:
        pytest.skip(f"this device has {n - 2}")
    out = gpu.zeros((n, 2, 2), np.int32)
    corners[n, (1, 2, 2)](out, 0)
    assert np.array_equal(out.numpy()[: n - 1], np.broadcast_to([[0, 10], [1, 11]], (n - 1, 2, 2)))
    assert out.numpy()[n - 1].tolist() == [[0, 10], [-1, -1]]
    failed = corners[n, (1, 2, 2)](out, 1)
    with pytest.raises(vc.KernelError, match=rf"index \({n}, 1, 0\).*in invocation \({n - 1}, 1, 0\) of corners"):
        failed.result()


@vc.kernel
def places(out):
    i = vc.global_id(0)
    if i < out.shape[0]:
        out[i, 0] = i
        out[i, 1] = vc.group_id(0)
        out[i, 2] = vc.local_id(0) + vc.global_id(1) + vc.group_id(1) + 10 * vc.num_groups(1) + vc.local_id(1)
        out[i, 3] = vc.num_groups(0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 2, 3, 4, 5), [3, 3, 8, 5]),
        ((1.5, 2, True, 0.25, False), [3.5, 1, 0.5, 0]),
        ((np.float32(1.5), np.int32(-2), np.uint32(7), np.float32(3), np.bool_(True)), [-0.5, 7, 6, 1]),
        ((3_000_000_000, 1, 2, 3, 4), [3_000_000_000, 2, 6, 4]),
    ],
)
def test_scalars(gpu: vc.Runtime, values: tuple[Any, ...], expected: list[float]) -> None:
    out = gpu.zeros(4)
    kinds[1, 1](out, *values)
    assert out.numpy().tolist() == expected


def test_small_and_wide_scalars(gpu: vc.Runtime) -> None:
    values = np.int8(-3), np.uint8(200), np.float16(0.5), np.int64(1) << 40, np.float64(0.1)
    try:
        check(gpu, kinds, np.zeros(4), *values, local_size=(1, 1, 1), rtol=0)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))


def test_pythons_floats_are_exact_beside_float64(gpu: vc.Runtime) -> None:
    check(gpu, saxpy, np.ones(8), np.ones(8), np.zeros(8), 0.1, local_size=(8, 1, 1), rtol=0, atol=0)


def test_bools_in_memory(gpu: vc.Runtime) -> None:
    flags = np.array([True, False, True, True])
    check(gpu, flipped, flags, np.zeros(4, bool), np.zeros(4, np.int32), local_size=(4, 1, 1))


@vc.kernel
def flipped(x, out, number):
    i = vc.global_id(0)
    out[i] = not x[i]
    number[i] = x[i] + 5
    if x[i]:
        number[i] *= 10
    if i == 3:
        out[3] = 7


def test_specializations_follow_what_is_outside(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    out = gpu.full(64, 1, np.int32)
    scaled(out)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    scaled(out)
    monkeypatch.setitem(globals(), "helper", lambda_free)
    scaled(out)
    monkeypatch.undo()
    scaled(out)
    assert set(out.numpy().tolist()) == {(1 * 2 * 5 + 1) * 2}


class Settings:
    """Constants may be a class's."""

    SHIFT = 3


@vc.kernel
def shifted(out):
    for _ in range(2):
        out[vc.global_id(0)] += Settings.SHIFT


def test_specializations_follow_attributes(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    out = gpu.zeros(64, np.int32)
    shifted(out)
    monkeypatch.setattr(Settings, "SHIFT", 0.5)
    shifted(out)
    assert set(out.numpy().tolist()) == {6}  # (6 + 0.5) and again, each time stored as an int
    monkeypatch.setattr(Settings, "SHIFT", np.zeros(3, object))
    with pytest.raises(vc.KernelError, match=r"SHIFT is a table of object, which kernels lack"):
        shifted(out)


def lambda_free(v):
    return v + 1


def test_closures(gpu: vc.Runtime) -> None:
    def made(step: Any) -> Any:
        @vc.kernel
        def add(out):
            out[vc.global_id(0)] += step

        return add

    out = gpu.zeros(64)
    for step in (1, 0.5, np.float32(2), 1):
        made(step)(out)
    assert set(out.numpy().tolist()) == {4.5}


@pytest.mark.device_only
def test_the_same_types_are_compiled_once(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    import vkcompute.jit.launcher as home

    calls: list[Any] = []
    real = home.specialize
    monkeypatch.setattr(home, "specialize", lambda *args, **named: calls.append(args[1]) or real(*args, **named))

    @vc.kernel
    def add(x, a):
        x[vc.global_id(0)] += a

    for dtype in (np.int32, np.float32):
        for n in (64, 128):
            for a in (1, 2, 3.0):
                add(gpu.zeros(n, dtype), a)
    assert len(calls) == len(set(calls)) == 4


@pytest.mark.device_only
def test_graphs_record_python_kernels(gpu: vc.Runtime) -> None:
    x, y, out = gpu.full(100, 1.0), gpu.full(100, 2.0), gpu.zeros(100)
    with gpu.record() as graph:
        saxpy(x, y, out, 2.0)
        saxpy(out, y, out, 1.0)
        saxpy(out, y, x, 1.0)
    graph.run(2)
    assert set(out.numpy().tolist()) == {2 * (2 + 2 + 2 + 2) + 2 + 2}


def test_grid_local_size_and_queue_as_keywords(gpu: vc.Runtime) -> None:
    x, y = gpu.full(100, 1.0), gpu.full(100, 2.0)
    for launch, grid in ((saxpy, 2), (saxpy.simulate, (2,)), (saxpy[None, 16], [2, 1])):
        out = gpu.zeros(100)
        local = {} if isinstance(grid, list) else {"local_size": 16}
        launch(x, y, out, 2.0, grid=grid, queue=None, **local)
        assert out.numpy().tolist() == [4.0] * 32 + [0.0] * 68
        launch(x, y, out, 2.0, queue=0)
        assert out.numpy().tolist() == [4.0] * 100
    for launch in (saxpy[1, 64], saxpy.simulate[1]):
        with pytest.raises(TypeError, match=r"grid=2 is given in brackets, too; give it once"):
            launch(x, y, x, 2.0, grid=2)
    with pytest.raises(TypeError, match="groups and local size are ints, or tuples of one to three; got 'all'"):
        saxpy(x, y, x, 2.0, grid="all")
    with pytest.raises(TypeError, match=r"a queue is one of runtime.device.queues, by its index; got 1.5"):
        saxpy(x, y, x, 2.0, queue=1.5)


def test_a_keyword_belongs_to_the_parameter_of_its_name(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4)

    @vc.kernel
    def takes_both(x, grid, queue):
        if vc.global_id(0) < len(x):
            x[vc.global_id(0)] = grid - queue

    takes_both(x, grid=7.0, queue=2.0)
    assert set(x.numpy().tolist()) == {5.0}
    with pytest.raises(TypeError, match=r"missing a required argument: 'queue'$"):
        takes_both(x, grid=7.0)


@pytest.mark.device_only
def test_the_call_is_pythons(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4)
    for args, named, message in [
        ((x, x, x), {}, r"saxpy\(\): missing a required argument: 'a'"),
        (
            (x, x, x),
            {"aa": 1},
            r"saxpy\(\): got an unexpected keyword argument 'aa'; did you mean a\?; it takes x, y, out, a; the grid",
        ),
        ((x, x, x, 1, 2), {}, r"saxpy\(\): too many positional arguments"),
        ((x, x, x, 1), {"b": 2}, r"saxpy\(\): got an unexpected keyword argument 'b'"),
        ((x, x, x, 1), {"x": 2}, r"saxpy\(\): multiple values for argument 'x'"),
        ((x, x, x, "1"), {}, "a kernel takes device arrays and numbers; got str for a"),
        ((x, x, [0.0] * 4, 1), {}, r"got list for out; copy it to the device, by runtime.array\(data\)"),
        ((x, x, np.ma.zeros(4), 1), {}, "got MaskedArray for out; copy it to the device"),
        ((x, x, x, np.array(2.0)), {}, r"got ndarray for a; copy it .*, or pass the number, as a.item\(\)"),
    ]:
        with pytest.raises(TypeError, match=message):
            saxpy(*args, **named)
    with pytest.raises(ValueError, match="at most 64 bits"):
        saxpy(x, x, x, 1 << 64)
    with pytest.raises(ValueError, match=r"nothing assigns to no array for arguments of these types.*: give the grid"):
        nothing(x)
    nothing[1, 1](x)
    with pytest.raises(ValueError, match="writes an array of 4 axes"):
        four(gpu.zeros((2, 2, 2, 2)))
    for grid in ((1, 2, 3, 4), (1, 2, 3.0), (1, 2, True), ("a", 1), ((1, 1, 1, 1), 1), (1, ())):
        with pytest.raises(TypeError):
            saxpy[grid](x, x, x, 1)


@vc.kernel
def four(out):
    out[0, 0, 0, 0] = 1


def test_a_default_argument(gpu: vc.Runtime) -> None:
    @vc.kernel
    def add(x, a=3):
        x[vc.global_id(0)] += a

    x = gpu.zeros(64, np.int32)
    add(x)
    add(x, 4)
    assert set(x.numpy().tolist()) == {7}


@pytest.mark.usefixtures("clean_handles")
def test_nothing_is_left_of_a_runtime() -> None:
    with vc.Runtime() as gpu:
        out = gpu.zeros(100, np.int32)
        count(out)
        assert out.numpy()[99] == 100
    with pytest.raises(vc.ClosedError):
        count(out)
    with vc.Runtime() as gpu:
        out = gpu.zeros(100, np.int32)
        count(out)
        assert out.numpy()[99] == 100
        reference = weakref.ref(gpu)
    del gpu, out
    gc.collect()
    assert reference() is None


step = 0


@vc.kernel
def add_step(x):
    i = vc.global_id(0)
    if i < x.size:
        x[i] += step


@pytest.mark.rotates
@pytest.mark.device_only
def test_constants_that_come_again_are_compiled_but_kept_once(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gpu.zeros(4, np.int32)
    kept = []
    for _ in range(3):  # of more constants than specializations are kept for a signature
        for value in range(20):
            monkeypatch.setitem(globals(), "step", value)
            add_step(x)
        kept.append(len(gpu._kernels))
    assert len({*kept}) == 1
    assert set(x.numpy()) == {3 * sum(range(20))}


@vc.kernel
def rows_of(x, out, factor, first):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * factor + first + i


@pytest.mark.devices
def test_a_group_of_devices(group: vc.DeviceGroup) -> None:
    data = np.arange(100, dtype=np.int32)
    x, out = group.array(data), group.empty(100, np.int32)
    for kernel in (group.kernel(rows_of), group.kernel(rows_of[2, 64])):
        out.write(0)
        kernel(x, out, 3, lambda rows: rows.start).result()
        assert np.array_equal(out.numpy(), data * 4)
        kernel(x, out, factor=5, first=lambda rows: rows.start)
        assert np.array_equal(out.numpy(), data * 6)
    with pytest.raises(TypeError, match=r"grid=1 is given in brackets, too"):
        kernel(x, out, 3, 0, grid=1)
    for launch in (rows_of, rows_of[2, 64], group.kernel(rows_of)[2, 64], group.kernel(rows_of)):
        out.write(0)
        launch(x, out, 7, 0).result()
        expected = np.concatenate([data[rows] * 7 + np.arange(len(rows)) for rows in map(list, x.rows)])
        assert np.array_equal(out.numpy(), expected)
    out.write(-1)
    group.kernel(rows_of)(x, out, 0, 0, grid=lambda rows: 1, local_size=lambda rows: len(rows) // 2).result()
    assert np.count_nonzero(out.numpy() == -1) == sum(len(rows) - len(rows) // 2 for rows in x.rows)
    with pytest.raises(TypeError, match="no options here; got name"):
        group.kernel(rows_of, name="thrice")


@pytest.mark.pure
def test_kernels_are_pickled_and_copied_by_their_names_as_functions_are() -> None:
    for given in (saxpy, saxpy.simulate, weighted):
        for again in (pickle.loads(pickle.dumps(given)), copy.copy(given), copy.deepcopy([given])[0]):
            assert again is given

    @vc.kernel
    def inner(x):
        x[0] = 1

    with pytest.raises((pickle.PicklingError, AttributeError), match="inner"):
        pickle.dumps(inner)


@vc.vectorize
def weighted(a, b):
    return a + 2 * b


@pytest.mark.device_only
def test_an_element_without_axes_is_written_so(gpu: vc.Runtime) -> None:
    whole = vc.kernel(assigned)
    with pytest.raises(KernelError, match=r"the array x \(float32, 0-D\); index it, as x\[\(\)\]"):
        whole[1, 1](gpu.full((), 1.0), gpu.zeros(1))


def assigned(x, out):
    out[0] = x
