"""The computation of `logreg train`: hold out rows, standardize features, fit and score a model."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.cli.header import quoted
from vkcompute.cli.table import Table
from vkcompute.errors import DataError
from vkcompute.pipelines.logistic_regression import LogisticRegression
from vkcompute.runtime.runtime import Runtime

HostArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Result:
    """A fitted model for unscaled features, and its scores.

    Attributes:
        class_counts: rows per class, in the order of the model's `classes_`.
        n_train, n_test, n_features: training rows, held-out rows, columns.
        seconds: duration of the training.
        accuracy, log_loss: for the training rows and the held-out rows (NaN if none).
    """

    model: LogisticRegression
    class_counts: dict[Any, int]
    n_train: int
    n_test: int
    n_features: int
    seconds: float
    accuracy: tuple[float, float]
    log_loss: tuple[float, float]


def regress(
    table: Table, args: argparse.Namespace, runtime: Runtime, progress: Callable[[int], None] | None = None
) -> Result:
    """Trains by the command's arguments. `progress` is called with the number of epochs completed.

    Raises:
        DataError: the target does not have two classes, or a number exceeds float32.
        ValueError: no rows of a class are left to train on, or training overflows.
    """
    rows, labels = table.numbers, table.labels
    if labels is None:
        raise DataError(f"{table.path} was read without a target")
    classes, counts = _two_classes(labels, args.target, table.path)
    _require_float32(table)
    second = labels == classes[1]
    held_out = _held_out(second, args.test_fraction, args.seed)
    splits = [(rows[~held_out], second[~held_out]), (rows[held_out], second[held_out])]
    model, seconds = _fitted(*splits[0], args, runtime, progress)
    (accuracy, log_loss), (test_accuracy, test_log_loss) = (_scores(model, *split) for split in splits)
    model.classes_, model.feature_names_in_ = classes, np.array(table.names, dtype=object)
    return Result(
        model=model,
        class_counts=dict(zip(classes.tolist(), counts.tolist(), strict=True)),
        n_train=len(splits[0][1]),
        n_test=len(splits[1][1]),
        n_features=rows.shape[1],
        seconds=seconds,
        accuracy=(accuracy, test_accuracy),
        log_loss=(log_loss, test_log_loss),
    )


def _fitted(
    rows: HostArray,
    second: HostArray,
    args: argparse.Namespace,
    runtime: Runtime,
    progress: Callable[[int], None] | None,
) -> tuple[LogisticRegression, float]:
    """Fits a model for unscaled rows. Returns it with the duration in seconds.

    `second` is the mask of the second class. The model's classes are 0 and 1 here: classes in a file may be fractions,
    which `fit` rejects.
    """
    model = LogisticRegression(
        learning_rate=args.learning_rate,
        max_iter=args.max_iter,
        alpha=args.alpha,
        tol=args.tol,
        batch_size=args.batch_size,
        random_state=args.seed,
        device=runtime,
    )
    mean, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    if args.standardize:
        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        scale[scale == 0] = 1  # constant columns
        rows = (rows - mean) / scale
    start = time.perf_counter()
    model.fit(rows, second.astype(np.int64), progress=progress)
    seconds = time.perf_counter() - start
    # z = coef (x - mean) / scale + intercept, as a function of x
    model.coef_ = model.coef_ / scale
    model.intercept_ = model.intercept_ - model.coef_ @ mean
    return model, seconds


def _two_classes(labels: HostArray, target: str, path: str) -> tuple[HostArray, HostArray]:
    """The classes, sorted, and the rows of each."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) != 2:
        names = quoted(classes.tolist())
        noun = "class" if len(classes) == 1 else "classes"
        raise DataError(f"the target {target!r} of {path} has {len(classes)} {noun} ({names}); it needs two")
    return classes, counts


def _require_float32(table: Table) -> None:
    limit = float(np.finfo(np.float32).max)
    if table.numbers.size and max(table.numbers.max(), -table.numbers.min()) > limit:
        row, column = map(int, np.argwhere(np.abs(table.numbers) > limit)[0])
        value = table.numbers[row, column]
        raise DataError(
            f"{table.path}, row {row + 1}, column {table.names[column]!r}: {value:g} is too large; training uses "
            f"float32, whose maximum is {limit:g}"
        )


def _held_out(second: HostArray, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """A mask of the held-out rows: the given fraction of each class, drawn with `seed`."""
    held_out = np.zeros(len(second), np.bool_)
    random = np.random.default_rng(seed)
    for of_class in (~second, second):
        rows = np.flatnonzero(of_class)
        n_held_out = round(fraction * len(rows))
        if n_held_out == len(rows):
            raise ValueError(f"--test-fraction {fraction:g} leaves no row of a class of {len(rows)} to train on")
        held_out[random.permutation(rows)[:n_held_out]] = True
    if fraction and not held_out.any():
        raise ValueError(f"--test-fraction {fraction:g} of {len(second)} rows holds out no row; use a larger fraction")
    return held_out


def _scores(model: LogisticRegression, rows: HostArray, second: HostArray) -> tuple[float, float]:
    """Accuracy and log-loss (the mean of -log of the true class's probability)."""
    if not len(rows):
        return float("nan"), float("nan")
    log_probabilities = model.predict_log_proba(rows)[np.arange(len(rows)), second.astype(np.intp)]
    return model.score(rows, second), float(-log_probabilities.mean())
