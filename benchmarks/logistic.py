"""Logistic regression by full-batch gradient descent, compared with vectorized numpy in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
from context import Cases, Context
from measure import Case, Contender, Local, compare
from peers.work import Blocking, Floats, Outcome

import vkcompute as vc

TITLE = "logistic regression"
RATE, START = 0.1, 0.001
# The sums over rows are rounded in different orders, and the difference propagates through all iterations.
_TOLERANCE = 1e-4
_EXTRA_FITS = 4


def cases(context: Context) -> Cases:
    """Tables with two features; the smallest is the five rows of Kompute's example."""
    n = context.sizes.iterations
    for n_rows in context.sizes.rows:
        X, y = table(n_rows)
        expected = partial(by_numpy, X, y, n)
        contenders: list[Contender] = [
            Local("numpy", partial(Numpy, X, y, n, losses=True), expected, tolerance=_TOLERANCE),
            Local("numpy, without losses", partial(Numpy, X, y, n, losses=False), expected, tolerance=_TOLERANCE),
            Local("vkcompute fit()", partial(Fit, context.runtime, X, y, n), expected, tolerance=_TOLERANCE),
            Iterations("vkcompute, iterations", partial(Fit, context.runtime, X, y), n, expected),
        ]
        yield Case(f"logistic.{n_rows}", f"logistic regression, {n_rows:,} x 2, {n} iterations", "numpy", contenders)


def table(n_rows: int) -> tuple[Floats, Floats]:
    """X of shape (n_rows, 2), and noisy labels 0 and 1, both float32."""
    if n_rows == 5:
        return np.array([[0, 0], [1, 0], [1, 0], [1, 1], [1, 1]], np.float32), np.array([0, 0, 0, 1, 1], np.float32)
    random = np.random.default_rng(1)
    X = random.standard_normal((n_rows, 2), np.float32)
    chance = 1 / (1 + np.exp(-(2 * X[:, 0] - X[:, 1] + 0.5)))
    return X, (random.random(n_rows) < chance).astype(np.float32)


def by_numpy(X: Floats, y: Floats, iterations: int, losses: Floats | None = None) -> Floats:
    """Weights and intercept after `iterations` steps, shape (3,). Reuses all arrays.

    Writes each iteration's loss to `losses`, if given: log(1 + exp(-z)) + (1 - y) z, for |z| below 88.
    """
    weights, intercept = np.full(2, START, np.float32), np.float32(0)
    rate = np.float32(RATE / len(X))
    z, work, others = np.empty(len(X), np.float32), np.empty(len(X), np.float32), 1 - y
    for iteration in range(iterations):
        np.matmul(X, weights, out=z)
        z += intercept
        np.negative(z, out=work)
        np.exp(work, out=work)
        work += 1
        if losses is not None:
            linear = others @ z
            losses[iteration] = (np.log(work, out=z).sum() + linear) / len(X)
        np.reciprocal(work, out=work)
        work -= y
        weights -= rate * (work @ X)
        intercept -= rate * work.sum()
    return np.append(weights, intercept)


class Numpy(Blocking, Outcome):
    """The numpy version. With `losses`, it computes the loss of each iteration, as vkcompute does."""

    def __init__(self, X: Floats, y: Floats, iterations: int, *, losses: bool) -> None:
        self._arguments = X, y, iterations, np.empty(iterations, np.float32) if losses else None

    def enqueue(self) -> None:
        """Trains the model."""
        self.out = by_numpy(*self._arguments)


class Fit(Blocking, Outcome):
    """`LogisticRegression.fit`: validation, upload, training with losses, download."""

    def __init__(self, runtime: vc.Runtime, X: Floats, y: Floats, iterations: int) -> None:
        self._X, self._y = X, y
        self.model = vc.LogisticRegression(
            None, solver="gradient", learning_rate=RATE, max_iter=iterations, tol=None, device=runtime
        )

    def enqueue(self) -> None:
        """Trains the model."""
        model = self.model.fit(self._X, self._y, coef_init=np.full(2, START), intercept_init=0.0)
        self.out = np.append(model.coef_, model.intercept_).astype(np.float32)


class Iterations(Contender):
    """The time of the iterations alone: the difference between a long and a short fit.

    Args:
        make: creates a fit with a number of iterations.
        expected: numpy's result after `iterations`.
    """

    def __init__(self, name: str, make: Callable[[int], Fit], iterations: int, expected: Callable[[], Floats]) -> None:
        super().__init__(name)
        self._make, self._iterations, self._expected = make, iterations, expected

    def prepare(self) -> None:
        self._short, self._long = self._make(self._iterations), self._make((1 + _EXTRA_FITS) * self._iterations)
        self.sample(1)

    def sample(self, loops: int) -> float:
        start = perf_counter()
        for _ in range(loops):
            self._short.enqueue()
        middle = perf_counter()
        for _ in range(loops):
            self._long.enqueue()
        return (perf_counter() - middle - (middle - start)) / _EXTRA_FITS

    def check(self) -> None:
        compare(self._short.out, self._expected(), _TOLERANCE)
