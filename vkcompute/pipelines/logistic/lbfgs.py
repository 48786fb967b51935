"""Training by L-BFGS: devices add the loss and its derivatives over the rows, and the host makes the steps.

The host adds the rows of small tables, in float64, in less time than a launch takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.settings import Floats, Outcome, Settings

Vector = npt.NDArray[np.float64]

_MEMORY = 10  # pairs of steps and changes of the gradient, as in scikit-learn
_DECREASE, _CURVATURE = 1e-4, 0.9  # of the Wolfe conditions
_MAX_TRIALS = 40
_MAX_STALE = 10


class _Point(NamedTuple):
    """Weights and intercepts, the loss there, and its derivatives."""

    x: Vector
    loss: float
    gradient: Vector


class Lbfgs:
    """Minimization by L-BFGS, on the host in float64, of sums that may be less precise.

    J. Nocedal, S. Wright: Numerical Optimization, 2nd edition, algorithm 7.5. Steps meet the weak Wolfe conditions, by
    the bisection of A. Lewis, M. Overton: Nonsmooth optimization via quasi-Newton methods, algorithm 2.6.

    Args:
        dtype: of the sums, and of the weights for which they are asked. Smaller relative changes of the loss than its
            epsilon are rounding errors.
    """

    def __init__(self, settings: Settings, weights: Floats, intercept: Any, dtype: type = np.float32) -> None:
        self._settings, self._shape, self._dtype = settings, weights.shape, dtype
        self._rounding = float(np.finfo(dtype).eps)
        start = np.concatenate([weights.reshape(-1), np.reshape(intercept, -1)]).astype(np.float64)
        self._n_weights = weights.size
        self._point = _Point(start, np.inf, np.full(start.shape, np.inf))
        self._evaluated = False
        self._pairs: deque[tuple[Vector, Vector]] = deque(maxlen=_MEMORY)
        self._losses: list[np.float32] = []
        self._n_stale = 0

    @property
    def _converged(self) -> bool:
        """True if no derivative exceeds `tol`, nor the decrease of the loss that is left, as a share of it.

        Derivatives alone are small where a long way leads to the minimum, as for classes that are almost separable.
        """
        tol, (_, loss, gradient) = self._settings.tol, self._point
        if not self._evaluated or tol is None or not np.abs(gradient).max() <= tol:
            return False
        if loss <= tol or self._n_stale >= _MAX_STALE:
            return True
        return bool(-np.vdot(gradient, self._direction()) / 2 <= tol * loss)  # half of Newton's decrement squared

    def run(self, shards: Sequence[Any], n_iterations: int) -> None:
        """Makes `n_iterations` iterations, or the remaining ones if these are fewer.

        Args:
            shards: objects with the methods `start` and `sums` of `sharded._Shard`.
        """
        settings = self._settings
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(min(n_iterations, settings.max_iter - len(self._losses))):
                if not self._evaluated:
                    self._point, self._evaluated = self._at(shards, self._point.x), True
                if self._losses and (self._converged or self._n_stale >= _MAX_STALE):
                    break
                self._losses.append(np.float32(self._point.loss))
                if not np.isfinite(self._point.loss):
                    self._n_stale = _MAX_STALE
                elif not self._converged:
                    self._step(shards)
                if settings.progress is not None:
                    settings.progress(len(self._losses))

    def outcome(self) -> Outcome:
        """Returns the result."""
        weights, intercept = np.split(self._point.x, [self._n_weights])
        remedy = ""
        if self._n_stale >= _MAX_STALE:
            largest = float(np.abs(self._point.gradient).max())
            remedy = (
                f"the loss no longer improves in {np.dtype(self._dtype)}: a derivative is {largest:.2g}, and tol is "
                f"{self._settings.tol}; scale the features, with StandardScaler, or pass a larger tol"
            )
        losses, converged = np.array(self._losses, np.float32), self._converged
        return Outcome(weights.reshape(self._shape), intercept, losses, converged=converged, remedy=remedy)

    def _at(self, shards: Sequence[Any], x: Vector) -> _Point:
        """Returns the point at `x`, rounded to the dtype that the devices read."""
        settings, x = self._settings, x.astype(self._dtype).astype(np.float64)
        weights, intercept = np.split(x, [self._n_weights])
        given: Any = (
            weights.astype(self._dtype).reshape(self._shape),
            intercept if len(self._shape) > 1 else intercept[0],
        )
        started = [shard for shard in shards if shard.start(*given, None)]
        total = np.sum([shard.sums() for shard in started], 0) / (settings.mean_weight * settings.n_rows)
        loss = float(total[0] + settings.alpha / 2 * np.vdot(weights, weights))
        of_intercept, of_weights = np.split(total[1:], [intercept.size])
        gradient = [of_weights + settings.alpha * weights, of_intercept * settings.fit_intercept]
        return _Point(x, loss, np.concatenate(gradient))

    def _step(self, shards: Sequence[Any]) -> None:
        """Moves to the next point; without one, forgets the pairs, and counts as stale."""
        before, direction = self._point, self._direction()
        after = self._next(shards, direction)
        if after is None:
            self._n_stale = self._n_stale + 1 if self._pairs else _MAX_STALE
            self._pairs.clear()
            return
        small = before.loss - after.loss <= self._rounding * abs(before.loss)
        self._n_stale = self._n_stale + 1 if small else 0
        step, change = after.x - before.x, after.gradient - before.gradient
        if np.vdot(step, change) > 0:
            self._pairs.append((step, change))
        self._point = after

    def _direction(self) -> Vector:
        """Returns the product of the approximate inverse Hessian and the negative gradient (algorithm 7.4)."""
        direction, factors = -self._point.gradient, list[float]()
        for step, change in reversed(self._pairs):
            factors.append(float(np.vdot(step, direction) / np.vdot(step, change)))
            direction = direction - factors[-1] * change
        if self._pairs:
            step, change = self._pairs[-1]
            direction = direction * (np.vdot(step, change) / np.vdot(change, change))
        for step, change in self._pairs:
            factor = factors.pop() - float(np.vdot(change, direction) / np.vdot(step, change))
            direction = direction + factor * step
        return direction

    def _next(self, shards: Sequence[Any], direction: Vector) -> _Point | None:
        """Returns a point along the direction that meets the weak Wolfe conditions; None if none was reached."""
        before, slope = self._point, float(np.vdot(self._point.gradient, direction))
        if not slope < 0:
            return None
        shortest, longest = 0.0, np.inf
        length = 1.0 if self._pairs else min(1.0, 1.0 / float(np.linalg.norm(direction)))
        for _ in range(_MAX_TRIALS):
            point = self._at(shards, before.x + length * direction)
            if (point.x == before.x).all():
                return None
            limit = before.loss + _DECREASE * length * slope + self._rounding * abs(before.loss)
            if not point.loss <= limit:
                longest = length
            elif np.vdot(point.gradient, direction) < _CURVATURE * slope:
                shortest = length
            else:
                return point
            length = (shortest + longest) / 2 if np.isfinite(longest) else 2 * length
        return None


MOST_OF_HOST = 1 << 12
"""The most multiplications of a table's elements and classes that the host makes in less time than a launch takes."""


def train_on_host(
    X: npt.NDArray[np.generic], targets: Floats, settings: Settings, weights: Floats, intercept: Any
) -> Outcome:
    """`sharded.train_sharded` on the host, in float64."""
    optimizer = Lbfgs(settings, weights, intercept, np.float64)
    optimizer.run([_HostRows(X.astype(np.float64), targets.astype(np.float64))], settings.max_iter)
    return optimizer.outcome()


class _HostRows:
    """The rows of a table on the host, and the sums over them.

    Args:
        targets: as of `inputs.targets_of`.
    """

    def __init__(self, X: Vector, targets: Vector) -> None:
        self._X, self._targets = X, targets
        self._sums = np.empty(0)

    def start(self, weights: Vector, intercept: Any, _: None) -> bool:
        """Adds the loss, and its derivatives by each intercept and each weight."""
        z = self._X @ weights.T + intercept
        if weights.ndim == 1:
            signs, weight = np.sign(self._targets), np.abs(self._targets)
            losses, residual = (
                weight * np.logaddexp(0, -signs * z),
                -self._targets * np.exp(-np.logaddexp(0, signs * z)),
            )
        else:
            codes, weight = self._targets[:, 0].astype(np.intp), self._targets[:, 1]
            z -= z.max(axis=1, keepdims=True)
            z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
            rows = np.arange(len(z))
            losses, residual = -weight * z[rows, codes], np.exp(z)
            residual[rows, codes] -= 1
            residual *= weight[:, np.newaxis]
        sums = losses.sum(), residual.sum(axis=0), residual.T @ self._X
        self._sums = np.concatenate([np.reshape(part, -1) for part in sums])
        return True

    def sums(self) -> Vector:
        """Returns the sums."""
        return self._sums
