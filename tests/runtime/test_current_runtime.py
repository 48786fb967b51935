"""The runtime of arrays that are made without a device."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.runtime import runtime as module


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[vc.Runtime, vc.Runtime]]:
    """Two open runtimes that no `with` has entered."""
    with closing(vc.Runtime()) as one, closing(vc.Runtime()) as other:
        yield one, other


@pytest.fixture
def default(pair: tuple[vc.Runtime, vc.Runtime]) -> Iterator[vc.Runtime]:
    """The second of them as the default."""
    before = [*module._default]
    vc.set_default_runtime(pair[1])
    yield pair[1]
    module._default[:] = before


Pair = tuple[vc.Runtime, vc.Runtime]


def test_arrays_are_made_on_the_only_open_runtime(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "contexts", lambda: [pair[0]])
    assert vnp.zeros(3).device is pair[0]
    assert (pair[0].array([1.0, 2.0, 3.0]) + vnp.ones(3)).tolist() == [2, 3, 4]
    assert vnp.random.default_rng(1).random(2).device is pair[0]


def test_of_several_open_runtimes_the_default_is_used(pair: Pair, default: vc.Runtime) -> None:
    assert vc.default_runtime() is default
    for made in (vnp.zeros(3), vnp.asarray([1.0]), vnp.sin([1.0]), vnp.arange(3), vnp.mgrid[0:2], vnp.r_[0:2]):
        assert made.device is default


def test_a_default_must_be_an_open_runtime(pair: Pair, default: vc.Runtime) -> None:
    with pytest.raises(TypeError, match=r"^the default is a Runtime, as vc.Runtime\(\) opens one, or None; got 'gpu'$"):
        vc.set_default_runtime("gpu")  # type: ignore[arg-type]
    gone = vc.Runtime()
    vc.set_default_runtime(gone)
    gone.close()
    with pytest.raises(vc.ClosedError):
        vc.set_default_runtime(gone)
    assert vc.default_runtime() is not gone
    vc.default_runtime().close()


def test_operands_come_before_the_default(pair: Pair, default: vc.Runtime) -> None:
    x = pair[0].array(np.arange(3, dtype=np.float32))
    made = {
        "zeros_like": vnp.zeros_like(x), "ones_like": vnp.ones_like(x), "full_like": vnp.full_like(x, 2),
        "empty_like": vnp.empty_like(x), "NumPy's": np.zeros(3, like=x), "like": vnp.full(3, 2, like=x),
        "a list": x * [1, 2, 3], "r_": vnp.r_[0:3, x, [1, 2]], "asarray": vnp.asarray(x),
        "arange": np.arange(3, like=x),
        "logspace": vnp.logspace(x, 2, 3), "power": vnp.linalg.matrix_power(vnp.ones((2, 2), like=x), 0),
    }  # fmt: skip
    assert {name: item.device for name, item in made.items()} == dict.fromkeys(made, pair[0])
    with pytest.raises(TypeError, match=r"^zeros: like is a device array, or None; got list$"):
        vnp.zeros(3, like=[1])


def test_with_comes_before_operands_and_the_default(pair: Pair, default: vc.Runtime) -> None:
    x = pair[0].array(np.arange(3, dtype=np.float32))
    with vc.Runtime() as outer, ExitStack() as stack:
        assert vnp.zeros(3).device is outer
        inner = stack.enter_context(vc.Runtime())
        assert vnp.zeros(3).device is vnp.zeros_like(x).device is np.zeros(3, like=x).device is inner
        assert (x * [1, 2, 3]).device is vnp.asarray(x).device is vnp.r_[0:3, x].device is pair[0]
        assert vnp.zeros(3, device=outer).device is outer
        inner.close()
        assert vnp.zeros(3).device is outer
    assert vnp.zeros(3).device is default


def test_a_recording_makes_arrays_on_its_runtime(pair: Pair, default: vc.Runtime) -> None:
    x = pair[0].array(np.arange(3, dtype=np.float32))
    out = pair[0].zeros(3)
    with pair[0].record(x=x) as graph:
        out.copy_from(graph["x"] + vnp.asarray(1.0))
        assert vnp.zeros_like(x).device is pair[0]
    assert vnp.zeros(3).device is default
    graph.run()
    assert out.tolist() == [1, 2, 3]


def test_another_thread_is_outside_of_the_block(pair: Pair, default: vc.Runtime) -> None:
    made = []
    with vc.Runtime():
        thread = threading.Thread(target=lambda: made.append(vnp.zeros(3).device))
        thread.start()
        thread.join()
    assert made == [default]


def test_arrays_of_two_runtimes_are_refused_with_a_remedy(pair: Pair) -> None:
    remedy = r"make all on one with device=gpu or vc\.set_default_runtime\(gpu\), or copy one with gpu\.array\(x\)$"
    one, other = pair[0].zeros((2, 2)), pair[1].zeros((2, 2))
    with pytest.raises(ValueError, match=r"^add: the arrays are of two runtimes, both on .+; " + remedy):
        one + other
    with pytest.raises(ValueError, match=r"^matmul: the arrays are of two runtimes, both on .+; " + remedy):
        one @ other


def test_a_group_enters_none_of_its_runtimes(pair: Pair, default: vc.Runtime) -> None:
    with vc.DeviceGroup([0]):
        assert vnp.zeros(3).device is default
