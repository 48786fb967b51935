"""Tensors: types, sizes, both sides, and views that outlive them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.compat import kp
from vkcompute.core.lifetime import live_counts

TYPES = {
    "bool": "bool", "int32": "int", "uint32": "uint", "float32": "float", "float64": "double", "int16": "short",
    "uint16": "ushort", "int8": "char", "uint8": "uchar", "int64": "custom", "float16": "custom",
}  # fmt: skip


def test_a_tensor_is_float32_and_flat(mgr: kp.Manager) -> None:
    given = np.arange(6).reshape(2, 3)[:, ::-1]
    tensor = mgr.tensor(given)
    assert (tensor.data().dtype, tensor.data().tolist()) == (np.float32, [2, 1, 0, 5, 4, 3])
    assert (tensor.size(), len(tensor), tensor.data_type(), tensor.memory_type()) == (
        6,
        6,
        kp.DataTypes.float,
        kp.device,
    )
    assert mgr.tensor(2.5).data().tolist() == [2.5]


@pytest.mark.parametrize("name", TYPES)
def test_a_typed_tensor_keeps_its_type(any_mgr: kp.Manager, name: str) -> None:
    given = np.array([[0, 1], [1, 3]], name)
    tensor = any_mgr.tensor_t(given)
    any_mgr.sequence().eval(kp.OpSyncDevice([tensor]))
    tensor.data()[:] = 0
    any_mgr.sequence().eval(kp.OpSyncLocal([tensor]))
    assert tensor.data().dtype == given.dtype
    assert tensor.data().tolist() == given.ravel().tolist()
    assert tensor.data_type() is kp.DataTypes[TYPES[name]]


def test_types_that_no_tensor_holds(mgr: kp.Manager) -> None:
    with pytest.raises(TypeError, match="complex128"):
        mgr.tensor_t(np.zeros(3, complex))
    with pytest.raises(TypeError, match=r"kp\.MemoryTypes"):
        mgr.tensor([1.0], "device")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="at least one element"):
        mgr.tensor([])


def test_sizes_beyond_32_bits_are_not_wrapped(mgr: kp.Manager) -> None:
    n = 5 << 30
    if mgr.runtime.device.physical.max_allocation_bytes > n:
        pytest.skip("it would take that memory")
    with pytest.raises(vc.OutOfDeviceMemory) as caught:
        kp.Tensor(mgr, np.broadcast_to(np.uint8(0), (n,)), kp.device)
    assert caught.value.asked >= n


def test_enumerations_are_ints_and_names_of_the_module() -> None:
    assert [int(item) for item in (kp.device, kp.host, kp.storage, kp.deviceAndHost)] == [0, 1, 2, 3]
    assert kp.TensorTypes is kp.MemoryTypes
    assert str(kp.MemoryTypes.host) == "MemoryTypes.host"
    assert int(kp.DataTypes.uchar) == 9
    assert getattr(kp, "float") is kp.DataTypes.float  # noqa: B009  # no attribute that a checker knows of


def test_the_two_sides_are_apart_until_they_are_synced(mgr: kp.Manager) -> None:
    tensor = mgr.tensor([1, 2])
    mgr.sequence().eval(kp.OpSyncDevice([tensor]))
    tensor.data()[:] = [3, 4]
    assert tensor.primary.numpy().tolist() == [1, 2]
    mgr.sequence().eval(kp.OpSyncLocal([tensor]))
    assert tensor.data().tolist() == [1, 2]


@pytest.mark.parametrize("kind", [kp.host, kp.deviceAndHost])
def test_host_memory_has_one_side(any_mgr: kp.Manager, kind: kp.MemoryTypes) -> None:
    tensor = any_mgr.tensor([1, 2], memory_type=kind)
    assert tensor.memory_type() is tensor.tensor_type() is kind
    tensor.data()[1] = 5
    assert tensor.primary.numpy().tolist() == [1, 5]
    any_mgr.sequence().eval(kp.OpSyncDevice([tensor]))
    any_mgr.sequence().eval(kp.OpSyncLocal([tensor]))
    assert tensor.data().tolist() == [1, 5]


def test_storage_memory_is_the_devices_alone(any_mgr: kp.Manager) -> None:
    storage, seen = any_mgr.tensor([1, 2], tensor_type=kp.storage), any_mgr.tensor([0, 0])
    with pytest.raises(RuntimeError, match="storage"):
        storage.data()
    any_mgr.sequence().record(kp.OpSyncLocal([storage])).record(kp.OpCopy([storage, seen])).record(
        kp.OpSyncLocal([seen])
    ).eval()
    assert seen.data().tolist() == [1, 2]


def test_data_is_the_memory_itself(mgr: kp.Manager) -> None:
    tensor = mgr.tensor([1, 2, 3])
    first, second = tensor.data(), tensor.data()
    first[0] = 9
    first[1:] *= 2
    assert second.tolist() == [9, 4, 6]


@pytest.mark.usefixtures("clean_handles")
def test_data_outlives_its_tensor_and_its_manager() -> None:
    manager = kp.Manager()
    tensor = manager.tensor([1, 2, 3])
    kept = tensor.data()
    assert kept.base.is_init()
    del tensor
    gc.collect()
    assert kept.base.is_init()
    manager.destroy()
    assert not kept.base.is_init()
    kept[0] = 7
    assert kept.tolist() == [7, 2, 3]
    del kept


def test_a_destroyed_manager_holds_no_device_though_its_objects_live() -> None:
    gc.collect()
    before = live_counts()
    manager = kp.Manager()
    objects = [manager.tensor([1]), manager.image([1], 1, 1, 1), manager.algorithm(), manager.sequence(0, 3)]
    assert live_counts() != before
    manager.destroy()
    assert live_counts() == before
    del objects


@pytest.mark.usefixtures("clean_handles")
def n_buffers(manager: kp.Manager) -> int:
    """The number of open buffers, without staging memory for later transfers."""
    manager.runtime.wait()
    for release in manager.runtime.device.memory.release_callbacks:
        release()
    return live_counts().get("Buffer", 0)


def test_destroying_gives_the_memory_back() -> None:
    manager = kp.Manager()
    before = n_buffers(manager)
    tensors = [manager.tensor(np.zeros(100), kind) for kind in kp.MemoryTypes]
    assert n_buffers(manager) > before
    for tensor in tensors:
        tensor.destroy()
        tensor.destroy()
        assert not tensor.is_init()
        with pytest.raises(RuntimeError, match="destroyed"):
            tensor.data()
    assert n_buffers(manager) == before
    manager.destroy()
    manager.destroy()
    tensors[0].destroy()


def test_it_says_what_it_is(mgr: kp.Manager) -> None:
    tensor = mgr.tensor_t(np.zeros(3, np.int32))
    assert repr(tensor) == "<kp.Tensor of 3 int32, device>"
    tensor.destroy()
    assert "destroyed" in repr(tensor)
