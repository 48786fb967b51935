"""Memory that the host may write without a call of the library: results have the elements of the time of the call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.compat.cupy as cp
import vkcompute.numpy as vnp
from vkcompute.compat.numba import cuda
from vkcompute.core.buffer import Buffer

pytestmark = pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
N = 40_000
HOST = (np.arange(N, dtype=np.float32) * 7 % 23)[::-1]
Values = Any


def add_in_place(m: Values) -> None:
    m += 1


def assign(m: Values) -> None:
    m[...] = 9


def assign_flat(m: Values) -> None:
    m.flat = 9


def assign_real(m: Values) -> None:
    m.real = 9


WRITES: dict[str, Callable[[Values], object]] = {
    "m += 1": add_in_place, "m[...] = 9": assign, "m.flat = 9": assign_flat, "m.real = 9": assign_real,
    "out=": lambda m: np.add(m, 1, out=m), "fill": lambda m: m.fill(9), "sort": lambda m: m.sort(),
    "partition": lambda m: m.partition(5), "put": lambda m: m.put(range(N), 9), "a view": lambda m: assign(m[2:].T),
    "byteswap": lambda m: m.byteswap(inplace=True), "an ordinary view": lambda m: assign(np.asarray(m)),
    "memoryview": lambda m: assign(np.asarray(memoryview(m))), "copyto": lambda m: np.copyto(m, 9),
    "frombuffer": lambda m: assign(np.frombuffer(m, np.uint8)), "ufunc.at": lambda m: np.add.at(m, slice(None), 1),
    "random": lambda m: np.random.default_rng(0).random(out=m, dtype=np.float32),
    "shuffle": lambda m: np.random.default_rng(0).shuffle(m), "DLPack": lambda m: assign(np.from_dlpack(m)),
    "an address": lambda m: ctypes.memset(m.ctypes.data, 0, m.nbytes),
}  # fmt: skip
READS: list[Callable[[Any, Values], Any]] = [
    lambda xp, m: xp.add(m, 1), lambda xp, m: xp.multiply(xp.add(m, 1), 2), lambda xp, m: xp.sort(m),
    lambda xp, m: xp.sum(m), lambda xp, m: xp.cumsum(m), lambda xp, m: xp.flip(m) - 1, lambda xp, m: xp.copy(m),
    lambda xp, m: xp.where(m > 3, m, 0),
]  # fmt: skip


def mapped(gpu: vc.Runtime) -> tuple[Values, Values]:
    made = cuda.mapped_array(N, np.float32)
    return made, made


def shared(gpu: vc.Runtime) -> tuple[Values, Values]:
    if not gpu.device.memory.unified:
        pytest.skip("the host does not see the memory of the device")
    array = gpu.array(np.zeros(N, np.float32))
    return array, np.from_dlpack(array)


@pytest.mark.parametrize("make", [mapped, shared])
@pytest.mark.parametrize("write", WRITES)
def test_the_host_writes_after_what_reads_the_memory(
    gpu: vc.Runtime, make: Callable[[vc.Runtime], tuple[Values, Values]], write: str
) -> None:
    operand, host = make(gpu)
    for read in READS:
        host[:] = HOST
        result = read(vnp, operand)
        WRITES[write](host)
        assert np.allclose(result.numpy(), read(np, HOST), rtol=1e-4), write


@pytest.mark.parametrize("times", range(4))  # from the second on by plans
def test_the_host_sees_what_wrote_to_the_memory(gpu: vc.Runtime, times: int) -> None:
    m = cuda.mapped_array(N, np.float32)
    view = np.asarray(m)
    for number in range(times + 1):
        device = cuda.as_cuda_array(m).array
        vnp.add(device, number + 1, out=device)
        assert (view == (number + 1) * (number + 2) / 2).all()
        device[::2] = number
        assert (view[::2] == number).all()
        device.fill((number + 1) * (number + 2) / 2)
        assert (view == (number + 1) * (number + 2) / 2).all()


def test_a_mapped_array_in_lazy_chains_of_cupy_and_a_graph(gpu: vc.Runtime) -> None:
    m = cuda.mapped_array(N, np.float32)

    @vc.graph
    def doubled(x: Any) -> Any:
        return x * 2 + 1

    for number in range(4):
        m.fill(number)
        results = [cp.asarray(m) * 2 + 1, vnp.asarray(m) * 2 + 1, doubled(vnp.asarray(m))]
        m.fill(-1)
        assert all((cp.asnumpy(result) == 2 * number + 1).all() for result in results)


def test_work_is_lazy_again_once_no_view_exists(gpu: vc.Runtime) -> None:
    array, host = shared(gpu)
    other = np.from_dlpack(array)
    for _ in range(3):
        assert not (array + 1).is_pending
    del host
    assert not (array + 1).is_pending
    del other
    for _ in range(3):
        assert (array + 1).is_pending
    assert (array + 1).numpy().tolist() == [1] * N


def test_views_are_lent_after_what_is_to_read_the_memory_is_computed(gpu: vc.Runtime) -> None:
    array = gpu.array(HOST)
    results = [array + 1, vnp.sum(array + 1), (array[::2] + 1) * 2]
    if not gpu.device.memory.unified:
        pytest.skip("the host does not see the memory of the device")
    host = np.from_dlpack(array)
    host[:] = 0
    for result, expected in zip(results, (HOST + 1, (HOST + 1).sum(), (HOST[::2] + 1) * 2), strict=True):
        assert np.allclose(result.numpy(), expected)


def test_memory_is_lent_while_another_thread_asks_for_it(gpu: vc.Runtime) -> None:
    buffer, owner = gpu.array(HOST).buffer, pytest.fixture  # any object

    def lend() -> None:
        buffer.borrowers = []
        buffer.add_borrower(owner)

    buffer.borrowers = [cast("Any", lend)]  # as another thread, between the steps of the next line
    assert not buffer.is_lent
    assert buffer.is_lent


def test_results_are_complete_where_another_thread_has_launched_them(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    array, host = shared(gpu)
    add = Buffer.add_reader

    def add_and_compute(buffer: Buffer, reader: Any) -> bool:
        is_lent = add(buffer, reader)
        with gpu.device.lock:
            buffer.compute_readers()  # as another thread that lends the memory, before it waits
        return is_lent

    monkeypatch.setattr(Buffer, "add_reader", add_and_compute)
    for number in range(4):  # from the second on by plans
        host[:] = number
        result = array + 1
        assert not gpu.scheduler.is_ahead
        host[:] = 0
        assert (result.numpy() == number + 1).all()
