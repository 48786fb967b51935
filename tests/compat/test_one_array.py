"""One array under all interfaces: each takes the arrays of each other without a copy, and hazards order their work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import array_steps
import numpy as np
import pytest
from array_steps import HOST, N, step_of_numba, step_of_vc

import vkcompute as vc
import vkcompute.compat.cupy as cp
import vkcompute.numpy as vnp
from vkcompute.compat.numba import cuda, guvectorize, vectorize
from vkcompute.runtime.memory.transfers import Transfers
from vkcompute.runtime.scheduling.task import Copy

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("gpu"),
]
STEPS = 6


total_of_numba = cuda.reduce(lambda a, b: a + b)


def numba_total(x: Any) -> Any:
    result = cuda.device_array(1, np.float32)
    total_of_numba(x, res=result)
    return result


def of_dask(x: Any) -> Any:
    """Returns an array of Dask, whose two chunks are views of this one; its own `from_array` copies once."""
    dask_array = pytest.importorskip("dask.array")
    import vkcompute.dask  # noqa: F401  # registers the chunks

    array = vnp.asarray(x)
    chunks = {("x", k): array[k * N // 2 : (k + 1) * N // 2] for k in range(2)}
    return dask_array.Array(chunks, "x", ((N // 2, N // 2),), meta=vnp.zeros(0, np.float32))


def step_of_dask(x: Any, a: float, b: float) -> None:
    def changed(block: Any) -> Any:
        if block.size:  # Dask asks for the type of the result
            array_steps.by_vc(block, a, b, block.size)
        return block

    x.map_blocks(changed, dtype=np.float32).persist(scheduler="synchronous")  # chunks are not joined


class Interface(NamedTuple):
    """Functions of an interface.

    Attributes:
        take: takes the array of another, without a copy.
        step: x = a * x + b in place, by a kernel, without a wait.
        total: the sum, which is not waited for.
    """

    take: Callable[[Any], Any]
    step: Callable[[Any, float, float], Any]
    total: Callable[[Any], Any]


def given(x: Any) -> Any:
    return x


BY_VC = Interface(vnp.asarray, array_steps.by_vc, vnp.sum)
BY_CUPY = Interface(cp.asarray, array_steps.by_cupy, cp.sum)
BY_NUMBA = Interface(cuda.as_cuda_array, array_steps.by_numba, numba_total)
BY_TRITON = Interface(given, array_steps.by_triton, vnp.sum)
BY_DASK = Interface(of_dask, step_of_dask, lambda x: x.sum().compute(scheduler="synchronous"))
TAKERS = {
    "vc": BY_VC, "cupy": BY_CUPY, "numba": BY_NUMBA, "triton": BY_TRITON, "dask": BY_DASK,
    "vc, unchanged": BY_VC._replace(take=given), "numba, unchanged": BY_NUMBA._replace(take=given),
    "cupy, unchanged": BY_CUPY._replace(take=given),
}  # fmt: skip
"""Those that take an array unchanged pass that of the other interface to their kernels and functions."""


class Foreign:
    """An object of which only `__cuda_array_interface__` is known."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def filled(make: Callable[..., Any]) -> Callable[[Any], Any]:
    def made(host: Any) -> Any:
        array = make(host.shape, host.dtype)
        array[:] = host
        return array

    return made


def chunk(host: Any) -> Any:
    dask_array = pytest.importorskip("dask.array")
    import vkcompute.dask  # noqa: F401  # registers the chunks

    made = dask_array.from_array(host, chunks=N).to_backend("vkcompute").compute(scheduler="synchronous")
    assert type(made) is vc.Array
    return made


OWNERS = {
    "vc": (vnp.asarray, BY_VC), "cupy": (cp.asarray, BY_CUPY), "numba": (cuda.to_device, BY_NUMBA),
    "a chunk of Dask": (chunk, BY_VC), "mapped": (filled(cuda.mapped_array), BY_NUMBA),
    "managed": (filled(cuda.managed_array), BY_NUMBA),
}  # fmt: skip
"""Name of an array's kind -> what makes one, and the interface of its own work."""


@contextmanager
def counted_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Collects the bytes of copies that are as large as the arrays, within the device or to and from the host."""
    copied: list[int] = []
    upload, download, copy = Transfers.upload, Transfers.download, Copy.__init__

    def note(nbytes: int) -> None:
        copied.extend([nbytes] if nbytes >= HOST.nbytes // 2 else [])

    with monkeypatch.context() as patch:
        patch.setattr(Transfers, "upload", lambda t, data, *to: (note(data.nbytes), upload(t, data, *to)))
        patch.setattr(Transfers, "download", lambda t, *at: (note(at[-1].nbytes), download(t, *at)))
        patch.setattr(Copy, "__init__", lambda t, parts, to: (note(to[2] - to[1]), copy(t, parts, to))[-1])
        yield copied


def number(total: Any) -> float:
    """Returns a sum of any interface as a number."""
    return float(np.ravel(total.copy_to_host() if hasattr(total, "copy_to_host") else vnp.asarray(total).numpy())[0])


def test_copies_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    x = vnp.asarray(HOST)
    with counted_copies(monkeypatch) as copied:
        vnp.asarray(HOST).numpy()
        x.copy_from(vnp.asarray(HOST[::-1].copy()))
    assert len(copied) >= 4


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("owner", OWNERS)
def test_pairs_of_interfaces_share_an_array(owner: str, taker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, own = OWNERS[owner]
    other = TAKERS[taker]
    x = make(HOST)
    if owner in ("mapped", "managed") and not hasattr(x, "__cuda_array_interface__"):
        pytest.skip("the host does not see the memory of this device")
    expected = HOST.copy()
    with counted_copies(monkeypatch) as copied:
        taken = other.take(x)
        for k in range(STEPS):  # each reads what the other has written, and overwrites what it reads
            own.step(x, 2.0, 1.0)
            other.step(taken, 0.5, float(k))
            expected = (2 * expected + 1) * 0.5 + k
        totals = [other.total(taken), own.total(x)]
        own.step(x, 0.0, 5.0)
        last = other.total(taken)
    assert copied == []
    assert [number(total) for total in totals] == [expected.sum()] * 2
    assert number(last) == 5 * N
    assert (cuda.as_cuda_array(x).copy_to_host() == 5).all()


@pytest.mark.parametrize("owner", ["cupy", "numba", "mapped", "managed"])
@pytest.mark.parametrize("taker", ["cupy", "numba"])
def test_the_interface_alone_passes_arrays_among_ours(owner: str, taker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, own = OWNERS[owner]
    x = make(HOST)
    if not hasattr(x, "__cuda_array_interface__"):
        pytest.skip("the host does not see the memory of this device")
    with counted_copies(monkeypatch) as copied:
        own.step(x, 1.0, 4.0)
        taken = TAKERS[taker].take(Foreign(x))
        TAKERS[taker].step(taken, 2.0, 0.0)
        own.step(x, 1.0, 1.0)
    assert copied == []
    assert np.array_equal(cuda.as_cuda_array(taken).copy_to_host(), (HOST + 4) * 2 + 1)
    step_of_numba[N // 128, 128](Foreign(x), 0.0, 3.0)
    assert number(cp.sum(Foreign(x))) == 3 * N


@pytest.mark.parametrize("owner", ["cupy", "numba", "mapped", "managed"])
def test_others_refuse_the_interface_with_a_sentence(owner: str) -> None:
    x = OWNERS[owner][0](HOST)
    if not hasattr(x, "__cuda_array_interface__"):
        pytest.skip("the host does not see the memory of this device")
    description = x.__cuda_array_interface__
    address, is_read_only = description["data"]
    assert (description["shape"], description["typestr"], description["version"], is_read_only) == (
        (N,), "<f4", 3, False,
    )  # fmt: skip
    for use in (int, hex, lambda number: number.__index__(), lambda number: [0][number]):
        with pytest.raises(TypeError, match=r"Vulkan device.*no address that CUDA's libraries take.*DLPack"):
            use(address)
    assert address == cuda.as_cuda_array(x).__cuda_array_interface__["data"][0] == cp.asarray(x).data.ptr
    assert cuda.as_cuda_array(x)[3:].__cuda_array_interface__["data"][0] - address == 12
    moved = {**description, "shape": (2,), "data": (address + 12, False)}
    assert cuda.from_cuda_array_interface(moved).copy_to_host().tolist() == [0, 1]


def test_memory_of_others_is_refused_with_a_sentence() -> None:
    class Theirs:
        def __init__(self) -> None:
            described = {"shape": (4,), "strides": None, "typestr": "<f4", "data": (0x7F0000000000, False)}
            self.__cuda_array_interface__ = {**described, "version": 3}

    for take in (cuda.as_cuda_array, lambda x: step_of_numba[1, 4](x, 1.0, 1.0)):
        with pytest.raises(ValueError, match="memory of another library"):
            take(Theirs())
    for take in (cp.asarray, cp.sum):
        with pytest.raises(TypeError, match="CUDA's memory, which no Vulkan device reads"):
            take(Theirs())


@pytest.mark.parametrize("owner", OWNERS)
def test_the_rest_take_arrays_by_dlpack(owner: str) -> None:
    x = OWNERS[owner][0](HOST)
    array = vnp.asarray(x)
    if not array.runtime.device.memory.unified:
        with pytest.raises(BufferError, match="not host-visible"):
            np.from_dlpack(array)
        return
    host = np.from_dlpack(x if hasattr(x, "__dlpack__") else array)
    step_of_vc[N // 64, 64](x, 1.0, 1.0)
    array.runtime.wait()
    assert np.array_equal(host, HOST + 1)
    assert np.array_equal(cp.from_dlpack(host).get(), HOST + 1)


def test_mapped_arrays_are_arrays_of_the_host_and_of_the_device(gpu: vc.Runtime) -> None:
    x = cuda.mapped_array((3, 4), np.int32, order="F")
    assert isinstance(x, np.ndarray)
    assert (x.flags.f_contiguous, x.strides) == (True, (4, 12))
    x[...] = np.arange(12).reshape(3, 4)
    step_of_numba[1, 4](x[1], 2, 1)  # without synchronize(), as a launch waits for the host's arrays
    assert x.tolist() == [[0, 1, 2, 3], [9, 11, 13, 15], [8, 9, 10, 11]]
    assert type(x + 1) is np.ndarray
    assert x.sum() == 92
    if gpu.device.memory.unified:
        y = cp.asarray(x)
        y *= 2
        cuda.synchronize()
        assert x[0].tolist() == [0, 2, 4, 6]
        x[0, 0] = 7
        assert int(y[0, 0]) == 7
        assert cuda.to_device(x).copy_to_host()[0, 0] == 7
    backwards = cuda.mapped_array(3, np.int32, strides=(-8,))
    backwards[:] = 1, 2, 3
    step_of_numba[1, 3](backwards, 1, 1)
    assert backwards.tolist() == backwards.copy_to_host().tolist() == [2, 3, 4]
    assert not hasattr(cuda.mapped_array(0), "__cuda_array_interface__")


def test_launches_copy_mapped_arrays_that_only_the_host_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transfers, "lend", lambda *where: None)
    x = cuda.mapped_array(3, np.int32, strides=(-8,))
    x[:] = 1, 2, 3
    step_of_numba[1, 3](x, 2, 1)
    assert x.tolist() == cp.asarray(x).tolist() == [3, 5, 7]
    with pytest.raises(AttributeError, match="only the host sees; copy it"):
        x.__cuda_array_interface__  # noqa: B018


@pytest.mark.parametrize(
    "changes", [{"typestr": ">f4"}, {"typestr": "<M8[s]", "shape": (8,)}, {"typestr": "|V2", "shape": (8,)}]
)
def test_dtypes_that_arrays_lack_are_refused_in_descriptions(changes: dict[str, Any]) -> None:
    array = Foreign(cp.asarray(HOST))
    array.__cuda_array_interface__ |= changes
    with pytest.raises(TypeError, match="an array's dtype must be one of"):
        cuda.as_cuda_array(array)


def test_what_reads_a_mapped_array_sees_it_as_it_was() -> None:
    @vectorize(["float32(float32, float32)"], target="cuda")
    def add(x, y):
        return x + y

    @guvectorize(["(float32[:], float32, float32[:])"], "(n),()->(n)", target="cuda")
    def plus(x, y, out):
        for i in range(x.size):
            out[i] = x[i] + y

    x = cuda.mapped_array(N, np.float32)
    copy, copied = (cuda.device_array(N, np.float32) for _ in range(2))
    out = cuda.mapped_array(N, np.float32)
    calls: list[Callable[[], Any]] = [
        lambda: copy.copy_to_device(x) or copy, lambda: copied.__setitem__(slice(None), x) or copied,
        lambda: add(x, x), lambda: add(x, x, out=out), lambda: plus(x, 2), lambda: vnp.add(x, 1), lambda: cp.array(x),
    ]  # fmt: skip
    for call, expected in zip(calls, (3, 3, 6, 6, 5, 4, 3), strict=True):
        x[:] = 3
        result = call()
        x[:] = 50
        assert np.array_equal(np.asarray(cp.asnumpy(result)), np.full(N, expected, np.float32))
    x[:] = 3
    assert add(x, x, out=out).copy_to_host().tolist() == np.asarray(out).tolist() == [6] * N
