"""`vkcompute logreg`: logistic regression on tables in CSV files."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from vkcompute import disk
from vkcompute.cli import interruption, terminal
from vkcompute.cli.options import Commands, Parser, check_output, number, whole
from vkcompute.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from vkcompute.cli.regression import Result
    from vkcompute.cli.table import Table
    from vkcompute.pipelines.logistic_regression import LogisticRegression

_PLOT_SUFFIXES = (".png", ".svg", ".pdf", ".jpg")
_MAX_MARKERS = 50
_TITLE_COLUMNS = 70


def add_parser(commands: Commands) -> None:
    """Adds the command's parser, with its subcommands `train` and `predict`."""
    text = "Trains a logistic regression on a CSV file, and predicts with it."
    parser: Parser = commands.add_parser("logreg", help="train on a CSV file, and predict", description=text)
    subcommands = parser.add_subparsers(title="commands", metavar="train|predict", required=True)
    _add_train(subcommands)
    _add_predict(subcommands)


def _add_train(commands: Commands) -> None:
    text = """Trains on the rows of a CSV file with a header. The target is a column with two or more classes, numbers
    or text. All other columns are features, and contain numbers."""
    parser: Parser = commands.add_parser("train", help="train a model", description=text)
    parser.add_argument("data", metavar="data.csv", help="CSV with commas, semicolons or tabs")
    parser.add_argument("--target", metavar="NAME", required=True, help="the column to predict")
    parser.add_argument("--ignore", metavar="NAME", action="append", default=[], help="a column that is not a feature")
    parser.add_argument("--model", metavar="model.npz", help="where to write the model")
    parser.add_argument("--plot", metavar="loss.png", help="where to draw the loss curve (.png, .svg, .pdf, .jpg)")
    parser.add_argument(
        "--test-fraction",
        metavar="F",
        type=number(0, inclusive=True, below=1),
        default=0.0,
        help="fraction of the rows of each class to hold out for testing (default: 0)",
    )
    _add_parameters(parser)
    parser.add_device_option()
    parser.set_defaults(run=_train)


def _add_parameters(parser: Parser) -> None:
    """Adds the estimator's parameters, with its defaults."""
    group = parser.add_argument_group("training")
    add = group.add_argument
    positive, not_negative = number(0, inclusive=False), number(0, inclusive=True)
    add("--learning-rate", metavar="X", type=positive, help="train by gradient descent, with steps of this length")
    add(
        "--max-iter",
        metavar="N",
        type=whole(1),
        default=100,
        help="iterations of L-BFGS, or passes of gradient descent over the rows (default: %(default)s)",
    )
    text = "strength of the L2 penalty beside the mean loss (default: 1 per row; 0 for gradient descent)"
    add("--alpha", metavar="X", type=not_negative, help=text)
    text = "stop when no derivative exceeds X (default: 1e-4), or, in gradient descent, the loss no longer falls by X"
    add("--tol", metavar="X", type=not_negative, help=text)
    add("--batch-size", metavar="N", type=whole(1), help="train by gradient descent, with so many rows per step")
    add(
        "--seed",
        metavar="N",
        type=whole(0),
        default=0,
        help="seed of held-out rows and batches (default: %(default)s)",
    )
    add(
        "--standardize",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="train on features of mean 0 and deviation 1; the model takes unscaled features either way (default: yes)",
    )


def _train(args: argparse.Namespace) -> int:
    """`logreg train`: from a CSV file to a model file.

    Raises:
        DataError: invalid data; the message gives line and column.
        ValueError: an output cannot be written, or training overflows.
        ImportError: a plot is requested, and matplotlib is not installed.
    """
    for path, others in ((args.model, (args.data,)), (args.plot, (args.data, args.model))):
        if path is not None:
            check_output(path, *others)
    if args.plot is not None:
        _require_plot(args.plot)

    from vkcompute.cli import table
    from vkcompute.cli.regression import regress, solver_of
    from vkcompute.runtime.runtime import Runtime

    data = table.read(args.data, target=args.target, ignore=args.ignore)
    unit = "epoch" if solver_of(args) == "gradient" else "iteration"
    progress_bar = interruption.progress_bar("train", unit=f" {unit}s", quiet=args.quiet)
    with Runtime(args.device) as runtime, progress_bar as update:
        result = regress(data, args, runtime, lambda done: update(done, args.max_iter))
        device = runtime.device.name
    if args.model is not None:
        result.model.save(args.model)
    if args.plot is not None:
        title = f"Logistic regression of {args.target} on {terminal.count(result.n_train, 'row')}"
        with disk.replacing(args.plot) as temporary:
            _draw(temporary, result.model.loss_curve_, title, unit)
    if not args.quiet:
        terminal.write(_trained(args, result, device, unit))
    return 0


def _trained(args: argparse.Namespace, result: Result, device: str, unit: str) -> str:
    classes = [f"{label} ({count:,})" for label, count in result.class_counts.items()]
    counts = [terminal.count(result.n_train + result.n_test, "row"), terminal.count(result.n_features, "feature")]
    made = f"{terminal.count(result.model.n_iter_[0], unit)} in {result.seconds:.3g} s"
    held_out = [f"{result.accuracy[1]:.4f} held out"] if result.n_test else []
    held_out_loss = [f"{result.log_loss[1]:.4f} held out"] if result.n_test else []
    rows = [terminal.count(result.n_train, "row"), *([f"{result.n_test:,} held out"] if result.n_test else [])]
    fields = [
        ("data", [f"{args.data}:", *terminal.with_commas(counts)]),
        ("classes", terminal.with_commas(classes)),
        ("device", [device]),
        ("training", terminal.with_commas([*rows, made])),
        ("accuracy", terminal.with_commas([f"{result.accuracy[0]:.4f} training", *held_out])),
        ("log-loss", terminal.with_commas([f"{result.log_loss[0]:.4f} training", *held_out_loss])),
        ("model", [args.model or "not written; use --model"]),
        ("plot", [args.plot or "not drawn; use --plot"]),
    ]
    return "\n".join(terminal.field(label, items, indent=0, label_columns=10) for label, items in fields)


def _add_predict(commands: Commands) -> None:
    text = """Predicts the class of each row of a CSV file. Columns are matched with the model's features by name;
    other columns are ignored. Predictions are computed on the host, without a device."""
    parser: Parser = commands.add_parser("predict", help="predict with a model", description=text)
    parser.add_argument("data", metavar="data.csv", help="rows with the model's features")
    parser.add_argument("--model", metavar="model.npz", required=True, help="a model written by `train --model`")
    parser.add_argument("-o", "--output", metavar="predictions.csv", help="where to write (default: standard output)")
    parser.add_argument("--proba", action="store_true", help="add the probability of each class")
    parser.set_defaults(run=_predict)


def _predict(args: argparse.Namespace) -> int:
    """`logreg predict`: a model's predictions for the rows of a CSV file.

    Raises:
        DataError: invalid model or data; the message gives line and column.
        ValueError: the output cannot be written.
    """
    if args.output is not None:
        check_output(args.output, args.data, args.model)

    from vkcompute.pipelines.logistic_regression import LogisticRegression

    model = LogisticRegression.load(args.model)
    rows = _predictions(model, _features(args.data, model), args.proba)
    if args.output is None:
        if not sys.stdout.isatty():
            _write(sys.stdout, rows)
            return 0
        text = io.StringIO()  # a model's classes may be anything
        _write(text, rows)
        terminal.write(text.getvalue().rstrip("\n"))
        return 0
    with disk.replacing(args.output) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        n_rows = _write(file, rows)
    if not args.quiet:
        items = [args.output, f"({terminal.count(n_rows, 'prediction')})"]
        terminal.write(terminal.field("wrote", items, indent=0, label_columns=6))
    return 0


def _features(path: str, model: LogisticRegression) -> Table:
    """Reads the model's features, in the model's order."""
    from vkcompute.cli import table

    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return table.read(path, names=[str(name) for name in names])
    data = table.read(path)
    if len(data.names) != model.n_features_in_:
        raise DataError(
            f"the model has no feature names and takes {terminal.count(model.n_features_in_, 'column')} in its "
            f"order; {path} has {len(data.names)}"
        )
    return data


def _predictions(model: LogisticRegression, data: Table, proba: bool) -> list[Iterable[Any]]:
    """The header and the rows of the result."""
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the array has no names; its columns are in the model's order
    labels = model.predict(data.numbers).tolist()
    if not proba:
        return [["prediction"], *([label] for label in labels)]
    header = ["prediction", *(f"probability_{label}" for label in model.classes_)]
    probabilities = model.predict_proba(data.numbers).tolist()
    return [
        header,
        *(
            [label, *(f"{probability:.9g}" for probability in row)]
            for label, row in zip(labels, probabilities, strict=True)
        ),
    ]


def _write(file: TextIO, rows: list[Iterable[Any]]) -> int:
    """Writes CSV. Returns the number of rows without the header."""
    csv.writer(file, lineterminator="\n").writerows(rows)
    return len(rows) - 1


def _require_plot(path: str) -> None:
    """Checks that a plot can be drawn, before the training.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the path has no suffix of an image format.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(f'--plot needs matplotlib: pip install "vkcompute[plot]" ({error})') from error
    if os.path.splitext(path)[1].lower() not in _PLOT_SUFFIXES:
        raise ValueError(f"--plot {path}: the file name must end in one of {', '.join(_PLOT_SUFFIXES)}")


def _draw(path: Path, losses: npt.NDArray[Any], title: str, unit: str) -> None:
    """Draws the loss per iteration or epoch to `path`, in the format of its suffix."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps = range(1, len(losses) + 1)
    axes.plot(steps, losses, linewidth=1.8, marker="" if len(losses) > _MAX_MARKERS else ".")
    outcome = f"loss {losses[-1]:.4g} after {terminal.count(len(losses), unit)}"
    # Dollar signs in a column's name are not math.
    axes.set_title(f"{terminal.truncate(title, _TITLE_COLUMNS)}\n{outcome}", parse_math=False)
    axes.set_xlabel(unit)
    axes.set_ylabel("loss (cross-entropy and penalty)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
