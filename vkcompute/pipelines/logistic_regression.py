"""Logistic regression, trained on Vulkan devices, with scikit-learn's conventions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic import inputs, model_file
from vkcompute.pipelines.logistic.estimator import Estimator, warning_class
from vkcompute.pipelines.logistic.lbfgs import MOST_OF_HOST, train_on_host
from vkcompute.pipelines.logistic.settings import Outcome, settings_from
from vkcompute.runtime.progress import progress_bar

if TYPE_CHECKING:
    from vkcompute.runtime.groups.group import DeviceGroup
    from vkcompute.runtime.runtime import Runtime

HostArray = npt.NDArray[Any]
_Self = TypeVar("_Self", bound="LogisticRegression")

_FITTED = ("coef_", "intercept_", "classes_", "loss_curve_", "n_iter_", "n_features_in_", "feature_names_in_")


class LogisticRegression(Estimator):
    """Logistic regression with scikit-learn's parameters and results: the minimum of the mean cross-entropy.

    It is the minimum over `coef` and `intercept` of

        mean over the rows of log(1 + exp(-s z)) + alpha / 2 * ||coef||^2,    z = X coef + intercept, s = -1 or 1,

    where `alpha` is 1 / (C * sum of the rows' weights). More than two classes are multinomial: each has its own z, and
    the loss of a row is -log(softmax(z)) of its class.

    L-BFGS stops at the minimum, or with a ConvergenceWarning at `max_iter`. Gradient descent, `solver="gradient"`,
    makes steps of `learning_rate` times the gradient, of all rows or of batches.

    Scale the features first (StandardScaler). If their scales differ much, L-BFGS takes many iterations. A step of
    gradient descent that suits the small ones is too long for the large ones, and training diverges, with a warning.

    Training runs in float32 on the device; other dtypes of `X` are converted. Small tables are an exception: the host
    runs their L-BFGS in float64, in less time than a launch takes. They have at most 4,096 elements, times the number
    of classes if there are more than two. With the same data, parameters and seed, results on one device are the same
    bit for bit.

    Args:
        penalty: "l2", or None for none. The intercept is not penalized.
        C: inverse strength of the penalty, as in scikit-learn.
        tol: L-BFGS stops when no derivative of the loss exceeds it, and at most this share of the loss is left to
            gain. Gradient descent stops after `n_iter_no_change` consecutive epochs that do not improve the best loss
            by `tol`. None means no early stopping. With one step of gradient descent per epoch, no number suits all
            data: the loss improves by less than SGDClassifier's 1e-3 long before the minimum.
        fit_intercept: False keeps the intercept at zero, or at `intercept_init`.
        random_state: seed of the order of rows in batches: None, an int, a numpy Generator or RandomState.
        solver: "lbfgs" or "gradient".
        max_iter: maximum number of iterations, or of epochs of gradient descent, which are passes over the rows.
        warm_start: if True, `fit` starts from the result of the previous `fit`.
        alpha: strength of the penalty beside the mean loss, instead of `C`.
        learning_rate: length of a step of gradient descent; None is 0.1.
        batch_size: rows per step of gradient descent. None means all rows: one step per epoch. Otherwise each epoch
            uses the rows in a new random order, and its last batch may be smaller.
        n_iter_no_change: see `tol`.
        class_weight: a dict with a weight per label, 1 for those that it lacks, by which the weights of the rows are
            multiplied. "balanced" gives each class the same sum of weights.
        device: a `Runtime` or a `DeviceGroup`. A device's index, part of its name, or a list of these is opened for
            each fit. None means that of arrays made without a device. The devices of a group share the rows, by speeds
            measured in the first epochs. Only `fit` uses the device: predictions take the host less time than a copy.

    Attributes:
        coef_: shape (1, n_features), or (n_classes, n_features) for more than two classes, float64.
        intercept_: shape (1,) or (n_classes,), float64.
        classes_: the labels, sorted; of two, positive decisions are for the second.
        n_iter_: shape (1,): number of iterations or epochs.
        loss_curve_: float64: per iteration or epoch, the mean cross-entropy plus the penalty. Each row's loss is taken
            before the step that used it.
        n_features_in_: number of features.
        feature_names_in_: feature names, if `X` was a data frame with names.
    """

    def __init__(
        self,
        penalty: str | None = "l2",
        *,
        C: float = 1.0,
        tol: float | None = 1e-4,
        fit_intercept: bool = True,
        random_state: Any = None,
        solver: str = "lbfgs",
        max_iter: int = 100,
        warm_start: bool = False,
        alpha: float | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        n_iter_no_change: int = 5,
        class_weight: Mapping[Any, float] | str | None = None,
        device: Runtime | DeviceGroup | Sequence[Runtime | int | str] | int | str | None = None,
    ) -> None:
        self.penalty, self.C, self.tol, self.fit_intercept = penalty, C, tol, fit_intercept
        self.random_state, self.solver, self.max_iter, self.warm_start = random_state, solver, max_iter, warm_start
        self.alpha, self.learning_rate, self.batch_size = alpha, learning_rate, batch_size
        self.n_iter_no_change, self.class_weight, self.device = n_iter_no_change, class_weight, device

    def fit(
        self: _Self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        progress: Callable[[int], None] | bool | None = None,
    ) -> _Self:
        """Trains on `X`, shape (n_rows, n_features), and labels `y`, shape (n_rows,). Returns the estimator.

        A Dask array `X` stays in chunks of rows where Dask computes: each step sums over all chunks, in one round trip.
        Its labels and weights, if these are Dask arrays, come to the host. `device` is ignored: workers have their own.

        Args:
            coef_init: initial weights, of the shape of `coef_`; n_features of them for two classes; default zeros.
            intercept_init: initial intercepts, or one for all; default zero.
            sample_weight: shape (n_rows,): relative weights of the rows.
            progress: called during training with the number of iterations or epochs completed; True draws a bar.

        Raises:
            ValueError: invalid data or parameters, or the loss overflows. It is a DataError with row and column if
                a value is not finite.
            OutOfDeviceMemory: the table does not fit.
        """
        name = type(self).__name__
        if hasattr(X, "__dask_graph__"):
            outcome, classes = self._trained_collection(X, y, coef_init, intercept_init, sample_weight, progress)
            self._keep(outcome, classes, None)
            return self
        names = inputs.feature_names(X)
        table = inputs.checked_table(X, name, as_float32=True)
        classes, codes = inputs.checked_labels(y, len(table), name)
        coef, intercept = self._start(len(classes), table.shape[1], coef_init, intercept_init)
        weights, total = self._weights(sample_weight, classes, codes)
        with progress_bar(progress, name, self._unit, self.max_iter) as update:
            settings = settings_from(self, weights, total, update)
            with self._training(table, len(classes), settings.solver) as train:
                outcome = train(table, inputs.targets_of(codes, weights), settings, coef, intercept)
        self._keep(outcome, classes, names)
        return self

    def _trained_collection(
        self, X: Any, y: Any, coef_init: Any, intercept_init: Any, sample_weight: Any, progress: Any
    ) -> tuple[Outcome, HostArray]:
        """Trains on a Dask array; see `fit`. Returns the outcome and the classes."""
        from vkcompute.pipelines.logistic.chunked import train_chunked

        if getattr(X, "ndim", 0) != 2 or np.isnan(X.shape).any():
            raise ValueError(f"X is a Dask array with two axes of known lengths; got {X!r}; call compute_chunk_sizes()")
        y, sample_weight = (
            np.asarray(operand) if hasattr(operand, "__dask_graph__") else operand for operand in (y, sample_weight)
        )
        classes, codes = inputs.checked_labels(y, len(X), type(self).__name__)
        if len(classes) > 2:
            raise ValueError(
                f"Dask arrays are trained on with two classes; got {len(classes)}; pass X.compute() for more of them"
            )
        weights, total = self._weights(sample_weight, classes, codes)
        coef, intercept = self._start(2, X.shape[1], coef_init, intercept_init)
        with progress_bar(progress, type(self).__name__, self._unit, self.max_iter) as update:
            settings = settings_from(self, weights, total, update)
            return train_chunked(X, inputs.targets_of(codes, weights), settings, coef, intercept), classes

    @property
    def _unit(self) -> str:
        """The noun of what a progress bar counts."""
        return "iterations" if self.solver == "lbfgs" else "epochs"

    def _weights(self, sample_weight: Any, classes: HostArray, codes: HostArray) -> tuple[Any, float]:
        """Returns the weights of the rows, scaled, and the sum of those before; a class's weight is a factor."""
        if self.class_weight is not None:
            sample_weight = inputs.with_class_weights(self.class_weight, sample_weight, classes, codes)
        return inputs.checked_weights(sample_weight, codes), inputs.total_weight(sample_weight, len(codes))

    @contextmanager
    def _training(self, table: HostArray, n_classes: int, solver: str) -> Iterator[Callable[..., Outcome]]:
        """Opens the devices. Yields `train`, of two classes by gradient descent, or `train_sharded`, bound to them.

        A small table is trained on by the host. A device without the buffers for the shaders computes with arrays.
        """
        is_small = solver == "lbfgs" and table.size * (n_classes if n_classes > 2 else 1) <= MOST_OF_HOST
        if is_small and self.device is None:
            yield train_on_host
            return
        # Imported here: a loaded model predicts without Vulkan.
        from vkcompute.pipelines.logistic.sharded import train_sharded
        from vkcompute.pipelines.logistic.step import runs_shaders
        from vkcompute.pipelines.logistic.training import train
        from vkcompute.runtime.groups.group import DeviceGroup
        from vkcompute.runtime.runtime import Runtime, current_runtime

        with ExitStack() as opened:
            device: Any = current_runtime() if self.device is None else self.device
            if isinstance(device, (list, tuple)):
                device = opened.enter_context(DeviceGroup(device))
            elif not isinstance(device, (Runtime, DeviceGroup)):
                device = opened.enter_context(Runtime(device))
            by_host = n_classes > 2 or solver == "lbfgs"  # which makes the steps
            if isinstance(device, Runtime) and (by_host or not runs_shaders(device)):
                device = opened.enter_context(DeviceGroup([device]))
            yield (
                train_on_host
                if is_small
                else partial(train_sharded if isinstance(device, DeviceGroup) else train, device)
            )

    def _start(
        self, n_classes: int, n_features: int, coef_init: Any, intercept_init: Any
    ) -> tuple[npt.NDArray[np.float32], Any]:
        """Returns the weights and the intercept of the first step; of more than two classes, one row per class."""
        warm = self.warm_start and self.__sklearn_is_fitted__()
        n_rows = n_classes if n_classes > 2 else 1
        shape = (n_rows, n_features)
        if coef_init is None:
            coef_init = self.coef_ if warm else np.zeros(shape)
        if intercept_init is None:
            intercept_init = self.intercept_ if warm else 0.0
        coef, intercept = np.asarray(coef_init, np.float32), np.asarray(intercept_init, np.float32)
        if coef.shape != shape and (n_rows > 1 or coef.shape != (n_features,)):
            what = f"{n_features} weights, one per feature" if n_rows == 1 else f"weights of shape {shape}"
            raise ValueError(f"coef_init holds {what}; got shape {coef.shape}")
        if intercept.size != 1 and intercept.shape != (n_rows,):
            what = "one number" if n_rows == 1 else f"one number, or {n_rows}"
            raise ValueError(f"intercept_init is {what}; got shape {intercept.shape}")
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise ValueError("coef_init and intercept_init are finite as float32")
        if n_rows == 1:
            return coef.reshape(-1), float(intercept.item())
        return coef, np.broadcast_to(intercept.reshape(-1), n_rows)

    def _keep(self, outcome: Outcome, classes: HostArray, names: HostArray | None) -> None:
        n_epochs = len(outcome.losses)
        if not (
            np.isfinite(outcome.losses).all()
            and np.isfinite(outcome.weights).all()
            and np.isfinite(outcome.intercept).all()
        ):
            raise ValueError(
                f"Floating-point under-/overflow occurred at epoch #{n_epochs}. Scaling input data with StandardScaler "
                f"or MinMaxScaler might help{self._smaller_steps()}."
            )
        self.coef_ = np.atleast_2d(outcome.weights)
        self.intercept_ = np.array(outcome.intercept, np.float64).reshape(-1)
        self.classes_ = classes
        self.n_iter_ = np.array([n_epochs], np.int32)
        self.loss_curve_ = outcome.losses.astype(np.float64)
        self.n_features_in_ = outcome.weights.shape[-1]
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if self.loss_curve_[-1] > max(1.0, self.loss_curve_[0]):  # a warm start may begin above 1
            warnings.warn(
                f"The training diverged: its loss is {self.loss_curve_[-1]:.4g}; with zero weights it is "
                f"{np.log(len(classes)):.3f}. Scaling input data with StandardScaler or MinMaxScaler might help"
                f"{self._smaller_steps()}.",
                warning_class("ConvergenceWarning"),
                stacklevel=3,
            )
        elif self.tol is not None and not outcome.converged:
            name, unit = "lbfgs" if self.solver == "lbfgs" else "gradient descent", self._unit
            more = f"increase max_iter={self.max_iter}, or scale the features, with StandardScaler"
            warnings.warn(
                f"{name} failed to converge after {n_epochs} {unit}: {outcome.remedy or more}",
                warning_class("ConvergenceWarning"),
                stacklevel=3,
            )

    def _smaller_steps(self) -> str:
        """Returns the remedy of gradient descent that diverges."""
        return f", or a learning_rate below {self.learning_rate or 0.1}" if self.solver == "gradient" else ""

    def decision_function(self, X: Any) -> HostArray:
        """z for each row of `X`, in the precision of `X`.

        Of two classes, its shape is (n_rows,), and it is positive for the second. Of more, it is (n_rows, n_classes).

        Raises:
            NotFittedError: `fit` has not been called.
            ValueError: `X` is invalid, or its features differ from those of `fit` in number or names.
        """
        self._require_fitted()
        name = type(self).__name__
        inputs.require_same_names(inputs.feature_names(X), getattr(self, "feature_names_in_", None), name)
        table = inputs.checked_table(X, name, as_float32=False)
        if table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {table.shape[1]} features, but {name} is expecting {self.n_features_in_} features as input."
            )
        kind = np.float32 if table.dtype == np.float32 else np.float64
        coef = self.coef_ if len(self.classes_) > 2 else self.coef_[0]
        z: HostArray = table @ coef.astype(kind).T + self.intercept_.astype(kind)
        return z

    def predict(self, X: Any) -> HostArray:
        """The likelier class of each row, shape (n_rows,)."""
        z = self.decision_function(X)
        labels: HostArray = self.classes_[(z > 0).astype(np.intp) if z.ndim == 1 else z.argmax(axis=1)]
        return labels

    def predict_log_proba(self, X: Any) -> HostArray:
        """Logarithms of the probabilities of the classes, shape (n_rows, n_classes)."""
        z = self.decision_function(X)
        if z.ndim == 2:
            z -= z.max(axis=1, keepdims=True)
            z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
            return z
        return np.stack([-np.logaddexp(0, z), -np.logaddexp(0, -z)], axis=1)

    def predict_proba(self, X: Any) -> HostArray:
        """Probabilities of the classes, shape (n_rows, n_classes)."""
        probabilities: HostArray = np.exp(self.predict_log_proba(X))
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the fraction of rows whose predicted class equals `y`, weighted by `sample_weight`.

        Raises:
            ValueError: not one label or weight per row, or only weights of zero; else as `predict`.
        """
        predicted = self.predict(X)
        right = predicted == inputs.label_column(y, len(predicted), type(self).__name__)
        weights = None if sample_weight is None else inputs.row_weights(sample_weight, len(predicted))
        if weights is not None and not weights.any():
            raise ValueError("sample_weight has only zeros; give at least one row a positive weight")
        return float(np.average(right, weights=weights))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted model to `path`, a numpy .npz, atomically.

        Raises:
            NotFittedError: `fit` has not been called.
            TypeError: the classes are neither numbers nor strings.
            OSError: the file cannot be written.
        """
        self._require_fitted()
        state = {name: getattr(self, name) for name in _FITTED if hasattr(self, name)}
        params = self.get_params()
        del params["device"]  # specific to this machine
        model_file.write(path, params, state)

    @classmethod
    def load(cls: type[_Self], path: str | os.PathLike[str]) -> _Self:
        """Reads a model written by `save`. Nothing in the file is executed.

        Raises:
            DataError: the file is damaged, or not such a model.
            OSError: it cannot be read.
        """
        params, state = model_file.read(path, cls._parameters())
        model = cls(**params)
        for name, value in state.items():
            setattr(model, name, value)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling: runtimes are replaced by their devices' names."""
        return {**self.__dict__, "device": _by_name(self.device)}


def _by_name(device: Any) -> Any:
    runtimes = getattr(device, "runtimes", device)
    if isinstance(runtimes, (list, tuple)):
        return [_by_name(runtime) for runtime in runtimes]
    return runtimes if runtimes is None or isinstance(runtimes, (int, str)) else runtimes.device.name
