"""Work on arrays that are resident on the device, compared with NumPy's: expressions, scans, selection, sorting."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from context import Cases, Context, count_of
from measure import Case, HostArray, Local
from peers.work import Blocking

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.algorithms import scans, selection, sorting
from vkcompute.arrays.functions import indexing

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))

from kmeans import kmeans

TITLE = "algorithms on arrays"


def cases(context: Context) -> Cases:
    """Each algorithm on float32; masks where the device has bools."""
    full = context.sizes.small >= 1 << 20
    n, m = (10_000_000, 1_000_000) if full else (5000, 3000)
    for size in (64 << 20, 1 << 20) if full else (5000,):
        x, y = _random(size), _random(size)[::-1].copy()
        yield _case(context, f"expression_{count_of(size)}", size, _expression, _expression, x, y)
    table = _random(1 << 24 if full else 64 * 64).reshape(4096 if full else 64, -1)
    for name in ("mean", "var"):
        for axis in (0, 1):
            theirs, ours = partial(getattr(np, name), axis=axis), partial(getattr(vnp, name), axis=axis)
            yield _case(context, f"{name}_{axis}", table.size, theirs, ours, table, exact=partial(_wider, theirs))
    for side in (64, 256, 1024) if full else (24,):
        one = _random(side * side).reshape(side, side)
        exact = partial(_wider, np.matmul)
        yield _case(context, f"matmul_{side}", side * side, np.matmul, vnp.matmul, one, one.T.copy(), exact=exact)
    x, few = _random(n), _random(m)
    at = np.random.default_rng(1).integers(0, n, m, np.int32)
    yield _case(context, "cumsum", n, partial(np.cumsum, dtype=np.float32), _summed, x, exact=_exact)
    yield _case(context, "mask", n, lambda x, mask: x[mask], selection.masked, x, x > 0.5)
    yield _case(context, "nonzero", n, lambda mask: np.nonzero(mask)[0], selection.flatnonzero, x > 0.5)
    yield _case(context, "take", m, lambda x, at: x[at], indexing.get, x, at)
    yield _case(context, "sort", m, np.sort, sorting.sort, few)
    yield _case(context, "argsort", m, partial(np.argsort, kind="stable"), sorting.argsort, few)
    yield _kmeans(context, 200_000 if full else 2000)
    yield _case(context, "unique", m, np.unique, lambda x: sorting.unique(x).values, few)


_ITERATIONS = 10


def _kmeans(context: Context, n: int) -> Case:
    """Makes the case of k-means in array code, of 16 coordinates and 8 clusters that overlap."""
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(16, n)) + rng.integers(0, 8, n)).astype(np.float32)
    given = points, points[:, :8].copy()
    case = _case(context, "kmeans", n, centres, centres, *given, exact=centres, tolerance=1e-3)
    if importlib.util.find_spec("sklearn") is None:
        return case
    peer = Local("scikit-learn", partial(OfNumPy, by_sklearn, given), partial(centres, *given), tolerance=1e-3)
    return Case(case.key, case.title, case.baseline, [*case.contenders, peer])


def centres(*given: Any, iterations: int = _ITERATIONS) -> Any:
    """Returns the centres of k-means, of NumPy's arrays or of the device's."""
    return kmeans(*given, iterations)[0]


def by_sklearn(points: HostArray, first: HostArray, iterations: int = _ITERATIONS) -> HostArray:
    """Returns the centres that scikit-learn computes."""
    from sklearn.cluster import KMeans  # not at import: it takes a second

    model = KMeans(first.shape[1], init=first.T, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd")
    fitted: HostArray = model.fit(points.T).cluster_centers_.T
    return fitted


def _expression(x: Any, y: Any) -> Any:
    """Five operations, of NumPy arrays or of lazy arrays."""
    return ((x + y) * 2.0 - x) * y + 1.5


def _wider(function: Callable[..., HostArray], *given: HostArray) -> HostArray:
    return function(*[arg.astype(np.float64) for arg in given]).astype(np.float32)


def _summed(x: Any) -> Any:
    return scans.cumulative(x, "sum", 0)


def _exact(x: HostArray) -> HostArray:
    """Returns the sums rounded once; NumPy's own are off by 1e-3 at the end."""
    return np.cumsum(x, dtype=np.float64).astype(np.float32)


@cache
def _random(n: int) -> HostArray:
    return np.random.default_rng(0).random(n, np.float32)


def _case(
    context: Context,
    name: str,
    n: int,
    theirs: Callable[..., HostArray],
    ours: Callable[..., Any],
    *given: HostArray,
    exact: Callable[..., HostArray] | None = None,
    tolerance: float = 1e-5,
) -> Case:
    """Makes a case; the result is NumPy's, or that of `exact` within `tolerance`."""
    numpys, expected = cache(partial(theirs, *given)), cache(partial(exact or theirs, *given))
    wide = _wide(context, expected)
    programs = [
        Local("numpy", partial(OfNumPy, theirs, given), numpys),
        Local(
            "vkcompute", partial(OnDevice, context.runtime, ours, given), wide, tolerance=tolerance if exact else 0.0
        ),
    ]
    return Case(f"algorithms.{name}", f"{name}, {count_of(n)} elements", "numpy", programs)


def _wide(context: Context, expected: Callable[[], HostArray]) -> Callable[[], HostArray]:
    """Returns the results with the device's widest integers."""
    narrow = "shaderInt64" not in context.runtime.device.features
    return lambda: expected().astype(np.int32) if narrow and expected().dtype == np.int64 else expected()


class OfNumPy(Blocking):
    """NumPy's function."""

    def __init__(self, function: Callable[..., HostArray], given: Any) -> None:
        self._function, self._given = function, given

    def enqueue(self) -> None:
        self.out = self._function(*self._given)

    def result(self) -> HostArray:
        return self.out


class OnDevice:
    """The algorithm on arrays of the device."""

    def __init__(self, runtime: vc.Runtime, function: Callable[..., Any], given: Any) -> None:
        self._runtime, self._function = runtime, function
        self._given = [runtime.array(arg) for arg in given]

    def enqueue(self) -> None:
        self.out = self._function(*self._given)

    def wait(self) -> None:
        self._runtime.wait()

    def result(self) -> HostArray:
        computed: HostArray = self.out.numpy()
        return computed
