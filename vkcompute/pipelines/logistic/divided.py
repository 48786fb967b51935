"""Training on several devices: each sums over its rows, the host adds the sums up and takes the step."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.narrow import MAX_FEATURES, NarrowStep
from vkcompute.pipelines.logistic.settings import Floats, Outcome, Settings
from vkcompute.pipelines.logistic.table import upload
from vkcompute.pipelines.logistic.wide import WideStep
from vkcompute.runtime.group import DeviceGroup
from vkcompute.runtime.runtime import Runtime

_UNMEASURED, _MEASURED = 1, 5  # steps: drivers compile in the first
_WORTH = 1.1  # so many times its due may a device have before the table is divided anew


def train_divided(
    group: DeviceGroup,
    X: npt.NDArray[np.generic],
    targets: Floats,
    settings: Settings,
    weights: Floats,
    intercept: float,
) -> Outcome:
    """`training.train` on the devices of a group, with the same arguments, on all rows at each step.

    The first steps are measured, unless a runtime is being profiled, and the rows divided anew if that pays.

    Raises:
        OutOfDeviceMemory, ValueError: as `train`; ValueError also for batches.
    """
    n_rows = len(X)
    if settings.batch_size < n_rows:
        raise ValueError(
            f"on several devices each step takes all rows: batch_size is None or at least {n_rows}; got "
            f"{settings.batch_size}; train in batches on one device"
        )
    descent = _Descent(settings, weights, intercept, n_rows)
    measures = not any(runtime.scheduler.profile for runtime in group.runtimes)
    while True:
        split = group.split(n_rows)
        with ExitStack() as owner:
            devices = [
                _Device(runtime, X[rows.start : rows.stop], targets[rows.start : rows.stop], settings, owner)
                for runtime, rows in zip(group.runtimes, split, strict=True)
                if rows
            ]
            if measures:
                measures = False
                descent.run(devices, _UNMEASURED)
                with group.balance() as launched:
                    descent.run(devices, _MEASURED)
                    launched[:] = map(len, split)
                if any(len(rows) > _WORTH * n_rows * due for rows, due in zip(split, group.shares, strict=True)):
                    continue
            descent.run(devices, settings.max_iter)
            return Outcome(descent.weights, descent.intercept, np.array(descent.losses, np.float32), descent.converged)


class _Device:
    """The rows of one device, and what sums over them."""

    def __init__(
        self, runtime: Runtime, X: npt.NDArray[np.generic], targets: Floats, settings: Settings, owner: ExitStack
    ) -> None:
        n_features = X.shape[1]
        chunks = upload(runtime, X, targets, owner)
        self._runtime, self._model = runtime, Model(runtime, np.zeros(n_features, np.float32), 0.0, owner)
        kind = WideStep if n_features > MAX_FEATURES else NarrowStep
        self._step = kind(runtime, chunks, self._model, settings, owner)

    def start(self, weights: Floats, intercept: float) -> None:
        """Starts to sum with these weights."""
        self._model.write(weights, intercept)
        self._step.launch_sums(None)
        self._runtime.flush()

    def sums(self) -> npt.NDArray[np.float64]:
        """Waits for them: loss, and its derivatives by the intercept and by each weight."""
        return self._step.read_sums()


class _Descent:
    """Weights in float64, and how training ends: by the rules of shaders/include/logistic_step.glsl.

    Attributes:
        weights: shape (n_features,).
        losses: of each step, before it.
        converged: whether training has stopped by `tol`.
    """

    def __init__(self, settings: Settings, weights: Floats, intercept: float, n_rows: int) -> None:
        self._settings, self._total_weight = settings, n_rows * settings.mean_weight
        self.weights, self.intercept = weights.astype(np.float64), intercept
        self.losses: list[np.float32] = []
        self._best, self._n_stale = np.float32(np.inf), 0
        self.converged = False

    def run(self, devices: list[_Device], n_steps: int) -> None:
        """Takes so many steps, or as many as are left."""
        progress = self._settings.progress
        for _ in range(min(n_steps, self._settings.max_iter - len(self.losses))):
            if self.converged or not np.isfinite(self.losses[-1:]).all():
                break
            with np.errstate(over="ignore", invalid="ignore"):  # what diverges ends with a loss that is not finite
                weights = self.weights.astype(np.float32)
                for device in devices:
                    device.start(weights, self.intercept)
                self._step(np.sum([device.sums() for device in devices], 0) / self._total_weight)
            if progress is not None:
                progress(len(self.losses))

    def _step(self, means: npt.NDArray[np.float64]) -> None:
        settings = self._settings
        loss = np.float32(means[0] + settings.alpha / 2 * (self.weights @ self.weights))
        self.intercept -= settings.learning_rate * float(means[1]) * settings.fit_intercept
        self.weights -= settings.learning_rate * (means[2:] + settings.alpha * self.weights)
        self.losses.append(loss)
        if settings.tol is not None:
            self._n_stale = self._n_stale + 1 if loss > self._best - np.float32(settings.tol) else 0
            self._best = min(self._best, loss)
            self.converged = self._n_stale >= settings.patience
