"""`vkcompute logreg`: the model is that of the library on the same rows, and takes features as they are in the file."""

from __future__ import annotations

import csv
import inspect
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cli_done import Done
from hang_limit import hang_limit_s

import vkcompute
from vkcompute.cli import _parser
from vkcompute.cli.regression import _held_out
from vkcompute.pipelines.logistic_regression import LogisticRegression

Run = Callable[..., Done]
Listing = Callable[[], list[str]]
Array = npt.NDArray[Any]

pytestmark = pytest.mark.pure
posix = pytest.mark.skipif(sys.platform == "win32", reason="terminals and signals of POSIX")
PNG, PDF = b"\x89PNG\r\n", b"%PDF"


@pytest.fixture(autouse=True)
def _device(gpu: vkcompute.Runtime) -> None:
    """Every test here needs one."""


@pytest.fixture
def rows() -> tuple[Array, Array]:
    """200 rows of 3 features of very different size, and 0 or 1; the classes overlap."""
    random = np.random.default_rng(7)
    X = random.normal(size=(200, 3))
    y = (X @ [2.0, -1.0, 0.5] + random.normal(size=200) > 0).astype(int)
    return X * [1e-4, 3.0, 1e4] + [0.0, 50.0, -1e6], y


@pytest.fixture
def data(tmp_path: Path, rows: tuple[Array, Array]) -> Path:
    """Writes the rows to data.csv, with columns a, b, c and result."""
    return write(tmp_path / "data.csv", ["a", "b", "c", "result"], *rows)


def write(path: Path, names: list[str], X: Array, y: Any, delimiter: str = ",") -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(names)
        writer.writerows([*map(repr, row), label] for row, label in zip(X.tolist(), y, strict=True))
    return path


def shown(done: Done) -> dict[str, str]:
    """The fields of the summary."""
    assert done.status == 0, done
    return {line[:10].strip(): " ".join(line[10:].split()) for line in done.out.splitlines()}


def predictions(text: str) -> tuple[list[str], list[list[str]]]:
    header, *result = csv.reader(io.StringIO(text))
    return header, result


def descent(X: Array, y: Array, n_steps: int, rate: float, alpha: float) -> tuple[Array, float, list[float]]:
    """Gradient descent in float64: weights, intercept and losses."""
    w, b, losses = np.zeros(X.shape[1]), 0.0, []
    for _ in range(n_steps):
        z = X @ w + b
        losses.append(float(np.mean(np.logaddexp(0, np.where(y, -z, z))) + alpha / 2 * w @ w))
        error = 1 / (1 + np.exp(-z)) - y
        w, b = w - rate * (X.T @ error / len(y) + alpha * w), b - rate * error.mean()
    return w, b, losses


def test_the_model_is_what_descent_on_standardized_rows_gives(
    vk: Run, data: Path, rows: tuple[Array, Array], listing: Listing
) -> None:
    options = "--target result --model m.npz --learning-rate 0.5 --max-iter 60 --alpha 0.01".split()
    done = vk("logreg", "train", data, *options)
    assert done.err == ""
    X, y = rows
    mean, scale = X.mean(axis=0), X.std(axis=0)
    w, b, losses = descent((X - mean) / scale, y, 60, 0.5, 0.01)
    model = LogisticRegression.load(data.parent / "m.npz")
    np.testing.assert_allclose(model.coef_[0] * scale, w, rtol=2e-5)
    np.testing.assert_allclose(model.intercept_[0] + model.coef_[0] @ mean, b, atol=2e-5)
    np.testing.assert_allclose(model.loss_curve_, losses, rtol=2e-5)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    fields = shown(done)
    right = float(np.mean((((X - mean) / scale) @ w + b > 0) == y))
    assert fields["accuracy"] == f"{right:.4f} training"
    assert fields["training"].startswith("200 rows, 60 epochs in ")
    assert fields["classes"] == f"0 ({200 - y.sum()}), 1 ({y.sum()})"
    assert fields["model"] == "m.npz"
    assert listing() == ["data.csv", "m.npz"]


def test_predictions_take_the_features_as_they_are(vk: Run, data: Path, rows: tuple[Array, Array]) -> None:
    fields = shown(vk("logreg", "train", data, "--target", "result", "--model", "m.npz"))
    done = vk("logreg", "predict", data, "--model", "m.npz", "--proba")
    assert done.err == ""
    header, result = predictions(done.out)
    assert header == ["prediction", "probability_0", "probability_1"]
    table, y = np.array(result, np.float64), rows[1]
    np.testing.assert_allclose(table[:, 1] + table[:, 2], 1, rtol=1e-8)
    np.testing.assert_array_equal(table[:, 0], table[:, 2] > 0.5)
    assert fields["accuracy"] == f"{np.mean(table[:, 0] == y):.4f} training"
    loss = -np.log(np.where(y == 1, table[:, 2], table[:, 1])).mean()
    assert fields["log-loss"] == f"{loss:.4f} training"


def test_without_standardization_it_is_the_library_on_the_rows_themselves(
    vk: Run, tmp_path: Path, rows: tuple[Array, Array], gpu: vkcompute.Runtime
) -> None:
    X, y = rows[0] / [1e-4, 3.0, 1e4], rows[1]
    X[:, 2] += 100
    path = write(tmp_path / "data.csv", ["a", "b", "c", "y"], X, y)
    options = "--target y --model m.npz --no-standardize --max-iter 30 --batch-size 32 --seed 5 --learning-rate 0.01"
    assert vk("logreg", "train", path, *options.split()).status == 0
    model = LogisticRegression.load(tmp_path / "m.npz")
    options = {"solver": "gradient", "alpha": 0.0, "tol": None, "max_iter": 30, "batch_size": 32}
    expected = LogisticRegression(**options, random_state=5, learning_rate=0.01, device=gpu).fit(X, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.intercept_, expected.intercept_)


@pytest.mark.parametrize(
    ("labels", "kind"), [(["no", "yes"], str), (["-1", "1"], int), (["0.5", "1.5"], float), (["z,w", 'a"b'], str)]
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_predictions_are_written_as_the_labels_were(
    vk: Run, tmp_path: Path, rows: tuple[Array, Array], labels: list[str], kind: type, delimiter: str
) -> None:
    X, y = rows
    path = tmp_path / "data.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["a", "the target", "b"])
        writer.writerows([row[1], labels[i], row[2]] for row, i in zip(X.tolist(), y, strict=True))
    fields = shown(vk("logreg", "train", path, "--target", "the target", "--model", "m.npz"))
    assert LogisticRegression.load(tmp_path / "m.npz").classes_.tolist() == sorted(map(kind, labels))
    _, result = predictions(vk("logreg", "predict", path, "--model", "m.npz").out)
    right = np.mean([row[0] == labels[i] for row, i in zip(result, y, strict=True)])
    assert fields["accuracy"] == f"{right:.4f} training"


def test_columns_are_matched_by_name(vk: Run, data: Path, rows: tuple[Array, Array]) -> None:
    vk("logreg", "train", data, "--target", "result", "--model", "m.npz")
    expected = vk("logreg", "predict", data, "--model", "m.npz").out
    X = rows[0]
    write(data.parent / "other.csv", ["c", "a", "b", "note"], X[:, [2, 0, 1]], ["text"] * 200, ";")
    assert vk("logreg", "predict", "other.csv", "--model", "m.npz").out == expected
    write(data.parent / "less.csv", ["c", "x", "y", "note"], X, ["text"] * 200)
    error = vk("logreg", "predict", "less.csv", "--model", "m.npz").error()
    assert error == "less.csv has no columns 'a', 'b'; its columns: 'c', 'x', 'y', 'note'"


def test_a_model_without_names_takes_columns_in_its_order(
    vk: Run, data: Path, rows: tuple[Array, Array], gpu: vkcompute.Runtime
) -> None:
    X, y = (rows[0] - rows[0].mean(axis=0)) / rows[0].std(axis=0), rows[1]
    model = LogisticRegression(device=gpu).fit(X, y)
    model.save(data.parent / "m.npz")
    write(data.parent / "x.csv", ["p", "q", "r"], X[:, :2], X[:, 2].tolist())
    done = vk("logreg", "predict", "x.csv", "--model", "m.npz")
    assert done.err == ""
    assert [int(row[0]) for row in predictions(done.out)[1]] == model.predict(X).tolist()
    assert "takes 3 columns" in vk("logreg", "predict", data, "--model", "m.npz").error()


def test_a_constant_column_weighs_nothing(vk: Run, tmp_path: Path, rows: tuple[Array, Array]) -> None:
    X = np.column_stack([rows[0], np.full(200, 3.25)])
    path = write(tmp_path / "data.csv", ["a", "b", "c", "d", "y"], X, rows[1])
    assert vk("logreg", "train", path, "--target", "y", "--model", "m.npz").err == ""
    assert LogisticRegression.load(tmp_path / "m.npz").coef_[0, 3] == 0


def test_ignored_columns_are_no_features(vk: Run, tmp_path: Path, rows: tuple[Array, Array]) -> None:
    X, y = rows
    path = write(tmp_path / "data.csv", ["a", "b", "c", "y"], X, y)
    text = path.read_text().splitlines()
    path.write_text("\n".join(["id,note," + text[0], *(f"r{i},," + line for i, line in enumerate(text[1:]))]))
    assert "column 'id': 'r0' is not a number" in vk("logreg", "train", path, "--target", "y").error()
    ignored = ["--ignore", "id", "--ignore", "note", "--ignore", "b"]
    assert vk("logreg", "train", path, "--target", "y", "--model", "m.npz", *ignored).status == 0
    assert LogisticRegression.load(tmp_path / "m.npz").feature_names_in_.tolist() == ["a", "c"]


def test_held_out_rows_are_a_share_of_each_class_and_no_part_of_the_training(vk: Run, tmp_path: Path) -> None:
    # In one feature the classes of 50 and 150 rows are apart, all but the rows that are held out with this seed.
    path = write(tmp_path / "data.csv", ["x", "y"], np.zeros((200, 1)), [0] * 50 + [1] * 150)
    fields = shown(vk("logreg", "train", path, "--target", "y", "--test-fraction", "0.2", "--seed", "3"))
    assert fields["training"].startswith("160 rows, 40 held out, ")
    assert re.fullmatch(r"0\.7500 training, 0\.7500 held out", fields["accuracy"])
    y = np.repeat([0, 1], [50, 150])
    held_out = _held_out(y == 1, 0.2, 3)
    assert held_out[:50].sum() == 10
    assert held_out[50:].sum() == 30
    X = np.where(held_out, 10.0 * (1 - 2 * y), 2.0 * y - 1)[:, np.newaxis]
    write(path, ["x", "y"], X, y)
    fields = shown(vk("logreg", "train", path, "--target", "y", "--test-fraction", "0.2", "--seed", "3"))
    assert fields["accuracy"] == "1.0000 training, 0.0000 held out"


def test_the_same_seed_gives_the_same_model(vk: Run, data: Path) -> None:
    def coef(seed: int) -> Array:
        line = f"--target result --model m.npz --batch-size 16 --max-iter 5 --test-fraction 0.3 --seed {seed}"
        vk("logreg", "train", data, *line.split())
        fitted: Array = LogisticRegression.load(data.parent / "m.npz").coef_
        return fitted

    first = coef(1)
    np.testing.assert_array_equal(first, coef(1))
    assert (first != coef(2)).any()


def test_defaults_are_those_of_the_estimator() -> None:
    parameters = inspect.signature(LogisticRegression).parameters
    args = vars(_parser().parse_args(["logreg", "train", "x.csv", "--target", "y"]))
    for name in ("max_iter", "batch_size"):
        assert args[name] == parameters[name].default


def test_the_summary_fits_and_quiet_leaves_it_out(
    vk: Run, data: Path, monkeypatch: pytest.MonkeyPatch, listing: Listing
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    model = "m" * 90 + ".npz"
    done = vk("logreg", "train", data, "--target", "result", "--model", model, "--test-fraction", "0.25")
    assert max(map(len, done.out.splitlines())) <= 60
    assert "not drawn" in done.out
    assert vk("logreg", "train", data, "--target", "result", "--model", model, "-q") == Done(0, "", "")
    assert vk("logreg", "predict", data, "--model", model, "-o", "p.csv", "-q") == Done(0, "", "")
    assert listing() == ["data.csv", model, "p.csv"]


def test_training_that_has_not_converged_is_a_warning(vk: Run, data: Path) -> None:
    line = ["logreg", "train", data, "--target", "result", "--tol", "0", "--max-iter", "3"]
    done = vk(*line)
    assert done.status == 0
    assert re.fullmatch(r"vkcompute: warning: .* after 3 iterations: .*\n", done.err)
    assert vk(*line, "-q").err == ""


@pytest.mark.parametrize(("name", "begins"), [("loss.png", PNG), ("LOSS.PNG", PNG), ("loss.pdf", PDF)])
def test_a_plot_is_drawn(vk: Run, data: Path, name: str, begins: bytes, listing: Listing) -> None:
    pytest.importorskip("matplotlib")
    (data.parent / name).write_bytes(b"old")
    done = vk("logreg", "train", data, "--target", "result", "--plot", name, "--max-iter", "60")
    assert shown(done)["plot"] == name
    assert (data.parent / name).read_bytes().startswith(begins)
    assert listing() == sorted(["data.csv", name])


def test_a_plot_shows_the_losses_and_says_what_it_is(vk: Run, tmp_path: Path, rows: tuple[Array, Array]) -> None:
    pytest.importorskip("matplotlib")
    path = write(tmp_path / "data.csv", ["a", "b", "c", "$cost$ $"], *rows)
    line = ["logreg", "train", path, "--target", "$cost$ $", "--plot", "loss.svg", "--model", "m.npz"]
    done = vk(*line, "--learning-rate", "0.1")
    assert (done.status, done.err) == (0, "")
    text = (tmp_path / "loss.svg").read_text()
    last = LogisticRegression.load(tmp_path / "m.npz").loss_curve_[-1]
    for words in ("Logistic regression of $cost$ $ on 200 rows", f"loss {last:.4g} after 100 epochs", ">epoch<"):
        assert words.strip("<>") in re.sub(r"<!-- | -->", "", text)


def test_without_matplotlib_nothing_is_trained(
    vk: Run, data: Path, monkeypatch: pytest.MonkeyPatch, listing: Listing
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_, **__: pytest.fail("it was trained"))
    error = vk("logreg", "train", data, "--target", "result", "--plot", "x.png", "--model", "m.npz").error()
    assert 'pip install "vkcompute[plot]"' in error
    assert listing() == ["data.csv"]


WRONG_TRAINING = {
    "no such file": ("none.csv --target y", "none.csv: No such file"),
    "no such target": ("data.csv --target reslt", "did you mean 'result'?"),
    "text in a number column": ("text.csv --target y", "text.csv, line 3 (row 2), column 'x': 'two' is not a number"),
    "not a number": ("nan.csv --target y", "nan.csv, line 3 (row 2), column 'x': nan is not finite"),
    "infinite": ("inf.csv --target y", "inf.csv, line 2 (row 1), column 'x': -inf is not finite"),
    "beyond float32": ("large.csv --target y", "large.csv, row 2, column 'x': 1e+39 is too large"),
    "one class": ("one.csv --target y", "has 1 class ('a'); it needs two"),
    "a class per row": ("data3.csv --target y", "has 3 classes in 3 rows; a class needs two rows on average"),
    "no rows": ("header.csv --target y", "has a header, but no rows"),
    "target ignored": ("data.csv --target result --ignore result", "'result' is both the target and ignored"),
    "unknown ignored": ("data.csv --target result --ignore zzz", "no column 'zzz'"),
    "nothing left": ("data.csv --target result --ignore a --ignore b --ignore c", "no columns of numbers"),
    "no rows held out": ("data.csv --target result --test-fraction 0.001", "holds out no row"),
    "all rows held out": ("data.csv --target result --test-fraction 0.999", "leaves no row of a class of"),
    "fraction of 1": ("data.csv --target result --test-fraction 1", "--test-fraction"),
    "overflow": ("data.csv --target result --learning-rate 1e38 --no-standardize", "overflow"),
    "learning rate of 0": ("data.csv --target result --learning-rate 0", "--learning-rate"),
    "learning rate beyond float32": ("data.csv --target result --learning-rate 1e39", "learning_rate"),
    "no iterations": ("data.csv --target result --max-iter 0", "--max-iter"),
    "negative penalty": ("data.csv --target result --alpha -1", "--alpha"),
    "empty batches": ("data.csv --target result --batch-size 0", "--batch-size"),
    "no such device": ("data.csv --target result --device nothing", "no device fits 'nothing'"),
    "no such folder": ("data.csv --target result --model none/m.npz", "the folder none does not exist"),
    "model in place of data": ("data.csv --target result --model ./data.csv", "is also another input or output"),
    "plot in place of model": (
        "data.csv --target result --model x.png --plot x.png",
        "is also another input or output",
    ),
    "plot of no picture": ("data.csv --target result --plot loss.txt", ".png"),
    "target left out": ("data.csv", "--target"),
}


@pytest.mark.parametrize("case", WRONG_TRAINING)
def test_wrong_training_input_leaves_no_trace(vk: Run, data: Path, case: str, listing: Listing) -> None:
    if "plot" in case:
        pytest.importorskip("matplotlib")
    for name, text in {
        "text": "x,y\n1,a\ntwo,b\n",
        "nan": "x,y\n1,a\nnan,b\n",
        "inf": "x,y\n-inf,a\n1,b\n",
        "large": "x,y\n1,a\n1e39,b\n",
        "one": "x,y\n1,a\n2,a\n",
        "data3": "x,y\n1,1\n2,2\n3,3\n",
        "header": "x,y\n",
    }.items():
        (data.parent / f"{name}.csv").write_text(text)
    (data.parent / "old.npz").write_bytes(b"old")
    before, content = listing(), data.read_bytes()
    line, says = WRONG_TRAINING[case]
    done = vk("logreg", "train", *line.split(), *([] if "--model" in line else ["--model", "old.npz"]))
    assert says in done.error()
    assert done.out == ""
    assert listing() == before
    assert (data.parent / "old.npz").read_bytes() == b"old"
    assert data.read_bytes() == content


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("data.csv --model none.npz", "none.npz: No such file"),
        ("data.csv --model cut.npz", "cut.npz"),
        ("data.csv --model data.csv", "data.csv: not a model file"),
        ("data.csv --model other.npz", "other.npz: not a model file"),
        ("data.csv", "--model"),
        ("none.csv --model m.npz", "none.csv: No such file"),
        ("text.csv --model m.npz", "text.csv, line 3 (row 2), column 'b': 'two' is not a number"),
        ("data.csv --model m.npz -o none/p.csv", "the folder none does not exist"),
        ("data.csv --model m.npz -o data.csv", "is also another input or output"),
        ("data.csv --model m.npz -o m.npz", "is also another input or output"),
    ],
)
def test_wrong_input_to_predict_leaves_no_trace(vk: Run, data: Path, line: str, says: str, listing: Listing) -> None:
    vk("logreg", "train", data, "--target", "result", "--model", "m.npz", "--max-iter", "1")
    (data.parent / "cut.npz").write_bytes((data.parent / "m.npz").read_bytes()[:-30])
    np.savez(data.parent / "other.npz", a=np.ones(3))
    (data.parent / "text.csv").write_text("a,b,c\n1,2,3\n1,two,3\n")
    (data.parent / "old.csv").write_bytes(b"old")
    before = {path.name: path.read_bytes() for path in data.parent.iterdir()}
    done = vk("logreg", "predict", *line.split(), *([] if "-o" in line else ["-o", "old.csv"]))
    assert says in done.error()
    assert done.out == ""
    assert {path.name: path.read_bytes() for path in data.parent.iterdir()} == before


def test_predictions_in_a_file_are_those_on_stdout(vk: Run, data: Path) -> None:
    vk("logreg", "train", data, "--target", "result", "--model", "m.npz")
    on_stdout = vk("logreg", "predict", data, "--model", "m.npz", "--proba")
    in_file = vk("logreg", "predict", data, "--model", "m.npz", "--proba", "-o", "p.csv")
    assert (data.parent / "p.csv").read_text() == on_stdout.out
    assert in_file.out == "wrote p.csv (200 predictions)\n"
    assert on_stdout.err == in_file.err == ""


def test_predicting_needs_no_vulkan(vk: Run, vk_done: Callable[..., Done], data: Path) -> None:
    vk("logreg", "train", data, "--target", "result", "--model", "m.npz")
    (data.parent / "broken" / "vulkan").mkdir(parents=True)
    (data.parent / "broken" / "vulkan" / "__init__.py").write_text("raise OSError('no loader')")
    done = vk_done("logreg", "predict", data, "--model", "m.npz", env={"PYTHONPATH": str(data.parent / "broken")})
    assert done == vk("logreg", "predict", data, "--model", "m.npz")


def test_names_that_the_output_cannot_encode(
    vk_done: Callable[..., Done], tmp_path: Path, rows: tuple[Array, Array], listing: Listing
) -> None:
    write(tmp_path / "data.csv", ["a", "b", "c", "größe"], rows[0], np.where(rows[1], "groß", "klein"))
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = vk_done("logreg", "train", "data.csv", "--target", "größe", "--model", "größe.npz", env=ascii_only)
    assert shown(done)["model"] == r"gr\xf6\xdfe.npz"
    assert listing() == ["data.csv", "größe.npz"]
    # Data is not altered: either it is written as it is, or there is an error.
    assert "encode" in vk_done("logreg", "predict", "data.csv", "--model", "größe.npz", env=ascii_only).error()


@posix
def test_predictions_that_nobody_reads_to_the_end(
    vk: Run, vk_process: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    path = write(tmp_path / "data.csv", ["x", "y"], np.arange(50_000.0)[:, np.newaxis], [0, 1] * 25_000)
    assert vk("logreg", "train", path, "--target", "y", "--model", "m.npz", "--max-iter", "1").status == 0
    with vk_process("logreg", "predict", "data.csv", "--model", "m.npz", "--proba") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "prediction,probability_0,probability_1\n"
        process.stdout.close()
        said = process.stderr.read()
    assert said == ""
    assert process.returncode == 128 + 13


@posix
@pytest.mark.parametrize(("n_epochs", "status"), [(20_000, 0), (1_000_000_000, 130)])
def test_a_bar_is_drawn_in_a_terminal_and_ctrl_c_ends_the_training(
    vk_process: Callable[..., subprocess.Popen[str]], data: Path, listing: Listing, n_epochs: int, status: int
) -> None:
    pytest.importorskip("tqdm")
    import pty

    master, slave = pty.openpty()
    line = ["logreg", "train", "data.csv", "--target", "result", "--model", "m.npz", "--max-iter", n_epochs]
    line += ["--learning-rate", "0.1"]
    with vk_process(*line, stderr=slave) as process:
        os.close(slave)
        drawn, waiting = b"", bool(status)
        while chunk := _read(master):
            drawn += chunk
            if waiting and b" epochs" in drawn:
                process.send_signal(signal.SIGINT)
                waiting = False
        assert process.wait(hang_limit_s(60)) == status
    os.close(master)
    assert b"train: " in drawn
    assert b"Traceback" not in drawn
    assert drawn.strip().endswith(b"vkcompute: interrupted") == bool(status)
    assert listing() == (["data.csv"] if status else ["data.csv", "m.npz"])


def _read(terminal: int) -> bytes:
    """Reads from a pseudo-terminal. Returns nothing once its other end is closed."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def test_several_classes(vk: Run, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(90, 2)) * [1, 1000] + [5, 0]
    z = (X - [5, 0]) @ [1, 0.002]
    codes = (z > -1).astype(int) + (z > 1)
    write(tmp_path / "data.csv", ["a", "b", "y"], X, np.array(["low", "mid", "up"])[codes])
    options = "--target y --model m.npz --max-iter 60 --learning-rate 1 --alpha 0.01 --test-fraction 0.2".split()
    fields = shown(vk("logreg", "train", "data.csv", *options))
    counts = np.bincount(codes)
    assert fields["classes"] == f"low ({counts[0]}), mid ({counts[1]}), up ({counts[2]})"
    model = LogisticRegression.load(tmp_path / "m.npz")
    assert model.coef_.shape == (3, 2)
    assert model.classes_[model.predict_proba(X).argmax(axis=1)].tolist() == model.predict(X).tolist()
    assert np.mean(model.predict(X) == model.classes_[codes]) > 0.8
    header, result = predictions(vk("logreg", "predict", "data.csv", "--model", "m.npz", "--proba").out)
    assert header == ["prediction", "probability_low", "probability_mid", "probability_up"]
    np.testing.assert_allclose(np.array([row[1:] for row in result], float), model.predict_proba(X), rtol=1e-8)
