"""Assignments to slices and rows of arrays in kernels, on the device and simulated, beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from host import SimulatedRuntime

import vkcompute as vc

RANDOM = np.random.default_rng(5)
OVERLAP, SIZES = "the two parts overlap", "takes as many, or 1; got"


def data(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Returns elements that differ from each other, and from those of other seeds."""
    n = int(np.prod(shape))
    whole = np.arange(n) + 1 + seed
    return (
        (whole + 1j * whole[::-1] if np.dtype(dtype).kind == "c" else whole % (2 if dtype == "?" else n + seed))
        .astype(dtype)
        .reshape(shape)
    )


@pytest.fixture(params=["device", "simulated"])
def launch(request: pytest.FixtureRequest, gpu: vc.Runtime) -> Callable[..., list[np.ndarray[Any, Any]]]:
    """Launches a kernel of one invocation with arrays and numbers; returns the contents of the arrays."""
    runtime: Any = gpu if request.param == "device" else SimulatedRuntime()

    def launched(kernel: Any, *args: Any) -> list[np.ndarray[Any, Any]]:
        given = [runtime.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        if request.param == "device":
            kernel[1, 1](*given).result()
        else:
            kernel.simulate[1, 1](*given)
        return [arg.numpy() for arg in given if hasattr(arg, "numpy")]

    return launched


@vc.kernel
def numbers_and_rows(x: Any, y: Any, n: int) -> None:
    x[2, 1:5] = 77
    x[:, n] = y[:, n + 1]
    x[0] = 7
    x[1, ::2] = y[1, 0:4]
    x[3:5, 2:4] = y[0, 2:4]
    x[3:, 5] = (1, 2)
    x[4, -2:] = y[2, 0:1]
    x[n] = y[n - 1]
    x[1, None, 3:4] = y[3:4, None, 0]
    x[3, ...][:1] = True


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "f8", "u1", "f2", "c8", "c16"])
def test_numbers_rows_and_columns(launch: Any, dtype: str) -> None:
    x, y = data(dtype, (5, 7)), data(dtype, (5, 7), 40)
    got, unchanged = launch(numbers_and_rows, x, y, 2)
    expected = x.copy()
    numbers_and_rows.__wrapped__(expected, y, 2)
    assert np.array_equal(got, expected)
    assert np.array_equal(unchanged, y)


def forwards(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    x[a:b] = x[c:d]


def every_second(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    x[a:b:2] = x[c:d:2]


def backwards(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    x[b:a:-1] = x[d:c:-1]


def reversed_(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    x[a:b] = x[d:c:-1]


def columns(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    y[:, a:b] = y[:, c:d]


def blocks(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    y[a:b, 1:5] = y[c:d, 2:6]


def mirrored_blocks(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    y[1:4, b:a:-1] = y[2:5, d:c:-1]


def turned(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    y[a:b, c:d] = y[a:b, c:d][::-1]


def one_row(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    y[a:b] = y[c]


def of_two(x: Any, y: Any, a: int, b: int, c: int, d: int) -> None:
    y[a:b, 1] = x[c:d]


FORMS = [forwards, every_second, backwards, reversed_, columns, blocks, mirrored_blocks, turned, one_row, of_two]
OF_BLOCKS = columns, blocks, mirrored_blocks
KERNELS = {form: vc.kernel(form) for form in FORMS}


def assigned(form: Any, x: Any, y: Any, *bounds: int) -> str:
    """Runs NumPy's assignment; returns the start of its error, or ""."""
    try:
        form(x, y, *bounds)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("form", FORMS)
def test_parts_of_one_array_are_copied_as_by_numpy_or_refused(launch: Any, form: Any) -> None:
    """Overlapping parts in one order are right; where no order is, and where lengths differ, ValueError is raised."""
    outcomes = {"": 0, OVERLAP: 0, SIZES: 0}
    for _ in range(25):
        x, y = data("i4", (9,)), data("i4", (7, 9), 100)
        bounds = [int(n) for n in RANDOM.integers(0, 7, 4)]
        expected_x, expected_y = x.copy(), y.copy()
        error = assigned(form, expected_x, expected_y, *bounds)
        try:
            got_x, got_y = launch(KERNELS[form], x, y, *bounds)
        except ValueError as raised:
            [kind] = [kind for kind in (OVERLAP, SIZES) if kind in str(raised)]
            got_x, got_y = expected_x, expected_y
        else:
            kind = ""
        outcomes[kind] += 1
        assert (
            kind != OVERLAP
            or form in (reversed_, turned, one_row)
            or (form in OF_BLOCKS and bounds[3] - bounds[2] == 1)
        )
        assert (kind == SIZES) == bool(error), (bounds, kind, error)
        assert np.array_equal(got_x, expected_x), bounds
        assert np.array_equal(got_y, expected_y), bounds
    assert outcomes[""] > 3


def test_parts_of_a_transposed_array_are_moved_or_refused(launch: Any) -> None:
    """Steps along the axes that are not those of a row-major array."""
    n_refused = 0
    for form in (columns, blocks):
        for _ in range(10):
            whole = data("f4", (9, 7), 100)
            bounds = [int(n) for n in RANDOM.integers(0, 7, 4)]
            expected = whole.copy().T
            error = assigned(form, data("i4", (9,)), expected, *bounds)
            try:
                _, got = launch(KERNELS[form], data("i4", (9,)), whole.T, *bounds)
            except ValueError as raised:
                n_refused += 1
                got = expected if OVERLAP in str(raised) or error else None
            assert np.array_equal(got, expected), bounds
    assert n_refused < 20


@vc.kernel
def shared_and_private(out: Any, n: int) -> None:
    tile, mine = vc.shared((3, 4), vc.int32), vc.local((2, 3), vc.float32)
    tile[:, :] = -1
    mine[:] = 2.5
    mine[1, :n] = out[0, :n]
    tile[1:, n:] = 5
    tile[0] = (1, 2, 3, 4)
    tile[1:, 0:2] = tile[0:2, 1:3]
    items = [7, 8, 9]
    out[0, :3] = mine[1]
    out[1, :4] = tile[1]
    out[2, :4] = tile[2]
    out[3, :3] = items
    out[4, :3] = mine[0:1, 0]


def test_shared_arrays_private_arrays_and_lists(launch: Any) -> None:
    start = np.full((5, 4), 90, np.float32)
    [got] = launch(shared_and_private, start, 2)
    tile = np.full((3, 4), -1)
    tile[1:, 2:] = 5
    tile[0] = 1, 2, 3, 4
    tile[1:, 0:2] = tile[0:2, 1:3].copy()
    rows = [[90, 90, 2.5, 90], tile[1], tile[2], [7, 8, 9, 90], [2.5, 2.5, 2.5, 90]]
    assert got.tolist() == np.array(rows).tolist()


RECORD = np.dtype([("a", "i1"), ("p", "f4", (3,)), ("n", "u2")])


@vc.kernel
def records(x: Any, y: Any, n: int) -> None:
    x[n:] = y[:3]
    x[0] = y[3]
    x[1].p = y[2].p
    x[1].p[:2] = 5
    x.n[2:4] = 70
    x["a"][:] = y["a"][::-1]


def test_records_and_their_fields(launch: Any) -> None:
    def made(seed: int) -> Any:
        rows = np.zeros(5, RECORD)
        rows["a"], rows["p"], rows["n"] = data("i1", (5,), seed), data("f4", (5, 3), seed), data("u2", (5,), seed)
        return rows

    x, y = made(1), made(50)
    [got, _] = launch(records, x, y, 2)
    x[2:] = y[:3]
    x[0] = y[3]
    x["p"][1] = y["p"][2]
    x["p"][1, :2] = 5
    x["n"][2:4] = 70
    x["a"] = y["a"][::-1]
    assert got.tobytes() == x.tobytes()


def test_refusals(gpu: vc.Runtime) -> None:
    @vc.kernel
    def too_many_axes(x, y):
        x[0, :] = y[:]

    @vc.kernel
    def lengths(x, y):
        vc.local(4, vc.float32)[:] = (1, 2, 3)

    @vc.kernel
    def by_an_operator(x, y):
        x[0, 1:3] += 1

    @vc.kernel
    def of_other_types(x, y):
        x.view(np.int32)[0, :] = x[1]

    x = gpu.array(data("f4", (3, 4)))
    for kernel, text in [
        (too_many_axes, "with 1 axes takes an array with as many or fewer"),
        (lengths, "an axis of 4 elements takes as many, or 1; got 3"),
        (by_an_operator, "an operator assigns to one element of x; write a for loop over the slice"),
        (of_other_types, "as different types are not copied to each other"),
    ]:
        with pytest.raises(vc.KernelError, match=text):
            kernel[1, 1](x, x)


@vc.kernel
def each_its_row(x: Any, y: Any) -> None:
    i = vc.global_id(0)
    if i < x.shape[0]:
        x[i, :] = y[:, i]
        x[i, i] = 0


def test_each_invocation_copies_a_row(gpu: vc.Runtime) -> None:
    x, y = gpu.zeros((70, 70)), data("f4", (70, 70))
    each_its_row[2, 64](x, gpu.array(y))
    expected = y.T.copy()
    np.fill_diagonal(expected, 0)
    assert np.array_equal(x.numpy(), expected)
