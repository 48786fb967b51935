"""Training on several devices equals training on one, and numpy, however the rows are divided."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logistic_oracle import Fit, descent, fit
from runtimes import needs_shaders, open_runtime
from test_logistic_training import random_table

import vkcompute as vc
from vkcompute.core import vk
from vkcompute.pipelines.logistic import table
from vkcompute.runtime.groups.balance import learned

pytestmark = pytest.mark.devices

WIDTHS = (1, 2, 7, 32, 33, 70)
SHARES = st.sampled_from([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (1.0, 0.001), (0.2, 0.8)])


def assert_close(model: vc.LogisticRegression, other: vc.LogisticRegression | Fit) -> None:
    """To 1e-5, relative; the oracle's own bounds, which are proven, get large after many steps."""
    if isinstance(other, Fit):
        coef, intercept, losses = other.coef, other.intercept, other.losses
    else:
        coef, intercept, losses = other.coef_[0], other.intercept_[0], other.loss_curve_
    atol = 1e-6 * max(1.0, float(np.abs(coef).max()))
    np.testing.assert_allclose(model.coef_[0], coef, rtol=1e-5, atol=atol)
    np.testing.assert_allclose(model.intercept_[0], intercept, rtol=1e-5, atol=atol)
    np.testing.assert_allclose(model.loss_curve_, losses, rtol=1e-5)


@given(data=st.data())
def test_equals_numpy_and_one_device(two_runtimes: list[vc.Runtime], data: st.DataObject) -> None:
    draw = data.draw
    n, d = draw(st.integers(2, 3000), "rows"), draw(st.sampled_from(WIDTHS), "features")
    X, y = random_table(n, d, draw(st.integers(0, 2**32), "seed"), draw(st.sampled_from([0.1, 1.0]), "scale"))
    params: dict[str, Any] = {
        "learning_rate": draw(st.sampled_from([0.01, 0.1]), "rate"),
        "alpha": draw(st.sampled_from([0.0, 0.03, 1.0]), "alpha"),
        "max_iter": draw(st.integers(1, 12), "epochs"),
        "fit_intercept": draw(st.booleans(), "intercept"),
        "batch_size": draw(st.none() | st.integers(max(1, n // 9), n + 3), "batch_size"),
        "random_state": draw(st.integers(0, 99), "order"),
    }
    weight = None
    if draw(st.booleans(), "weighted"):
        weight = np.random.default_rng(n).integers(0, 4, n).astype(float)
        weight[:2] = 1
    with vc.DeviceGroup(two_runtimes) as group:
        group.weights = draw(SHARES, "shares")
        model = descent(device=group, **params).fit(X, y, sample_weight=weight)
    assert_close(model, fit(X, y, sample_weight=weight, **params))
    assert_close(model, descent(device=two_runtimes[0], **params).fit(X, y, sample_weight=weight))
    assert model.n_iter_ == params["max_iter"]


@pytest.mark.parametrize("batch_size", [None, 37, 700])
@pytest.mark.parametrize("d", [3, 40])
def test_parts_in_many_chunks(
    group: vc.DeviceGroup, monkeypatch: pytest.MonkeyPatch, d: int, batch_size: int | None
) -> None:
    monkeypatch.setattr(table, "chunk_limit_nbytes", lambda _: 100 * d * 4)
    X, y = random_table(999, d, 5)
    params: dict[str, Any] = {"max_iter": 3, "alpha": 0.1, "batch_size": batch_size, "random_state": 3}
    model = descent(device=group, **params).fit(X, y)
    assert_close(model, fit(X, y, **params))


def test_the_table_is_divided_anew_where_one_device_is_slow(
    group: vc.DeviceGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_shaders(group.runtimes[0])
    uploads: list[int] = []
    upload = table.upload

    def noted(runtime: vc.Runtime, X: Any, *rest: Any) -> Any:
        uploads.append(len(X))
        return upload(runtime, X, *rest)

    monkeypatch.setattr("vkcompute.pipelines.logistic.sharded.upload", noted)
    seconds = iter([[1.0, 9.0], [1.0, 1.0]])
    monkeypatch.setattr(
        "vkcompute.runtime.groups.group.learned",
        lambda shares, rows, _, n_before: learned(shares, rows, next(seconds), n_before),
    )
    X, y = random_table(1000, 2, 6)
    group.weights = (1, 1)
    model = descent(max_iter=20, device=group).fit(X, y)
    assert uploads == [500, 500, 900, 100]
    assert_close(model, fit(X, y, max_iter=20))
    descent(max_iter=20, device=group).fit(X, y)
    assert uploads[4:] == [900, 100], "9 : 1 is what both take equally long for"


@pytest.mark.parametrize("d", [2, 50])
def test_it_stops_where_one_device_stops(group: vc.DeviceGroup, d: int) -> None:
    X, y = random_table(600, d, 8)
    params: dict[str, Any] = {"learning_rate": 0.5, "tol": 1e-3, "max_iter": 500}
    model = descent(device=group, **params).fit(X, y)
    one = descent(device=group.runtimes[0], **params).fit(X, y)
    assert abs(model.n_iter_ - one.n_iter_) <= 1, "a loss at the limit is rounded to one side or the other"
    assert 5 < model.n_iter_ < 500
    n = min(len(model.loss_curve_), len(one.loss_curve_))
    np.testing.assert_allclose(model.loss_curve_[:n], one.loss_curve_[:n], rtol=1e-5)


@pytest.mark.filterwarnings("error")
def test_loss_that_overflows_is_an_error(group: vc.DeviceGroup) -> None:
    X, y = random_table(100, 2, 9)
    with pytest.raises(ValueError, match="under-/overflow occurred at epoch #"):
        descent(learning_rate=1e30, max_iter=50, device=group).fit(X * 1e8, y)


def test_a_fit_goes_on_from_the_last_and_tells_its_progress(group: vc.DeviceGroup) -> None:
    X, y = random_table(300, 3, 10)
    model = descent(max_iter=7, warm_start=True, device=group).fit(X, y)
    told: list[int] = []
    model.fit(X, y, progress=told.append)
    assert told == list(range(1, 8))
    assert_close(model, _second_half(fit(X, y, max_iter=14)))


def _second_half(expected: Any) -> Any:
    expected.losses = expected.losses[7:]
    return expected


@pytest.mark.parametrize("d", [2, 50])
def test_batches_that_one_device_has_no_row_of(group: vc.DeviceGroup, d: int) -> None:
    group.weights = (50, 1)
    X, y = random_table(153, d, 11)
    params: dict[str, Any] = {"max_iter": 3, "batch_size": 2, "random_state": 1}
    assert_close(descent(device=group, **params).fit(X, y), fit(X, y, **params))


def test_fit_inside_of_a_profile_is_not_measured(group: vc.DeviceGroup) -> None:
    needs_shaders(group.runtimes[0])
    X, y = random_table(100, 2, 12)
    with group.runtimes[0].profile() as profile:
        model = descent(max_iter=10, device=group).fit(X, y)
    assert len([task for task in profile.tasks if "narrow" in task.name]) == 10
    assert group.weights == (2 / 3, 1 / 3)
    assert_close(model, fit(X, y, max_iter=10))


@pytest.mark.parametrize("d", [3, 40])
def test_devices_with_several_queues_and_memory_of_their_own(clean_handles: None, d: int) -> None:
    X, y = random_table(500, d, 17)
    params: dict[str, Any] = {"max_iter": 9, "batch_size": 200, "random_state": 5}
    with open_runtime(timelines=(3, 2), staging=True) as first, open_runtime(staging=True) as second:
        with vc.DeviceGroup([first, second]) as group:
            model = descent(device=group, **params).fit(X, y)
        assert_close(model, fit(X, y, **params))


def test_fits_on_several_threads(group: vc.DeviceGroup) -> None:
    tables = [random_table(500 + 7 * n, 3, n) for n in range(6)]
    with ThreadPoolExecutor(3) as pool:
        fitted = list(pool.map(lambda data: descent(max_iter=30, device=group).fit(*data), tables))
    for model, (X, y) in zip(fitted, tables, strict=True):
        assert_close(model, fit(X, y, max_iter=30))


@pytest.mark.usefixtures("clean_handles")
def test_a_list_of_devices_is_opened_for_the_fit() -> None:
    X, y = random_table(50, 2, 13)
    model = descent(max_iter=3, device=[0]).fit(X, y)
    assert_close(model, fit(X, y, max_iter=3))
    assert pickle.loads(pickle.dumps(model)).device == [0]
    with pytest.raises(vc.NoDevice):
        descent(device=["nobody"]).fit(X, y)


def test_a_group_travels_by_the_names_of_its_devices(group: vc.DeviceGroup) -> None:
    names = [runtime.device.name for runtime in group.runtimes]
    assert pickle.loads(pickle.dumps(descent(device=group))).device == names
    assert pickle.loads(pickle.dumps(descent(device=[group.runtimes[0], 1]))).device == [names[0], 1]


@pytest.mark.parametrize("d", [2, 50])
def test_a_failing_device_leaves_nothing_behind(clean_handles: None, d: int) -> None:
    X, y = random_table(200, d, 14)
    second = vc.Runtime()
    with vc.Runtime() as first, vc.DeviceGroup([first, second]) as group:  # the shared runtime would keep its kernels
        second.close()
        with pytest.raises(vc.ClosedError, match="this Runtime is closed"):
            descent(device=group).fit(X, y)


@pytest.mark.parametrize("n_submits", [0, 3, 30])
def test_a_device_lost_in_the_middle(clean_handles: None, monkeypatch: pytest.MonkeyPatch, n_submits: int) -> None:
    left = [1 << 30]

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            left[0] -= name == "vkQueueSubmit"
            return -4 if name == "vkQueueSubmit" and left[0] < 0 else function(*args)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(vk, "interceptors", [wrap])
        second = vc.Runtime()
    X, y = random_table(200, 2, 15)
    with vc.Runtime() as first, second:
        with vc.DeviceGroup([first, second]) as group:
            left[0] = n_submits
            with pytest.raises(vc.DeviceLost):
                descent(device=group).fit(X, y)
        model = descent(max_iter=3, device=first).fit(X, y)
        assert_close(model, fit(X, y, max_iter=3))


@pytest.mark.parametrize("at", [1, 4, 9])
def test_a_fit_that_is_interrupted(group: vc.DeviceGroup, at: int) -> None:
    X, y = random_table(200, 2, 16)

    def progress(n_epochs: int) -> None:
        if n_epochs == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        descent(device=group).fit(X, y, progress=progress)
    assert_close(descent(max_iter=12, device=group).fit(X, y), fit(X, y, max_iter=12))
