"""`vkcompute logreg predict`: a model's predictions for the rows of a CSV file."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from vkcompute.cli import output, page
from vkcompute.cli.options import Commands, Parser
from vkcompute.errors import DataError

if TYPE_CHECKING:
    from vkcompute.cli.table import Table
    from vkcompute.pipelines.logistic_regression import LogisticRegression


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    text = """Predicts the class of each row of a CSV file. Its columns are matched with the model's features by name;
    columns that the model does not know are ignored. This is done without the device: the rows pass by only once."""
    parser: Parser = commands.add_parser("predict", help="predict with a model", description=text)
    parser.add_argument("data", metavar="data.csv", help="rows with the features that the model was trained on")
    parser.add_argument("--model", metavar="model.npz", required=True, help="what `train --model` wrote")
    parser.add_argument("-o", "--output", metavar="predictions.csv", help="where to write (default: standard output)")
    parser.add_argument("--proba", action="store_true", help="with the probability of each class")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        DataError: the model or the data cannot be used; the message gives line and column.
        ValueError: the output has no place.
    """
    if args.output is not None:
        output.check(args.output, args.data, args.model)

    from vkcompute.pipelines.logistic_regression import LogisticRegression

    model = LogisticRegression.load(args.model)
    rows = _rows(model, _read(args.data, model), args.proba)
    if args.output is None:
        _write(sys.stdout, rows)
        return 0
    with output.replacing(args.output) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        n_rows = _write(file, rows)
    if not args.quiet:
        page.show(
            page.field("wrote", [args.output, f"({page.count(n_rows, 'prediction')})"], indent=0, label_columns=6)
        )
    return 0


def _read(path: str, model: LogisticRegression) -> Table:
    """The model's features, in its order."""
    from vkcompute.cli import table

    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return table.read(path, names=[str(name) for name in names])
    data = table.read(path)
    if len(data.names) != model.n_features_in_:
        raise DataError(
            f"the model was trained without names and takes {page.count(model.n_features_in_, 'column')} in its own "
            f"order; {path} has {len(data.names)}"
        )
    return data


def _rows(model: LogisticRegression, data: Table, proba: bool) -> list[Iterable[Any]]:
    """The header and the rows of the result."""
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the columns are in its order now, in an array without names
    labels = model.predict(data.numbers).tolist()
    if not proba:
        return [["prediction"], *([label] for label in labels)]
    header = ["prediction", *(f"probability_{label}" for label in model.classes_)]
    probabilities = model.predict_proba(data.numbers).tolist()
    return [header, *([label, f"{a:.9g}", f"{b:.9g}"] for label, (a, b) in zip(labels, probabilities, strict=True))]


def _write(file: TextIO, rows: list[Iterable[Any]]) -> int:
    """Writes CSV; gives the number of rows below the header."""
    csv.writer(file, lineterminator="\n").writerows(rows)
    return len(rows) - 1
