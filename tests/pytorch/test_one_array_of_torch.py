"""Tensors of the device under all interfaces: each takes them, and tensors take their arrays, without a copy."""

# ruff: noqa: ANN001, ANN201  # kernels, whose parameters have any type
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_steps
import numpy as np
import pytest
import torch
from array_steps import HOST, N

import vkcompute as vc
import vkcompute.compat.cupy as cp
import vkcompute.numpy as vnp
import vkcompute.torch
from vkcompute.compat import triton
from vkcompute.compat.numba import cuda
from vkcompute.compat.triton import language as tl
from vkcompute.runtime.memory.transfers import Transfers
from vkcompute.runtime.scheduling.task import Copy

pytestmark = pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning")


def step_of_torch(x: Any, a: float, b: float) -> None:
    x.mul_(a).add_(b)


STEPS: dict[str, Callable[[Any, float, float], Any]] = {
    "vc": array_steps.by_vc,
    "cupy": array_steps.by_cupy,
    "numba": array_steps.by_numba,
    "triton": array_steps.by_triton,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "vc": vnp.sum, "cupy": lambda x: cp.sum(cp.asarray(x))._array,
    "numba": lambda x: vnp.sum(cuda.as_cuda_array(x)), "triton": vnp.sum,
}  # fmt: skip


def managed(host: Any) -> Any:
    array = cuda.managed_array(host.shape, host.dtype)
    array[:] = host
    return array


OWNERS = {"vc": vnp.asarray, "cupy": cp.asarray, "numba": cuda.to_device, "managed": managed}


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of copies that are as large as the arrays, within the device or to and from the host."""
    noted: list[int] = []
    upload, download, copy = Transfers.upload, Transfers.download, Copy.__init__

    def note(nbytes: int) -> None:
        noted.extend([nbytes] if nbytes >= HOST.nbytes // 2 else [])

    monkeypatch.setattr(Transfers, "upload", lambda t, data, *to: (note(data.nbytes), upload(t, data, *to)))
    monkeypatch.setattr(Transfers, "download", lambda t, *at: (note(at[-1].nbytes), download(t, *at)))
    monkeypatch.setattr(Copy, "__init__", lambda t, parts, to: (note(to[2] - to[1]), copy(t, parts, to))[-1])
    return noted


@pytest.mark.parametrize("taker", STEPS)
def test_interfaces_take_tensors(taker: str, copied: list[int]) -> None:
    x = torch.from_numpy(HOST.copy()).to("vk")
    expected = HOST.copy()
    copied.clear()
    for k in range(6):  # each reads what the other has written, and overwrites what it reads
        step_of_torch(x, 2.0, 1.0)
        STEPS[taker](x, 0.5, float(k))
        expected = (2 * expected + 1) * 0.5 + k
    totals = FUNCTIONS[taker](x), x.sum()
    step_of_torch(x, 0.0, 5.0)
    last = FUNCTIONS[taker](x)
    assert copied == []
    assert [float(total) for total in totals] == [expected.sum()] * 2
    assert float(last) == 5 * N


@pytest.mark.parametrize("owner", OWNERS)
def test_tensors_take_the_arrays_of_interfaces(owner: str, copied: list[int]) -> None:
    x = OWNERS[owner](HOST)
    if owner == "managed" and not hasattr(x, "__cuda_array_interface__"):
        pytest.skip("the host does not see the memory of this device")
    own = STEPS.get(owner, STEPS["numba"])
    expected = HOST.copy()
    copied.clear()
    taken = vkcompute.torch.from_array(vnp.asarray(x))
    for k in range(6):
        own(x, 2.0, 1.0)
        step_of_torch(taken, 0.5, float(k))
        expected = (2 * expected + 1) * 0.5 + k
    total = taken.sum()
    own(x, 0.0, 5.0)
    assert copied == []
    assert float(total) == expected.sum()
    assert bool((taken == 5).all())


@pytest.mark.parametrize("owner", OWNERS)
def test_an_update_in_place_is_one_launch(owner: str) -> None:
    x = OWNERS[owner](HOST)
    taken = vkcompute.torch.from_array(vnp.asarray(x))
    if owner == "managed" and not hasattr(x, "__cuda_array_interface__"):
        pytest.skip("the host does not see the memory of this device")
    with vc.default_runtime().profile() as profile:
        taken.mul_(2).add_(1)
        torch.sub(taken, 3, out=taken)
        taken.clamp_(max=9)
    assert len(profile.tasks) == 4
    assert np.array_equal(taken.cpu().numpy(), (HOST * 2 - 2).clip(max=9))


@pytest.mark.parametrize("owner", OWNERS)
def test_updates_in_place_after_what_reads_the_memory(owner: str) -> None:
    x = OWNERS[owner](HOST)
    taken, host = vkcompute.torch.from_array(vnp.asarray(x)), torch.from_numpy(HOST.copy())
    results: list[list[Any]] = []
    for t in (taken, host):
        other = torch.arange(N, device=t.device) * 0.5
        before = t * 2 + 1
        mean = t.mean()
        t.copy_(other)
        t.sub_(t.mean()).add_(mean)
        t[1:].add_(t[:1].expand(N - 1))
        middle = t + other
        t.mul_(t[5:6].clone()).clamp_(min=-4)
        t[::2].mul_(t[1::2])
        t.floor_().abs_()
        results.append([before, other, middle, t.clone(), t])
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours.cpu(), theirs, rtol=1e-4, atol=1e-3)


def test_the_host_writes_after_an_update_in_place() -> None:
    m = managed(HOST)
    if not hasattr(m, "__cuda_array_interface__"):
        pytest.skip("the host does not see the memory of this device")
    taken = vkcompute.torch.from_array(vnp.asarray(m))
    for k in range(3):
        m[:] = k
        later = taken * 3
        taken.mul_(2).add_(1)
        assert (m == 2 * k + 1).all()
        doubled = torch.add(taken, taken)
        m[:] = -1
        assert bool((later == 3 * k).all())
        assert bool((doubled == 4 * k + 2).all())


def test_chunks_of_dask_are_tensors(copied: list[int]) -> None:
    dask_array = pytest.importorskip("dask.array")
    import vkcompute.dask  # registers the chunks

    x = torch.from_numpy(HOST.copy()).to("vk")
    chunks = dask_array.Array({("x", 0): vnp.asarray(x)}, "x", ((N,),), meta=vnp.zeros(0, np.float32))
    copied.clear()

    def changed(block: Any) -> Any:
        if block.size:
            step_of_torch(vkcompute.torch.from_array(block), 2.0, 3.0)
        return block

    chunks.map_blocks(changed, dtype=np.float32).persist(scheduler="synchronous")
    assert copied == []
    assert np.array_equal(x.cpu().numpy(), HOST * 2 + 3)


def test_pytorch_refuses_the_interface_of_ours_with_a_sentence() -> None:
    for x in (cp.asarray(HOST), cuda.to_device(HOST)):
        with pytest.raises(TypeError, match="an integer is required"):
            torch.as_tensor(x, device="cuda")
    with pytest.raises((TypeError, AttributeError), match="non-CUDA tensor"):
        torch.ones(2, device="vk").__cuda_array_interface__  # noqa: B018


def test_pytorch_takes_arrays_by_dlpack() -> None:
    if not vc.default_runtime().device.memory.unified:
        pytest.skip("the host does not see the memory of this device")
    x = vnp.asarray(HOST)
    tensor = torch.from_dlpack(x)
    tensor += 1
    assert np.array_equal(x.numpy(), HOST + 1)


@triton.jit
def widened(x_ptr, out_ptr, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(tl.float32))


def test_reinterpreted_tensors_are_arguments_of_block_programs() -> None:
    bits, out = torch.arange(64, dtype=torch.uint8), torch.zeros(64, device="vk")
    on_device = bits.to("vk")
    for _ in range(3):  # later launches have a plan
        widened[(1,)](triton.reinterpret(on_device, tl.float8e5), out.zero_(), 64)
        torch.testing.assert_close(out.cpu(), bits.view(torch.float8_e5m2).float(), rtol=0, atol=0)
