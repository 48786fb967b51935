"""Fitted models as files: a numpy .npz without pickled objects, written atomically."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute import disk
from vkcompute.errors import DataError
from vkcompute.pipelines.npy_file import read_header

HostArray = npt.NDArray[Any]

FORMAT = "vkcompute.LogisticRegression 1"
_NAMES = "feature_names_in_"
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
    with disk.open_regular(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                member = partial(_member, archive, os.fstat(file.fileno()).st_size)
                header = json.loads(str(member("header")))
                if header["format"] != FORMAT:
                    raise ValueError(f"its format is {header['format']!r}; this version reads {FORMAT!r}")
                known = {name: value for name, value in header["params"].items() if name in params}
                if not all(isinstance(value, _JSON_TYPES) for value in known.values()):
                    raise ValueError("a parameter is no number or text")
                objects = header["objects"]
                return known, _state(member, _NAMES in objects or f"{_NAMES}.npy" in archive.namelist(), objects)
        except Exception as error:  # zipfile and numpy raise a dozen types on damaged bytes, OSError among them
            why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            if isinstance(error, (AttributeError, TypeError)):  # the header is no dict
                why = "it holds something else"
            raise DataError(f"{os.fspath(path)}: not a model file, or a damaged one: {why}") from error


def _member(archive: zipfile.ZipFile, limit_nbytes: int, name: str) -> HostArray:
    """Reads an array, which is not compressed: so it takes no more memory than the file has bytes."""
    filename = f"{name}.npy"
    if filename not in archive.namelist():
        raise KeyError(name)
    info = archive.getinfo(filename)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > limit_nbytes:
        raise ValueError(f"{name} is compressed, or longer than the file")
    content = archive.read(info)
    stream = io.BytesIO(content)
    shape, fortran_order, dtype = read_header(stream, len(content))
    array = np.ndarray(shape, dtype, content, stream.tell(), order="F" if fortran_order else "C")
    if stream.tell() + array.nbytes != len(content):
        raise ValueError(f"{name} has more bytes than its header says")
    owned: HostArray = array.copy()
    return owned


def _state(member: Callable[[str], HostArray], has_names: bool, objects: Collection[str]) -> dict[str, Any]:
    """Reads the fitted attributes, and validates their shapes and dtypes."""
    n_features, n_iter = _count(member, "n_features_in_"), _count(member, "n_iter_")
    n_classes = member("classes_").size
    n_rows = n_classes if n_classes > 2 else 1
    rules = {
        "coef_": ((n_rows, n_features), "f"),
        "intercept_": ((n_rows,), "f"),
        "loss_curve_": ((n_iter,), "f"),
        "classes_": ((n_classes,), "biufUS"),
    } | ({_NAMES: ((n_features,), "U")} if has_names else {})
    state: dict[str, Any] = {"n_features_in_": n_features, "n_iter_": np.array([n_iter], np.int32)}
    for name, (shape, kinds) in rules.items():
        array = member(name)
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
        if array.dtype.kind not in kinds:
            raise ValueError(f"{name} has dtype {array.dtype}")
        if kinds == "f" and (array.dtype != np.float64 or not np.isfinite(array).all()):
            raise ValueError(f"{name} is not finite float64")
        state[name] = array.astype(object) if name in objects else array
    classes = state["classes_"].tolist()
    if n_classes < 2 or len({*classes}) < n_classes or any(label != label for label in classes):
        shown = " and ".join(map(repr, classes[:5])) + (", ..." if n_classes > 5 else "")
        raise ValueError(f"classes_ holds {shown or 'nothing'}; expected two classes or more, each once")
    return state


def _count(member: Callable[[str], HostArray], name: str) -> int:
    array = member(name)
    if array.size != 1 or array.dtype.kind not in "iu" or array.item() < 1:
        raise ValueError(f"{name} is no number from 1")
    return int(array.item())


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
