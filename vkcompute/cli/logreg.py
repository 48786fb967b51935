"""`vkcompute logreg`: logistic regression on tables in CSV files."""

from __future__ import annotations

from vkcompute.cli import predict, train
from vkcompute.cli.options import Commands, Parser


def add_parser(commands: Commands) -> None:
    """Adds the command, with `train` and `predict` below it."""
    text = "Trains a logistic regression on a table in a CSV file, and predicts with it."
    parser: Parser = commands.add_parser("logreg", help="train on a CSV file, and predict", description=text)
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    train.add_parser(below)
    predict.add_parser(below)
