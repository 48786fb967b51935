"""Groups, joins, sorts and distinct elements where memory is short: the whole result or an error, never a part."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import neighbours, rows, segments

MIB = 1 << 20
N = 200_000
RNG = np.random.default_rng(0)
X = RNG.integers(0, 1 << 30, N).astype(np.int32)
DISTINCT = np.unique(X, return_index=True)


def _pairs(x: vc.Array) -> Any:
    pairs = rows.join(x, x)
    return x[pairs.left].numpy() - x[pairs.right].numpy(), pairs.left.size


def _joined(result: Any) -> bool:
    counts = np.unique(X, return_counts=True)[1]
    return not result[0].any() and result[1] == (counts**2).sum()


CALLS: dict[str, tuple[Callable[[vc.Array], Any], Callable[[Any], bool]]] = {
    "group": (lambda x: rows.group(x).rows.numpy(), lambda r: np.array_equal(r, np.sort(DISTINCT[1]))),
    "join": (_pairs, _joined),
    "unique": (lambda x: vnp.unique(x).numpy(), lambda r: np.array_equal(r, DISTINCT[0])),
    "argsort": (lambda x: vnp.argsort(x).numpy(), lambda r: np.array_equal(r, np.argsort(X, kind="stable"))),
    "segments": (lambda x: segments.sort(x, [0, N]).numpy(), lambda r: np.array_equal(r, np.sort(X))),
    "neighbours": (
        lambda x: neighbours.nearest(x.reshape((-1, 1)), x[:500].reshape((-1, 1)), 3).distances[:, 0].numpy(),
        lambda r: not r.any(),
    ),
}


@pytest.fixture(params=[2, 4, 8])
def small(request: pytest.FixtureRequest) -> Iterator[vc.Runtime]:
    """A runtime with so many MiB, and as many of the host for arrays that it moves there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vc.SpillWarning)
        with open_runtime(memory_limit_bytes=request.param * MIB, spill_limit_bytes=request.param * MIB) as runtime:
            yield runtime


@pytest.mark.rotates
@pytest.mark.parametrize("name", list(CALLS))
def test_whole_results_or_an_error(small: vc.Runtime, name: str) -> None:
    call, is_right = CALLS[name]
    x = small.array(X)
    try:
        result = call(x)
    except vc.OutOfDeviceMemory:
        result = None
    assert result is None or is_right(result)
    assert np.array_equal(x.numpy(), X)


@pytest.mark.filterwarnings("ignore::vkcompute.SpillWarning")
def test_some_of_them_run_out_of_memory() -> None:
    """So the tests above see both outcomes."""
    with open_runtime(memory_limit_bytes=2 * MIB, spill_limit_bytes=0) as runtime:
        x = runtime.array(X)
        with pytest.raises(vc.OutOfDeviceMemory):
            rows.group(x).rows.numpy()
