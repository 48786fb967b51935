"""Models as files: what was saved comes back, what is damaged is refused, nothing in a file is executed."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc

pytestmark = pytest.mark.pure

X = np.random.default_rng(0).normal(size=(9, 3))


def fitted(classes: Any = (0, 1), **params: Any) -> vc.LogisticRegression:
    """As `fit` leaves it."""
    model = vc.LogisticRegression(**params)
    model.coef_, model.intercept_ = np.array([[0.5, -1.25, np.pi]]), np.array([0.1])
    model.classes_, model.loss_curve_ = np.asarray(classes), np.array([0.7, 0.6])
    model.n_iter_, model.n_features_in_ = np.array([2], np.int32), 3
    return model


class Frame:
    """Rows with names for their columns."""

    def __init__(self, data: Any) -> None:
        self.data, self.columns = data, ["x", "ÿ", ""]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.data, dtype)


@pytest.mark.parametrize("classes", [(0, 1), (-1.0, 1.0), (False, True), ("no", "ja"), np.array(["a", "bc"], object)])
@pytest.mark.parametrize("named", [False, True])
def test_round_trip(tmp_path: Path, classes: Any, named: bool) -> None:
    model = fitted(classes, alpha=0.5, tol=None, batch_size=7, warm_start=True)
    if named:
        model.feature_names_in_ = np.array(["x", "ÿ", ""], object)
    model.save(tmp_path / "model.npz")
    copy = vc.LogisticRegression.load(tmp_path / "model.npz")
    assert copy.get_params() == model.get_params()
    assert vars(copy).keys() == vars(model).keys()
    for name, value in vars(model).items():
        assert type(getattr(copy, name)) is type(value), name
        if isinstance(value, np.ndarray):
            assert getattr(copy, name).dtype == value.dtype, name
            assert getattr(copy, name).tolist() == value.tolist(), name
    table = Frame(X) if named else X
    assert copy.decision_function(table).tobytes() == model.decision_function(table).tobytes()


def test_the_path_is_taken_as_it_is(tmp_path: Path) -> None:
    fitted().save(os.fspath(tmp_path / "model"))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert vc.LogisticRegression.load(tmp_path / "model").n_iter_ == 2


def test_what_json_does_not_hold_is_left_out(tmp_path: Path) -> None:
    fitted(random_state=np.random.default_rng(0), device="some device").save(tmp_path / "m")
    copy = vc.LogisticRegression.load(tmp_path / "m")
    assert copy.random_state is None
    assert copy.device is None


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.npz"
    fitted().save(path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"classes_ holds \['tuple'\]; a file keeps numbers or strings"):
        fitted(np.array([(0,), (1, 2)], object)).save(path)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        fitted(alpha=3.0).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        vc.LogisticRegression.load(tmp_path / "model.npz")


def saved() -> bytes:
    """The bytes of a model file."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        fitted(("no", "yes")).save(Path(folder) / "m")
        return (Path(folder) / "m").read_bytes()


SAVED = saved()


def loads(content: bytes, folder: Path) -> vc.LogisticRegression:
    path = folder / "damaged.npz"
    path.write_bytes(content)
    return vc.LogisticRegression.load(path)


@given(length=st.integers(0, len(SAVED) - 1))
def test_truncated(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    with pytest.raises(vc.DataError, match=r"damaged\.npz: not a model file, or a damaged one"):
        loads(SAVED[:length], tmp_path_factory.getbasetemp())


@given(position=st.integers(0, len(SAVED) - 1), flip=st.integers(1, 255))
def test_altered(tmp_path_factory: pytest.TempPathFactory, position: int, flip: int) -> None:
    """A changed byte is noticed, or is in a part of the archive that tells nothing (times, attributes)."""
    altered = bytearray(SAVED)
    altered[position] ^= flip
    try:
        model = loads(bytes(altered), tmp_path_factory.getbasetemp())
    except vc.DataError:
        return
    assert model.coef_.tobytes() == fitted().coef_.tobytes()
    assert model.classes_.tolist() == ["no", "yes"]


def archive(compress: bool = False, **changes: Any) -> bytes:
    """A model file with some of its arrays replaced, or left out (None)."""
    with np.load(io.BytesIO(SAVED)) as loaded:
        arrays = {name: loaded[name] for name in loaded.files} | changes
    stream = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(
        stream, **{name: value for name, value in arrays.items() if value is not None}
    )
    return stream.getvalue()


def header(**changes: Any) -> Any:
    with np.load(io.BytesIO(SAVED)) as loaded:
        return np.array(json.dumps(json.loads(str(loaded["header"])) | changes))


class Bomb:
    """Unpickling it would be noticed."""

    def __reduce__(self) -> Any:
        return os.abort, ()


OTHERS: dict[str, tuple[bytes, str]] = {
    "not an archive": (b"coef,1,2\n", "damaged one"),
    "an array": ((lambda s: (np.save(s, X), s.getvalue())[1])(io.BytesIO()), "damaged one: File is not a zip file"),
    "a directory beyond the archive": (SAVED[:-6] + b"\0\0\0\x7f" + SAVED[-2:], "damaged one"),
    "another archive": (archive(header=None), "'header' is missing"),
    "another format": (
        archive(header=header(format="vkcompute.Other 9")),
        "its format is 'vkcompute.Other 9'; this version",
    ),
    "no weights": (archive(coef_=None), "coef_"),
    "weights of another shape": (archive(coef_=np.zeros((1, 4))), r"coef_ has shape \(1, 4\); expected \(1, 3\)"),
    "weights that are NaN": (archive(coef_=np.full((1, 3), np.nan)), "coef_ is not finite float64"),
    "weights of another type": (archive(coef_=np.array([["a", "b", "c"]])), "coef_ has dtype <U1"),
    "weights of float32": (archive(coef_=np.ones((1, 3), np.float32)), "coef_ is not finite float64"),
    "three classes": (archive(classes_=np.arange(3)), r"coef_ has shape \(1, 3\); expected \(3, 3\)"),
    "one class": (archive(classes_=np.arange(1)), "classes_ holds 0; expected two"),
    "classes that are times": (archive(classes_=np.array([0, 1], "M8[s]")), "classes_ has dtype datetime64"),
    "equal classes": (archive(classes_=np.array([2, 2])), "classes_ holds 2 and 2; expected two classes"),
    "a class that is NaN": (archive(classes_=np.array([0, np.nan])), "classes_ holds 0.0 and nan; expected two"),
    "names that are numbers": (archive(feature_names_in_=np.arange(3)), "feature_names_in_ has dtype int64"),
    "lost names": (archive(header=header(objects=["feature_names_in_"])), "'feature_names_in_' is missing"),
    "a count that is a fraction": (archive(n_iter_=np.array(2.5)), "n_iter_ is no number from 1"),
    "no features": (archive(n_features_in_=np.array(0), coef_=np.zeros((1, 0))), "n_features_in_ is no number from 1"),
    "a parameter that is a list": (archive(header=header(params={"alpha": [1]})), "a parameter is no number or text"),
    "compressed": (archive(compress=True), "header is compressed"),
    "a pickle": (archive(classes_=np.array([Bomb(), Bomb()], object)), "it contains Python objects"),
    "a header that is no JSON": (archive(header=np.array("{")), "damaged one"),
    "a header that is a list": (archive(header=np.array("[1]")), "damaged one"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_files(tmp_path: Path, case: str) -> None:
    content, message = OTHERS[case]
    with pytest.raises(vc.DataError, match=message):
        loads(content, tmp_path)


@pytest.mark.parametrize("promise", [10**6, 10**15, 10**40])
def test_an_array_that_promises_more_than_the_file_has(tmp_path: Path, promise: int) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (1, promise)})
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive(coef_=None))) as old, zipfile.ZipFile(content, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        new.writestr("coef_.npy", stream.getvalue())
    with pytest.raises(vc.DataError, match=r"damaged one: (shape .* needs .* bytes|its first 128 bytes)"):
        loads(content.getvalue(), tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(vc.DataError, match="pipe is a pipe or a device"):
        vc.LogisticRegression.load(tmp_path / "pipe")


def test_unknown_parameters_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    model = loads(archive(header=header(params={"alpha": 2.0, "momentum": 0.9})), tmp_path)
    assert model.alpha == 2.0


def test_the_file_is_a_plain_npz() -> None:
    with zipfile.ZipFile(io.BytesIO(SAVED)) as content:
        assert "coef_.npy" in content.namelist()
    with np.load(io.BytesIO(SAVED), allow_pickle=False) as arrays:
        assert arrays["coef_"].tolist() == fitted().coef_.tolist()
