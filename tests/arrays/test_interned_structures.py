"""Tests of the structures of lazy arrays: shared by equal expressions, with the results of other paths to the bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.expressions import lazy, structure
from vkcompute.arrays.expressions.lazy import Lazy

SHAPE = 5, 12


def structure_of(array: Any) -> Any:
    return array.expression.structure


def arrays(gpu: vc.Runtime, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    floats = [gpu.array(rng.normal(size=SHAPE).astype(np.float32)) for _ in range(3)]
    return [*floats, gpu.array(rng.integers(-9, 9, SHAPE).astype(np.int32)), gpu.array(np.float32([[0.5]]))]


def test_equal_expressions_have_one_structure(gpu: vc.Runtime) -> None:
    (x, y, z, *_), (other, *_) = arrays(gpu, 0), arrays(gpu, 1)
    assert structure_of(vnp.sin(x) * y + 2) is structure_of(vnp.sin(z) * other + 3)
    assert structure_of((x + y) * z) is structure_of((x + x) * x)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x, i: x + x, lambda x, i: x - x),
        (lambda x, i: x + i, lambda x, i: i + x),
        (lambda x, i: x + 1, lambda x, i: x + x),
        (lambda x, i: x * (x + x), lambda x, i: (x + x) * x),
        (lambda x, i: x.astype(np.int32), lambda x, i: x.astype(np.uint32)),
        (lambda x, i: x + x.sum(), lambda x, i: x + x),
    ],
)
def test_other_expressions_have_others(gpu: vc.Runtime, one: Any, other: Any) -> None:
    x, _, _, i, _ = arrays(gpu, 0)
    assert structure_of(one(x, i)) is not structure_of(other(x, i))


def test_a_structure_counts_the_parameters_of_its_kernel(gpu: vc.Runtime) -> None:
    x, y, *_ = arrays(gpu, 0)
    large = structure_of(vnp.where(x > y, x * 2, vnp.exp(y)))
    assert (large.n_steps, large.n_arrays, large.n_scalars, large.depth) == (4, 4, 1, 0)
    assert structure_of(x + (x - x.max()).sum()).depth == 2


def program(gpu: vc.Runtime, seed: int) -> list[np.ndarray[Any, Any]]:
    """Returns the results of random operations; operands are shared, computed early, broadcast or overwritten."""
    choose = random.Random(seed)
    values, kept = arrays(gpu, seed), []
    for _ in range(25):
        one, other = (choose.choice(values) for _ in range(2))
        kind = choose.randrange(9)
        if kind == 0:
            choose.choice(values).compute()
        elif kind == 1:
            choose.choice(values[:3])[1:3] = choose.randrange(5)
        elif kind == 2:
            kept.append(one.numpy())
        elif kind == 3:
            values.append(vnp.where(one > 0, other, 2))
        elif kind == 4:
            values.append((one.astype(np.complex64) * (1 + 2j) + other).real)
        else:
            operation = choose.choice([vnp.add, vnp.multiply, vnp.subtract, vnp.maximum])
            values.append(operation(one, choose.choice([other, choose.randrange(4), vnp.minimum(other, one)])))
    return [*kept, *[value.numpy() for value in values[-8:]]]


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions_are_those_of_kernels_that_are_made_by_walking(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    direct = program(gpu, seed)
    with monkeypatch.context() as patch:
        patch.setattr(Lazy, "_parameters", lambda *_: [])
        walked = program(gpu, seed)
    for one, other in zip(direct, walked, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def test_a_known_structure_is_launched_without_a_walk_of_its_steps(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, z, *_ = arrays(gpu, 0)
    ((x + y) * z - 1).compute()
    walks: list[Any] = []
    monkeypatch.setattr(lazy, "flattened", lambda root: walks.append(root))
    monkeypatch.setattr(structure, "launcher_of", lambda *steps: walks.append(steps))
    data = [array.numpy() for array in (z, y, x)]
    assert np.array_equal(((z + y) * x - 1).numpy(), (data[0] + data[1]) * data[2] - 1)
    assert not walks
