"""Launches on NumPy arrays, which are copied, and launches without arrays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import vkcompute as vc


@vc.kernel
def saxpy(a, x, y):
    i = vc.global_id(0)
    if i < y.size:
        y[i] += a * x[i]


@vc.kernel
def transposed(x, out):
    j, i = vc.global_id(0), vc.global_id(1)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[j, i]


@vc.kernel
def count(x, n: vc.int32[:]):
    if x[vc.global_id(0)] > 2:
        vc.atomic.add(n, 0, 1)


@pytest.fixture(autouse=True)
def _default(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the runtime under test the default one."""
    monkeypatch.setattr("vkcompute.runtime.runtime._default", [gpu])


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_arrays_are_copied_there_and_back(gpu: vc.Runtime) -> None:
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    saxpy(2.0, x, y)
    assert y.tolist() == [1 + 2 * n for n in range(8)]
    assert x.tolist() == list(range(8))
    saxpy(1.0, gpu.array(x), y[::-2])  # with an array, and a view of an array
    assert y.tolist() == [1, 3 + 3, 5, 7 + 2, 9, 11 + 1, 13, 15 + 0]
    saxpy(1.0, y, y)  # the same array twice is one
    assert y[0] == 2
    out = np.zeros((3, 2), np.int32, order="F")
    transposed(np.arange(6, dtype=np.int32).reshape(2, 3), out)
    assert out.tolist() == [[0, 3], [1, 4], [2, 5]]
    n = np.zeros(1, np.int32)
    count[1, 8](np.arange(8, dtype=np.int32), n)
    assert n[0] == 5
    saxpy(1.0, np.zeros(0, np.float32), np.zeros(0, np.float32))


@vc.kernel
def added(x, y):
    i = vc.global_id(0)
    if i < y.size:
        y[i] += x[i]


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_what_cannot_be_copied_back() -> None:
    x, frozen = np.ones(8, np.float32), np.ones(8, np.float32)
    frozen.flags.writeable = False
    saxpy(1.0, frozen, x)
    for y in (frozen, np.broadcast_to(x[:1], 8)):
        with pytest.raises(ValueError, match="saxpy writes an array that is read-only; pass a copy of it"):
            saxpy(1.0, x, y)
    with pytest.raises(ValueError, match=r"writes one of two arrays that share memory.*one has gaps"):
        saxpy(1.0, x[1:5], x[:-1:2])
    for strides in (2, 0):  # elements that overlap, and one element
        y, z = np.lib.stride_tricks.as_strided(np.ones(8, np.int32), (4,), (strides,)), np.zeros(4, np.int32)
        with pytest.raises(ValueError, match="added writes an array whose elements overlap in memory"):
            added(z, y)
        added(y, z)
        assert np.array_equal(y, z)
    assert x.tolist() == [2] * 8


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_a_launch_on_nothing_accesses_nothing() -> None:
    """The next launch may use the memory at once."""
    memory = np.ones(64, np.float32)
    for x, y in ((memory[:8], memory[32:40]), (memory[32:40], memory[:8])):
        saxpy(1.0, np.zeros(0, np.float32), np.zeros(0, np.float32))
        saxpy(1.0, x, y)
    assert (memory[0], memory[32]) == (3, 2)


@vc.kernel
def shifted(x, y, z):
    for i in range(y.size):
        y[i] = x[i] + z[0]


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_arrays_that_share_bytes_have_one_copy(gpu: vc.Runtime) -> None:
    """Each argument sees what the kernel writes by another, as on the device."""
    memory = np.arange(10, dtype=np.int32)
    shifted[1, 1](memory[:8], memory[1:9], memory[9:])
    assert memory.tolist() == [9 * n for n in range(9)] + [9]
    shifted[1, 1](memory[2:6], memory[:4], memory[:1])
    assert memory.tolist() == [18, 45, 54, 63, 36, 45, 54, 63, 72, 9]
    with gpu.record() as graph:
        shifted[1, 1](memory[:3], memory[1:4], memory[2:])
    memory[:] = 1
    graph.run()
    gpu.wait()
    assert memory.tolist() == [1, 2, 3, 6] + [1] * 6


def test_one_warning_at_the_callers_line() -> None:
    x = np.zeros(4, np.float32)
    with warnings.catch_warnings(record=True) as result:
        warnings.simplefilter("default")
        for _ in range(3):
            saxpy(1.0, x, x)
    assert [item.category for item in result] == [vc.HostCopyWarning]
    assert result[0].filename == __file__
    assert "saxpy is launched on host arrays" in str(result[0].message)
    assert "runtime.array(data)" in str(result[0].message)
    with warnings.catch_warnings(record=True) as result:
        warnings.simplefilter("always")
        saxpy[1, 4](1.0, x=x, y=x)
        saxpy(1.0, x, x, grid=1, local_size=4)
    assert [item.filename for item in result] == [__file__] * 2


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_arrays_in_a_graph(gpu: vc.Runtime) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    with gpu.record() as graph:
        saxpy(2.0, x, y)
    assert y.tolist() == [0] * 4
    graph.run()
    graph.run()
    gpu.wait()
    assert y.tolist() == [4] * 4


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_failed_launches_leave_the_arrays(gpu: vc.Runtime) -> None:
    @vc.kernel(check_bounds=True)
    def beyond(x, out):
        out[vc.global_id(0)] = x[vc.global_id(0) + 1]

    out = np.zeros(4, np.float32)
    with pytest.raises(vc.KernelError, match=r"index 4 is outside of x, whose shape is \(4,\)"):
        beyond[1, 4](np.ones(4, np.float32), out)


@vc.vectorize
def divided(x, y):
    return x // y, x % y


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_functions_of_elements_and_reductions_copy_their_arguments(gpu: vc.Runtime) -> None:
    host, other = np.array([7, 8, 10], np.int32), np.array([2, 3, 4], np.int32)
    x, strided = gpu.array(host), np.repeat(other, 2)[::2]
    axpy, dot = vc.elementwise("a * x + y"), vc.reduce("a + b", 0, map="x * y")
    for one in (x, host):
        assert axpy(2, one, strided).tolist() == [16, 19, 24]
        assert [item.tolist() for item in divided(one, other)] == [[3, 2, 2], [1, 2, 2]]
        assert dot(one, other).tolist() == 78
    out = gpu.zeros(3, np.int32)
    assert axpy(1, host, host, out=out) is out
    host[0] = 1  # a repeated call copies again
    assert axpy(1, host, host, out=out).tolist() == [2, 16, 20]


def test_what_functions_of_elements_do_not_take(gpu: vc.Runtime) -> None:
    x, axpy = gpu.zeros(3), vc.elementwise("a * x + y")
    with pytest.warns(vc.HostCopyWarning, match=r"a \* x \+ y is launched on host arrays"):
        axpy(1, x, np.ones(3, np.float32))
    for wrong, message in (
        ([1, 2, 3], "got list for y; copy it"),
        (np.ones(1, "S4"), r"got a NumPy array of \|S4 for y"),
        (np.array(1.0), r"got ndarray for y; .* as y.item\(\)"),
    ):
        with pytest.raises(TypeError, match=message):
            axpy(1, x, wrong)
        with pytest.raises(TypeError, match=message.replace("for y", "for b").replace("y.", "b.")):
            vc.reduce("a + b", 0, map="a * b")(x, wrong)
    with pytest.raises(TypeError, match="out is a device array; got ndarray"):
        axpy(1, x, x, out=np.zeros(3, np.float32))


@vc.kernel
def table(n):
    i = vc.global_id(0)
    if i < n:
        print(f"{i} squared is {i * i}")


@vc.kernel
def silent(n):
    k = 0
    while k < n:
        k += 1


def test_kernels_without_arrays(gpu: vc.Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    table[1, 64](3).result()
    assert capsys.readouterr().out == "0 squared is 0\n1 squared is 1\n2 squared is 4\n"
    for _ in range(2):
        silent[2, 64](5).result()
    with gpu.record() as graph:
        table[1, 64](1)
    graph.run()
    gpu.wait()
    assert capsys.readouterr().out == "0 squared is 0\n"
    with pytest.raises(ValueError, match=r"assigns to no array.*give the grid"):
        table(3)


def test_groups_take_their_own_arrays(gpu: vc.Runtime) -> None:
    group = vc.DeviceGroup([gpu])
    with pytest.raises(TypeError, match=r"takes no NumPy array beside arrays of a group; pass group\.array"):
        saxpy(1.0, np.ones(4, np.float32), group.array(np.ones(4, np.float32)))


def test_numbers_only(gpu: vc.Runtime) -> None:
    @vc.kernel
    def nothing() -> Any:
        pass

    nothing[1, 1]().result()


WEIGHTS = np.arange(6, dtype=np.int32).reshape(2, 3)
MASK = np.array([True, False, True])
CURVE = np.linspace(0, 1, 5, dtype=np.float32)[::2]


def at(i):
    return WEIGHTS[i // 3, i % 3]


@vc.kernel
def weighted(out):
    i = vc.global_id(0)
    if i < out.size:
        half = at(i) / 2  # float32, as numbers in kernels
        out[i] = half + WEIGHTS.shape[1] + CURVE[i % 3] + WEIGHTS[-1, 0]
        for keep in MASK:
            if keep:
                out[i] += 1


def expected(n: int) -> np.ndarray[Any, Any]:
    i = np.arange(n)
    result = WEIGHTS[i // 3, i % 3] / 2 + WEIGHTS.shape[1] + CURVE[i % 3] + WEIGHTS[-1, 0] + MASK.sum()
    return result.astype(np.float32)


def test_arrays_from_outside_are_constant_tables(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    out = gpu.zeros(6)
    for change in (
        lambda: None,
        lambda: WEIGHTS.__setitem__((1, 0), 50),  # in place
        lambda: monkeypatch.setitem(globals(), "CURVE", np.arange(9, dtype=np.float32)),
        lambda: monkeypatch.setitem(globals(), "WEIGHTS", np.arange(9, dtype=np.int16).reshape(3, 3)),
        lambda: monkeypatch.setitem(globals(), "WEIGHTS", np.arange(6, dtype=np.int32).reshape(2, 3)),
    ):
        change()
        try:
            for _ in range(2):
                weighted(out)
        except vc.MissingFeature:
            continue  # the device has no small integers
        assert np.array_equal(out.numpy(), expected(6))
        simulated = np.zeros(6, np.float32)
        weighted.simulate(simulated)
        assert np.array_equal(simulated, expected(6))


def test_a_table_is_uploaded_once(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.arange(4, dtype=np.float32)

    @vc.kernel
    def look(out):
        out[vc.global_id(0)] = table[vc.global_id(0)] * 2

    out = gpu.zeros(4)
    with gpu.record() as graph:
        look[1, 4](out)
    for _ in range(2):
        graph.run()
        assert out.numpy().tolist() == [0, 2, 4, 6]
    look[1, 4](out)
    uploads: list[object] = []
    monkeypatch.setattr(type(out), "write", lambda *_: uploads.append(1))
    look[1, 4](out)
    assert not uploads


def test_tables_are_not_written(gpu: vc.Runtime) -> None:
    @vc.kernel
    def write(out):
        WEIGHTS[0, 0] = 1

    @vc.kernel
    def beyond(out):
        out[0] = WEIGHTS[2, 0]

    @vc.kernel
    def add(out):
        vc.atomic.add(WEIGHTS, (0, 0), 1)

    @vc.kernel(check_bounds=True)
    def checked(out):
        out[0] = WEIGHTS[out.size, 0]

    for kernel, message in [
        (write, "WEIGHTS is an array from outside of the kernel; pass it as an argument"),
        (add, "WEIGHTS is an array from outside of the kernel; pass it as an argument"),
        (beyond, "WEIGHTS has 2 elements along this axis; got 2"),
    ]:
        with pytest.raises(vc.KernelError, match=message):
            kernel(gpu.zeros(4))
        with pytest.raises(vc.KernelError, match=message):
            kernel.simulate(np.zeros(4))
    with pytest.raises(vc.KernelError, match=r"index \(4, 0\) is outside of WEIGHTS"):
        checked[1, 1](gpu.zeros(4)).result()
    with pytest.raises(vc.KernelError, match="WEIGHTS"):
        checked.simulate[1, 1](np.zeros(4, np.float32))


@pytest.mark.device_only
@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_only_arrays_of_the_host_go_to_the_device_of_the_result(gpu: vc.Runtime) -> None:
    host, result, total = np.ones(3, np.float32), gpu.zeros(3), gpu.zeros(())
    with vc.Runtime():
        vc.elementwise("x + 1")(host, out=result)
        vc.reduce("a + b", 0)(host, out=total)
    assert (result.tolist(), total.item()) == ([2, 2, 2], 3)
