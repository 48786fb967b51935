"""What `logreg train` computes: rows held out, features standardized, a model fitted and judged."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.cli.header import listed
from vkcompute.cli.table import Table
from vkcompute.errors import DataError
from vkcompute.pipelines.logistic_regression import LogisticRegression
from vkcompute.runtime.runtime import Runtime

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Result:
    """A fitted model, for features as they are in the file, and what there is to say of it.

    Attributes:
        class_counts: rows of each class, in the order of the model's `classes_`.
        n_train, n_test, n_features: rows that it was trained on, rows held out, columns.
        seconds: what the training took.
        accuracy, log_loss: of the training rows and of those held out (NaN where there are none).
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
    """Trains as `args`, the arguments of the command, ask for; `progress` is called with the number of epochs done.

    Raises:
        DataError: the target has not two classes, or a number is beyond float32.
        ValueError: too few rows are left to train on, or training overflows.
    """
    rows, labels = table.numbers, table.labels
    if labels is None:
        raise DataError(f"{table.path} was read without a target")
    classes, counts = _two_classes(labels, args.target, table.path)
    _require_float32(table)
    second = labels == classes[1]
    held_out = _held_out(second, args.test_fraction, args.seed)
    parts = [(rows[~held_out], second[~held_out]), (rows[held_out], second[held_out])]
    model, seconds = _fitted(*parts[0], args, runtime, progress)
    (accuracy, log_loss), (test_accuracy, test_log_loss) = (_judged(model, *part) for part in parts)
    model.classes_, model.feature_names_in_ = classes, np.array(table.names, dtype=object)
    return Result(
        model=model,
        class_counts=dict(zip(classes.tolist(), counts.tolist(), strict=True)),
        n_train=len(parts[0][1]),
        n_test=len(parts[1][1]),
        n_features=rows.shape[1],
        seconds=seconds,
        accuracy=(accuracy, test_accuracy),
        log_loss=(log_loss, test_log_loss),
    )


def _fitted(
    rows: Array, second: Array, args: argparse.Namespace, runtime: Runtime, progress: Callable[[int], None] | None
) -> tuple[LogisticRegression, float]:
    """A model for the rows as they are, standardized or not while it was trained; and the seconds that this took.

    `second` tells which rows are of the second class. The model's classes are 0 and 1, as the library takes no
    fractions for names of classes, and a file may have them.
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
        scale[scale == 0] = 1  # a constant column stays one
        rows = (rows - mean) / scale
    start = time.perf_counter()
    model.fit(rows, second.astype(np.int64), progress=progress)
    seconds = time.perf_counter() - start
    # z = coef (x - mean) / scale + intercept, as weights of x itself
    model.coef_ = model.coef_ / scale
    model.intercept_ = model.intercept_ - model.coef_ @ mean
    return model, seconds


def _two_classes(labels: Array, target: str, path: str) -> tuple[Array, Array]:
    """The classes, sorted, and how many rows each has."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) != 2:
        names = listed(classes.tolist())
        what = "class" if len(classes) == 1 else "classes"
        raise DataError(f"the target {target!r} of {path} has {len(classes)} {what} ({names}); two are needed")
    return classes, counts


def _require_float32(table: Table) -> None:
    limit = float(np.finfo(np.float32).max)
    if table.numbers.size and max(table.numbers.max(), -table.numbers.min()) > limit:
        row, column = map(int, np.argwhere(np.abs(table.numbers) > limit)[0])
        value = table.numbers[row, column]
        raise DataError(
            f"{table.path}, row {row + 1}, column {table.names[column]!r}: {value:g} is too large; training is in "
            f"float32, which holds numbers up to {limit:g}"
        )


def _held_out(second: Array, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which rows are held out: of each class the given share, drawn by `seed`."""
    held_out = np.zeros(len(second), np.bool_)
    random = np.random.default_rng(seed)
    for of_class in (~second, second):
        rows = np.flatnonzero(of_class)
        n_held_out = round(fraction * len(rows))
        if n_held_out == len(rows):
            raise ValueError(f"--test-fraction {fraction:g} leaves no row of a class of {len(rows)} to train on")
        held_out[random.permutation(rows)[:n_held_out]] = True
    if fraction and not held_out.any():
        raise ValueError(f"--test-fraction {fraction:g} of {len(second)} rows is not one row of either class")
    return held_out


def _judged(model: LogisticRegression, rows: Array, second: Array) -> tuple[float, float]:
    """Accuracy, and the mean of -log of the probability that the model gave to what was the case."""
    if not len(rows):
        return float("nan"), float("nan")
    given = model.predict_log_proba(rows)[np.arange(len(rows)), second.astype(np.intp)]
    return model.score(rows, second), float(-given.mean())
