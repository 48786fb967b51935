"""Training on several devices: each sums over its shard of the rows; the host adds the sums and makes the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.array_shard import ArrayShard, binary_sums, multinomial_sums
from vkcompute.pipelines.logistic.lbfgs import Lbfgs
from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.narrow import MAX_FEATURES, NarrowStep
from vkcompute.pipelines.logistic.settings import Floats, Outcome, Settings
from vkcompute.pipelines.logistic.step import runs_shaders
from vkcompute.pipelines.logistic.table import TILE_ROWS, own_rows, upload
from vkcompute.pipelines.logistic.wide import WideStep
from vkcompute.runtime.groups.group import DeviceGroup
from vkcompute.runtime.runtime import Runtime

_WARM_UP_EPOCHS, _MEASURED_EPOCHS = 1, 5  # drivers compile in the first; with batches, 1 and 1
_MAX_EXCESS = 1.1  # reshard if a device has more than this multiple of its weight in rows
_Batch = npt.NDArray[np.uint32]


def train_sharded(
    group: DeviceGroup,
    X: npt.NDArray[np.generic],
    targets: Floats,
    settings: Settings,
    weights: Floats,
    intercept: Any,
) -> Outcome:
    """`training.train` on the devices of a group, with the same arguments and errors.

    Measures the first epochs, unless a runtime is being profiled, and reshards the rows if their balance is poor.

    Args:
        targets: for several classes shape (n_rows, 2): the number of each row's class, and its weight.
        weights: for several classes shape (n_classes, n_features).
        intercept: for several classes shape (n_classes,).
    """
    n_rows, measures = len(X), len(group.runtimes) > 1
    optimizer = optimizer_of(settings)(settings, weights, intercept)
    while True:
        split = group.split(n_rows)
        with ExitStack() as owner:
            shards = [
                _shard(runtime, X, targets, rows, settings, owner, weights)
                for runtime, rows in zip(group.runtimes, split, strict=True)
                if rows
            ]
            if measures:
                measures = False
                optimizer.run(shards, _WARM_UP_EPOCHS)
                with ExitStack() as measuring:
                    with suppress(ValueError):  # a runtime is being profiled
                        measuring.enter_context(group.balance())[:] = map(len, split)
                    optimizer.run(shards, _MEASURED_EPOCHS if settings.batch_size == n_rows else 1)
                if any(len(rows) > _MAX_EXCESS * n_rows * due for rows, due in zip(split, group.weights, strict=True)):
                    continue
            optimizer.run(shards, settings.max_iter)
            return optimizer.outcome()


def optimizer_of(settings: Settings) -> type[Descent | Lbfgs]:
    """Returns the class that makes the steps."""
    return Lbfgs if settings.solver == "lbfgs" else Descent


def _shard(
    runtime: Runtime,
    X: npt.NDArray[np.generic],
    targets: Floats,
    rows: range,
    settings: Settings,
    owner: ExitStack,
    weights: Floats,
) -> _Shard | ArrayShard:
    if weights.ndim == 2:
        sums_of = multinomial_sums(runtime, len(weights), owner)
        return ArrayShard(runtime, X, targets, rows, len(weights), sums_of, owner)
    if not runs_shaders(runtime):
        return ArrayShard(runtime, X, targets[:, np.newaxis], rows, 1, binary_sums, owner)
    return _Shard(runtime, X, targets, rows, settings, owner)


class _Shard:
    """A device's rows of the table, and the step that sums over them."""

    def __init__(
        self,
        runtime: Runtime,
        X: npt.NDArray[np.generic],
        targets: Floats,
        rows: range,
        settings: Settings,
        owner: ExitStack,
    ) -> None:
        self._runtime, self._rows, n_features = runtime, rows, X.shape[1]
        chunks = upload(runtime, X[rows.start : rows.stop], targets[rows.start : rows.stop], owner)
        self._model = Model(runtime, np.zeros(n_features, np.float32), 0.0, owner)
        step = WideStep if n_features > MAX_FEATURES else NarrowStep
        self._step = step(runtime, chunks, self._model, settings, owner)
        self._order = owner.enter_context(runtime.empty(min(settings.batch_size, len(rows)), np.uint32))

    def start(self, weights: Floats, intercept: Any, batch: _Batch | None) -> bool:
        """Launches the sums over the shard's rows, or over those in the batch. Returns False if the batch has none."""
        order, push = None, {}
        if batch is not None:
            own = own_rows(batch, self._rows.start, self._rows.stop)
            n, order = len(own), self._order
            if not n:
                return False
            order[:n].write(own)
            push = {"batch_size": n, "n_rows": n, "n_tiles": -(-n // TILE_ROWS)}
        self._model.write(weights, intercept)
        self._step.launch_sums(order, push)
        self._runtime.flush()
        return True

    def sums(self) -> npt.NDArray[np.float64]:
        """Waits for the sums: the loss, and its derivatives by the intercept and by each weight."""
        return self._step.read_sums()


class Descent:
    """Gradient descent on the host, in float64. Stops by the rules of shaders/include/logistic_step.glsl.

    Attributes:
        weights: shape (n_features,), or (n_classes, n_features).
        intercept: a number, or shape (n_classes,).
        losses: one per epoch.
        converged: True if training stopped by `tol`.
    """

    def __init__(self, settings: Settings, weights: Floats, intercept: Any) -> None:
        self._settings = settings
        self.weights, self.intercept = weights.astype(np.float64), np.asarray(intercept, np.float64)
        self.losses: list[np.float32] = []
        self._best, self._n_stale = np.float32(np.inf), 0
        self.converged = False

    def run(self, shards: Sequence[Any], n_epochs: int) -> None:
        """Makes `n_epochs` epochs, or the remaining ones if these are fewer.

        Args:
            shards: objects with the methods `start` and `sums` of `_Shard`.
        """
        settings = self._settings
        for _ in range(min(n_epochs, settings.max_iter - len(self.losses))):
            if self.converged or not np.isfinite(self.losses[-1:]).all():
                break
            with np.errstate(over="ignore", invalid="ignore"):  # a diverging run ends with a loss that is not finite
                loss = sum(self._step(shards, batch) for batch in self._batches())
                self._end_epoch(np.float32(loss / (settings.n_rows * settings.mean_weight)))
            if settings.progress is not None:
                settings.progress(len(self.losses))

    def outcome(self) -> Outcome:
        """Returns the result."""
        return Outcome(self.weights, self.intercept, np.array(self.losses, np.float32), self.converged)

    def _batches(self) -> Iterator[_Batch | None]:
        """The row indices of each step of an epoch; None means all rows."""
        n_rows, size = self._settings.n_rows, self._settings.batch_size
        if size == n_rows:
            yield None
        else:
            order = self._settings.permutation()
            yield from (order[first : first + size] for first in range(0, n_rows, size))

    def _step(self, shards: Sequence[Any], batch: _Batch | None) -> float:
        """Makes a step. Returns the sum of the loss over its rows."""
        settings, weights = self._settings, self.weights.astype(np.float32)
        started = [shard for shard in shards if shard.start(weights, self.intercept, batch)]
        sums = np.sum([shard.sums() for shard in started], 0)
        n = settings.mean_weight * (settings.n_rows if batch is None else len(batch))
        loss = float(sums[0] + n * settings.alpha / 2 * np.vdot(self.weights, self.weights))
        of_intercept, of_weights = np.split(sums[1:], [self.intercept.size])
        rate = settings.learning_rate
        self.intercept = self.intercept - rate * of_intercept.reshape(self.intercept.shape) / n * settings.fit_intercept
        self.weights -= rate * (of_weights.reshape(self.weights.shape) / n + settings.alpha * self.weights)
        return loss

    def _end_epoch(self, loss: np.float32) -> None:
        self.losses.append(loss)
        if self._settings.tol is not None:
            self._n_stale = self._n_stale + 1 if loss > self._best - np.float32(self._settings.tol) else 0
            self._best = min(self._best, loss)
            self.converged = self._n_stale >= self._settings.patience
