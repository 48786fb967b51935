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
    """Trains by the command's arguments. `progress` is called with the number of iterations or epochs completed.

    Raises:
        DataError: the target has one class, or few rows per class, or a number exceeds float32.
        ValueError: no rows of a class are left to train on, or training overflows.
    """
    rows, labels = table.numbers, table.labels
    if labels is None:
        raise DataError(f"{table.path} was read without a target")
    classes, codes, counts = _classes(labels, args.target, table.path)
    _require_float32(table)
    held_out = _held_out(codes, args.test_fraction, args.seed)
    splits = [(rows[~held_out], codes[~held_out]), (rows[held_out], codes[held_out])]
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


def solver_of(args: argparse.Namespace) -> str:
    """Returns the solver: gradient descent if one of its options is given, else L-BFGS."""
    return "lbfgs" if args.learning_rate is None and args.batch_size is None else "gradient"


def _fitted(
    rows: HostArray,
    codes: HostArray,
    args: argparse.Namespace,
    runtime: Runtime,
    progress: Callable[[int], None] | None,
) -> tuple[LogisticRegression, float]:
    """Fits a model for unscaled rows. Returns it with the duration in seconds.

    `codes` are the numbers of the rows' classes, and the model's classes here: those in a file may be fractions, which
    `fit` rejects.
    """
    solver = solver_of(args)
    model = LogisticRegression(
        solver=solver,
        learning_rate=args.learning_rate,
        max_iter=args.max_iter,
        alpha=0.0 if args.alpha is None and solver == "gradient" else args.alpha,
        tol=1e-4 if args.tol is None and solver == "lbfgs" else args.tol,
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
    model.fit(rows, codes, progress=progress)
    seconds = time.perf_counter() - start
    # z = coef (x - mean) / scale + intercept, as a function of x
    model.coef_ = model.coef_ / scale
    model.intercept_ = model.intercept_ - model.coef_ @ mean
    return model, seconds


def _classes(labels: HostArray, target: str, path: str) -> tuple[HostArray, HostArray, HostArray]:
    """The classes, sorted, the number of each row's class, and the rows of each class."""
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise DataError(f"the target {target!r} of {path} has 1 class ({quoted(classes.tolist())}); it needs two")
    if len(classes) > 2 and len(classes) > len(labels) // 2:
        raise DataError(
            f"the target {target!r} of {path} has {len(classes)} classes in {len(labels)} rows; a class needs two "
            "rows on average"
        )
    return classes, codes, counts


def _require_float32(table: Table) -> None:
    limit = float(np.finfo(np.float32).max)
    if table.numbers.size and max(np.max(table.numbers), -np.min(table.numbers)) > limit:
        row, column = map(int, np.argwhere(np.abs(table.numbers) > limit)[0])
        value = table.numbers[row, column]
        raise DataError(
            f"{table.path}, row {row + 1}, column {table.names[column]!r}: {value:g} is too large; training uses "
            f"float32, whose maximum is {limit:g}"
        )


def _held_out(codes: HostArray, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """A mask of the held-out rows: the given fraction of each class, drawn with `seed`."""
    held_out = np.zeros(len(codes), np.bool_)
    random = np.random.default_rng(seed)
    for code in range(codes.max() + 1):
        rows = np.flatnonzero(codes == code)
        n_held_out = round(fraction * len(rows))
        if n_held_out == len(rows):
            raise ValueError(f"--test-fraction {fraction:g} leaves no row of a class of {len(rows)} to train on")
        held_out[random.permutation(rows)[:n_held_out]] = True
    if fraction and not held_out.any():
        raise ValueError(f"--test-fraction {fraction:g} of {len(codes)} rows holds out no row; use a larger fraction")
    return held_out


def _scores(model: LogisticRegression, rows: HostArray, codes: HostArray) -> tuple[float, float]:
    """Accuracy and log-loss (the mean of -log of the true class's probability)."""
    if not len(rows):
        return float("nan"), float("nan")
    log_probabilities = model.predict_log_proba(rows)[np.arange(len(rows)), codes]
    return model.score(rows, codes), float(-log_probabilities.mean())
