"""Two classes on devices that cannot run the shaders: numpy in float64 is the oracle, and the shaders' results."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from logistic_oracle import descent, fit
from runtimes import open_runtime
from test_logistic_training import assert_matches, random_table

import vkcompute as vc
from vkcompute.pipelines.logistic import array_shard, step

SHADERS = Path(__file__).parents[2] / "shaders"
STORAGE = re.compile(r"layout\(std430, set = 0, binding = (\w+)\)")


@pytest.fixture(scope="module")
def poor() -> Iterator[vc.Runtime]:
    with open_runtime(profile="poor") as runtime:
        yield runtime


def storage_buffers(name: str) -> int:
    """Returns the storage buffers that a shader declares, those of its includes among them."""
    seen: set[str] = set()

    def texts(path: Path) -> Iterator[str]:
        seen.add(path.name)
        yield (text := path.read_text())
        for include in re.findall(r'#include "([^"]+)"', text):
            if include not in seen:
                yield from texts(SHADERS / "include" / include)

    return sum(len(STORAGE.findall(text)) for text in texts(SHADERS / f"{name}.comp"))


def test_the_limit_is_the_most_buffers_of_a_shader() -> None:
    names = [path.stem for path in SHADERS.glob("logistic_*.comp")]
    assert max(map(storage_buffers, names)) == step.N_STORAGE_BUFFERS


@pytest.mark.parametrize(("n_features", "batch_size"), [(3, None), (3, 50), (40, None), (40, 64)])
def test_gradient_descent_equals_numpy(poor: vc.Runtime, n_features: int, batch_size: int | None) -> None:
    X, y = random_table(300, n_features, 0)
    weight = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    options = {"max_iter": 5, "batch_size": batch_size, "alpha": 0.03, "random_state": 7}
    model = descent(device=poor, **options).fit(X, y, sample_weight=weight)
    assert_matches(model, fit(X, y, sample_weight=weight, **options))


def test_pieces_of_a_table_add_up(poor: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_shard, "_MAX_PIECE_NBYTES", 4 * 3 * 64)
    X, y = random_table(203, 3, 2)
    model = descent(device=poor, max_iter=4).fit(X, y)
    assert_matches(model, fit(X, y, max_iter=4))


def test_lbfgs_finds_the_same_minimum(poor: vc.Runtime, gpu: vc.Runtime) -> None:
    X, y = random_table(5000, 8, 3)
    models = [vc.LogisticRegression(device=device, C=0.5).fit(X, y) for device in (poor, gpu)]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-3, atol=1e-4)


def test_a_group_has_devices_of_both_kinds(poor: vc.Runtime, gpu: vc.Runtime) -> None:
    X, y = random_table(500, 4, 4)
    with contextlib.closing(vc.DeviceGroup([poor, gpu])) as group:
        model = descent(device=group, max_iter=6).fit(X, y)
    assert_matches(model, fit(X, y, max_iter=6))
