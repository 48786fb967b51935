"""Validation of the arguments of `fit` and `predict`, with scikit-learn's messages and the position of a bad value."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.errors import DataError
from vkcompute.pipelines.logistic.estimator import warning_class
from vkcompute.pipelines.logistic.settings import Floats

HostArray = npt.NDArray[Any]

_BLOCK = 1 << 16  # elements checked against float32 at a time, so that they stay in the cache


def checked_table(X: Any, owner: str, *, as_float32: bool) -> HostArray:
    """Converts `X` to finite real numbers of shape (n_rows, n_features), with at least one row and feature.

    Args:
        X: anything that numpy converts to such an array.
        owner: the estimator's name, for messages.
        as_float32: if True, the values must be finite as float32 too.

    Raises:
        TypeError: sparse, or objects that are not numbers.
        ValueError: another shape, text, or complex numbers; DataError for NaN and infinity.
    """
    _refuse_sparse(X, "X")
    array = _real(np.asarray(X), "X")
    if array.ndim != 2:
        raise ValueError(_wrong_dimensions(array, owner))
    for axis, noun in enumerate(("sample", "feature")):
        if array.shape[axis] == 0:
            raise ValueError(
                f"Found array with 0 {noun}(s) (shape={array.shape}) while a minimum of 1 is required by {owner}."
            )
    _require_finite(array, "X", as_float32=as_float32)
    return array


def checked_labels(y: Any, n_rows: int, owner: str) -> tuple[HostArray, HostArray]:
    """Validates the labels. Returns the classes, sorted, and the number of each row's class.

    Of two classes, the numbers are a mask of the second.

    Raises:
        ValueError: not one label per row, or one class; DataError for NaN and infinity.
        TypeError: labels that cannot be sorted, e.g. numbers among strings.
    """
    labels = label_column(y, n_rows, owner)
    if labels.dtype.kind == "f" and not (labels == np.trunc(labels)).all():
        raise ValueError(
            "Unknown label type: continuous. Maybe you are trying to fit a classifier, which expects discrete classes "
            "on a regression target with continuous values."
        )
    classes = _classes(labels)
    if len(classes) == 1:
        raise ValueError(
            f"{owner} needs samples of at least 2 classes in the data, but the data contains only one class: "
            f"{classes.tolist()[0]!r}"
        )
    return classes, labels == classes[1] if len(classes) == 2 else np.searchsorted(classes, labels)


def label_column(y: Any, n_rows: int, owner: str) -> HostArray:
    """Returns the labels as an array with one axis.

    Raises:
        ValueError: not one label per row; DataError for NaN and infinity.
    """
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None")
    _refuse_sparse(y, "y")
    labels = _one_column(np.asarray(y), owner)
    if labels.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{labels}\n")
    _require_labels_finite(labels)
    if len(labels) != n_rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(labels)}]")
    return labels


def checked_weights(sample_weight: Any, codes: HostArray) -> Floats:
    """Validates the sample weights. Returns each row's weight as float32.

    Scales the weights by a power of 2 such that the largest is in [1, 2). This avoids overflow, and keeps weights
    exact that float32 can represent.

    Args:
        codes: the number of each row's class.

    Raises:
        ValueError: not one weight per row, a negative weight, or zeros but in one class; DataError for NaN and
            infinity.
    """
    if sample_weight is None:
        return np.ones(len(codes), np.float32)
    weights = row_weights(sample_weight, len(codes))
    weighted = codes[weights > 0]
    if not len(weighted) or (weighted == weighted[0]).all():
        raise ValueError("the data contains only one class, or none, once samples of weight zero are left out")
    _, exponent = np.frexp(np.max(weights))
    scaled: Floats = np.ldexp(weights, 1 - exponent).astype(np.float32)
    return scaled


def with_class_weights(class_weight: Any, sample_weight: Any, classes: HostArray, codes: HostArray) -> HostArray:
    """Returns the weights of the rows, 1 each by default, multiplied by those of their classes, as in scikit-learn.

    Args:
        class_weight: a dict of weights by label, or "balanced".

    Raises:
        ValueError: it is neither, has a label that no row has, or a weight that is negative or not finite.
    """
    weights = np.ones(len(codes)) if sample_weight is None else row_weights(sample_weight, len(codes)).astype(float)
    numbers = codes.astype(np.intp)
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(numbers, weights, len(classes)) * len(classes)
        factors = np.divide(weights.sum(), totals, out=np.zeros(len(classes)), where=totals > 0)
    elif isinstance(class_weight, Mapping):
        labels = classes.tolist()
        if unknown := [each for each in class_weight if each not in labels]:
            raise ValueError(f"class_weight has a weight per class, {labels}; got one of {unknown[0]!r}")
        factors = np.array([class_weight.get(each, 1.0) for each in labels], np.float64)
        if not (np.isfinite(factors).all() and (factors >= 0).all()):
            raise ValueError(f"class_weight has weights that are finite and not negative; got {class_weight!r}")
    else:
        raise ValueError(f'class_weight is a dict of weights by label, "balanced" or None; got {class_weight!r}')
    return np.asarray(weights * factors[numbers])


def total_weight(sample_weight: Any, n_rows: int) -> float:
    """Returns the sum of the weights of all rows, 1 each by default."""
    return float(n_rows if sample_weight is None else row_weights(sample_weight, n_rows).sum())


def targets_of(codes: HostArray, weights: Floats) -> Floats:
    """Returns what a step reads per row.

    Of two classes, that is the weight, negative for the first class. Of several it is the number of the class, and the
    weight: shape (n_rows, 2).
    """
    if codes.dtype != np.bool_:
        return np.stack([codes, weights], axis=1).astype(np.float32)
    signs: Floats = codes.astype(np.float32)
    signs += signs
    signs -= 1
    signs *= weights
    return signs


def row_weights(sample_weight: Any, n_rows: int) -> npt.NDArray[np.float64]:
    """Returns the weight of each row.

    Raises:
        ValueError: not one weight per row, or a negative weight; DataError for NaN and infinity.
    """
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim > 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weights.shape}")
    if weights.ndim == 1 and len(weights) != n_rows:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}!")
    weights = np.broadcast_to(weights, n_rows)
    _require_finite(weights[:, np.newaxis], "sample_weight", as_float32=False)
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(f"Negative values in data passed to `sample_weight`: {weights[row].item()!r} in row {row}")
    return weights


def feature_names(X: Any) -> HostArray | None:
    """The column names of a data frame, as objects; None if `X` has none.

    Raises:
        TypeError: only some names are strings.
    """
    columns = getattr(X, "columns", None)
    if columns is None or not len(columns):
        return None
    names = np.asarray(columns, dtype=object)
    kinds = sorted({type(name).__name__ for name in names})
    if kinds == ["str"]:
        return names
    if "str" in kinds:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{kinds} as feature name / column name types. Convert them: X.columns = X.columns.astype(str)"
        )
    return None


def require_same_names(given: HostArray | None, fitted: HostArray | None, owner: str) -> None:
    """Compares feature names. Warns if only one side has names.

    Raises:
        ValueError: both have names, and they differ.
    """
    if given is None and fitted is None:
        return
    if given is None or fitted is None:
        has, was = ("does not have valid", "with") if given is None else ("has", "without")
        warnings.warn(f"X {has} feature names, but {owner} was fitted {was} feature names", UserWarning, stacklevel=4)
        return
    if len(given) == len(fitted) and (given == fitted).all():
        return
    unseen, missing = sorted(set(given) - set(fitted)), sorted(set(fitted) - set(given))
    lines = ["The feature names should match those that were passed during fit."]
    for title, names in (("unseen at fit time", unseen), ("seen at fit time, yet now missing", missing)):
        if names:
            shown = [f"- {name}" for name in names[:5]] + (["- ..."] if len(names) > 5 else [])
            lines += [f"Feature names {title}:", *shown]
    if not unseen and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    raise ValueError("\n".join(lines) + "\n")


def _refuse_sparse(data: Any, name: str) -> None:
    if type(data).__module__.startswith("scipy.sparse"):
        raise TypeError(
            f"Sparse data was passed for {name}, but dense data is required. "
            "Use '.toarray()' to convert to a dense numpy array."
        )


def _real(array: HostArray, name: str) -> HostArray:
    """Validates the dtype. Converts objects to float64, and unusual floats to float32 or float64."""
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported\n{array}\n")
    if kind == "O":
        return array.astype(np.float64)
    if kind not in "biuf":
        raise ValueError(
            f"{name} holds numbers; dtype='numeric' is not compatible with an array of {array.dtype}. "
            "Convert your data to numeric values explicitly instead."
        )
    if kind == "f" and array.dtype not in (np.float32, np.float64):
        return array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    return array


def _wrong_dimensions(array: HostArray, owner: str) -> str:
    if array.ndim > 2:
        return f"Found array with dim {array.ndim}, while dim <= 2 is required by {owner}."
    kind = "1D" if array.ndim else "scalar"
    return (
        f"Expected 2D array, got {kind} array instead:\narray={array}.\nReshape your data either using "
        "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single sample."
    )


def _require_finite(array: HostArray, name: str, *, as_float32: bool) -> None:
    """Raises DataError with the row and column of the first value that is not finite."""
    if array.dtype.kind != "f":
        return
    limit = np.dtype(np.float32) if as_float32 else array.dtype
    step = max(1, _BLOCK // array.shape[1])
    for first in range(0, len(array), step):
        block = array[first : first + step]
        with np.errstate(over="ignore"):
            bad = ~np.isfinite(block.astype(limit, copy=False))
        if bad.any():
            row, column = map(int, np.argwhere(bad)[0])
            value = block[row, column].item()
            problem = "NaN" if np.isnan(value) else f"infinity or a value too large for dtype({limit.name!r})"
            location = f"row {first + row}, column {column}" if name == "X" else f"row {first + row}"
            raise DataError(f"Input {name} contains {problem}.\nThe first is {value!r} in {location} (counted from 0).")


def _one_column(labels: HostArray, owner: str) -> HostArray:
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,), "
            "for example using ravel().",
            warning_class("DataConversionWarning"),
            stacklevel=4,
        )
        return labels.ravel()
    if labels.ndim != 1:
        raise ValueError(f"{owner}: y should be a 1d array, got an array of shape {labels.shape} instead.")
    return labels


def _classes(labels: HostArray) -> HostArray:
    """The distinct labels, sorted."""
    if labels.dtype.kind in "biuf":  # for two numbers, min and max take a tenth of the time of np.unique
        least, greatest = labels.min(), labels.max()
        if least != greatest and ((labels == least) | (labels == greatest)).all():
            return np.array([least, greatest])
    return np.unique(labels)


def _require_labels_finite(labels: HostArray) -> None:
    if labels.dtype.kind == "f":
        _require_finite(labels[:, np.newaxis], "y", as_float32=False)
    elif labels.dtype.kind == "O":
        for row, label in enumerate(labels):
            if label is None or label != label:
                raise DataError(f"Input y contains NaN.\nThe first is {label!r} in row {row} (counted from 0).")
