"""Fitted models as files: a numpy .npz without pickled objects, written atomically."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vkcompute import disk
from vkcompute.errors import DataError

FORMAT = "vkcompute.LogisticRegression 1"
_JSON_TYPES = (bool, int, float, str, type(None))


def write(path: str | os.PathLike[str], params: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Writes the fitted attributes, and the parameters that JSON can represent.

    Raises:
        TypeError: the classes are neither numbers nor strings.
        OSError: the file cannot be written; nothing is left behind.
    """
    arrays = {name: _plain(name, value) for name, value in state.items()}
    kept = {name: value for name, value in params.items() if isinstance(value, _JSON_TYPES)}
    objects = [name for name, value in state.items() if np.asarray(value).dtype.kind == "O"]
    stream = io.BytesIO()
    header = json.dumps({"format": FORMAT, "params": kept, "objects": objects})
    np.savez(stream, header=np.array(header), **arrays)
    disk.write_atomic(Path(path), stream.getvalue())


def read(path: str | os.PathLike[str], params: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads a file of `write`. Returns the parameters whose names are in `params`, and the fitted attributes.

    Raises:
        DataError: the file is truncated, or not such a model.
        OSError: it cannot be read.
    """
    content = io.BytesIO(Path(path).read_bytes())
    try:
        with np.load(content, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}; this version reads {FORMAT!r}")
        found = {name: value for name, value in header["params"].items() if name in params}
        return found, _state(arrays, header["objects"])
    except Exception as error:  # zipfile and numpy raise a dozen types on damaged bytes
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        if isinstance(error, (AttributeError, TypeError)):  # numpy.load gave an array, or the header is no dict
            why = "it holds something else"
        raise DataError(f"{os.fspath(path)}: not a model file, or a damaged one: {why}") from error


def _state(arrays: dict[str, Any], objects: list[str]) -> dict[str, Any]:
    """Validates shapes and dtypes of the fitted attributes, and returns them."""
    n_features, n_iter = int(arrays["n_features_in_"]), int(arrays["n_iter_"])
    shapes = {"coef_": (1, n_features), "intercept_": (1,), "classes_": (2,), "loss_curve_": (n_iter,)}
    if "feature_names_in_" in arrays:
        shapes["feature_names_in_"] = (n_features,)
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}; expected {shape}")
    state = {name: arrays[name].astype(object) if name in objects else arrays[name] for name in shapes}
    for name in ("coef_", "intercept_", "loss_curve_"):
        if state[name].dtype != np.float64 or not np.isfinite(state[name]).all():
            raise ValueError(f"{name} is not finite float64")
    return {**state, "n_features_in_": n_features, "n_iter_": n_iter}


def _plain(name: str, value: Any) -> Any:
    """Converts to an array that numpy saves without pickle."""
    array = np.asarray(value)
    if array.dtype.kind != "O":
        return array
    if not all(isinstance(item, str) for item in array.flat):
        raise TypeError(
            f"{name} holds {sorted({type(i).__name__ for i in array.flat})}; a file keeps numbers or strings"
        )
    return array.astype(str)
