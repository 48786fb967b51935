"""Tensors of Kompute 0.5: lists of float32, with and without device memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.compat import kp05 as kp
from vkcompute.core.lifetime import live_counts
from vkcompute.errors import KomputeError

FLOATS = st.floats(width=32, allow_nan=False)


@pytest.fixture(scope="module")
def mgr() -> Iterator[kp.Manager]:
    manager = kp.Manager()
    yield manager
    manager.destroy()


def list_like(tensor: kp.Tensor, model: list[float], at: int, other: float) -> None:
    """Asserts that the tensor acts as a list of these numbers."""
    assert tensor.data() == list(tensor) == model
    assert type(tensor.data()) is list
    assert list(reversed(tensor)) == model[::-1]
    assert len(tensor) == tensor.size() == len(model)
    assert tensor[at] == model[at]
    assert type(tensor[at]) is float
    assert (other in tensor) == (other in model)
    assert model[at] in tensor
    np.testing.assert_array_equal(tensor.numpy(), np.float32(model), strict=True)


@given(model=st.lists(FLOATS, min_size=1, max_size=9), data=st.data())
def test_it_is_as_a_list(mgr: kp.Manager, model: list[float], data: Any) -> None:
    tensor = kp.Tensor(model)
    created = data.draw(st.booleans())
    if created:
        mgr.eval_tensor_create_def([tensor])
    for _ in range(3):
        at, value = data.draw(st.integers(-len(model), len(model) - 1)), data.draw(FLOATS)
        list_like(tensor, model, at, value)
        if data.draw(st.booleans()):
            tensor[at] = model[at] = value
        else:
            model = data.draw(st.lists(FLOATS, min_size=len(model), max_size=len(model)))
            tensor.set_data(data.draw(st.sampled_from([model, np.float64(model), np.float32(model)])))
    list_like(tensor, model, 0, 0.5)
    if created:
        mgr.eval_tensor_sync_device_def([tensor])
        tensor.set_data([7.0] * len(model))
        mgr.eval_tensor_sync_local_def([tensor])
        list_like(tensor, model, 0, 0.5)
        mgr.destroy(tensor)
        list_like(tensor, model, 0, 0.5)


def test_what_it_takes() -> None:
    assert kp.Tensor(np.zeros((2, 3), np.int8)).data() == [0.0] * 6
    assert kp.Tensor(range(3)).data() == [0.0, 1.0, 2.0]
    assert 0.1 in kp.Tensor([0.1])  # although 0.1 is not a float32
    given = np.float32([1, 2])
    tensor = kp.Tensor(given)
    given[0] = 5
    tensor.numpy()[1] = 5
    tensor.data()[1] = 5
    assert tensor.data() == [1.0, 2.0]


def test_what_it_refuses() -> None:
    tensor = kp.Tensor([1.0, 2.0])
    with pytest.raises(IndexError):
        tensor[2]
    with pytest.raises(IndexError):
        tensor[2] = 1.0
    with pytest.raises(KomputeError, match="has 2 numbers; got 3"):
        tensor.set_data([1, 2, 3])
    with pytest.raises(ValueError, match="could not convert"):
        kp.Tensor("abc")
    with pytest.raises(TypeError, match=r"one of kp\.TensorTypes; got 0"):
        kp.Tensor([1], 0)  # type: ignore[arg-type]
    assert tensor.data() == [1.0, 2.0]


def test_types(mgr: kp.Manager) -> None:
    assert (kp.device, kp.staging, kp.storage) == tuple(kp.TensorTypes)
    assert kp.host is kp.TensorTypes.host is kp.staging
    assert kp.Tensor([1]).tensor_type() is kp.device
    for kind in kp.TensorTypes:
        tensor = mgr.build_tensor([3, 4], kind)
        assert tensor.tensor_type() is kind
        tensor[0] = 9
        mgr.eval_tensor_sync_local_def([tensor])
        assert tensor.data() == ([9, 4] if kind is kp.storage else [3, 4])


def test_storage_takes_part_in_copies(mgr: kp.Manager) -> None:
    one, stored, other = mgr.build_tensor([3, 4]), mgr.build_tensor([0, 0], kp.storage), mgr.build_tensor([0, 0])
    mgr.eval_tensor_copy_def([one, stored])
    mgr.eval_tensor_copy_def([stored, other])
    mgr.eval_tensor_sync_local_def([other])
    assert other.data() == [3, 4]


def test_mapping(mgr: kp.Manager) -> None:
    tensor = mgr.build_tensor([1, 2])
    tensor.set_data([3, 4])
    tensor.map_data_from_host()
    tensor.set_data([0, 0])
    tensor.map_data_into_host()
    assert tensor.data() == [3, 4]
    with pytest.raises(KomputeError, match="no memory on a device"):
        kp.Tensor([1]).map_data_from_host()


def test_destroying_gives_memory_back_at_once(mgr: kp.Manager) -> None:
    def n_buffers() -> int:
        gc.collect()
        mgr.current.require_open().wait()
        return live_counts().get("Buffer", 0)

    mgr.create_sequence()  # replaces the last anonymous sequence, and releases its tensors
    before = n_buffers()
    tensor = mgr.build_tensor([1, 2])
    mgr.create_sequence()
    assert n_buffers() > before
    mgr.destroy(tensor)
    assert n_buffers() == before
    assert tensor.data() == [1, 2]


def test_states(mgr: kp.Manager) -> None:
    tensor = kp.Tensor([1])
    assert not tensor.is_init()
    assert repr(tensor) == "<kp.Tensor of 1, device, not on a device>"
    mgr.eval_tensor_create_def([tensor])
    assert tensor.is_init()
    assert repr(tensor) == "<kp.Tensor of 1, device>"
    tensor.destroy()
    tensor.destroy()
    assert not tensor.is_init()
    with pytest.raises(KomputeError, match=r"pass it to Manager\.eval_tensor_create_def first"):
        mgr.eval_tensor_sync_local_def([tensor])
    with pytest.raises(KomputeError, match="at least one element"):
        mgr.eval_tensor_create_def([kp.Tensor([])])
