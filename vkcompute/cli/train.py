"""`vkcompute logreg train`: a logistic regression from a CSV file to a model file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vkcompute.cli import output, page, plot, progress
from vkcompute.cli.options import Commands, Parser, number, whole

if TYPE_CHECKING:
    from vkcompute.cli.regression import Result


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    text = """Trains on the rows of a CSV file with a header. The target is a column with two classes, numbers or text;
    all other columns are features and hold numbers."""
    parser: Parser = commands.add_parser("train", help="train a model", description=text)
    parser.add_argument("data", metavar="data.csv", help="cells separated by comma, semicolon or tab")
    parser.add_argument("--target", metavar="NAME", required=True, help="the column to predict")
    parser.add_argument("--ignore", metavar="NAME", action="append", default=[], help="a column that is no feature")
    parser.add_argument("--model", metavar="model.npz", help="where to write the model")
    parser.add_argument("--plot", metavar="loss.png", help="where to draw the loss curve (.png, .svg, .pdf, .jpg)")
    parser.add_argument(
        "--test-fraction",
        metavar="F",
        type=number(0, inclusive=True, below=1),
        default=0.0,
        help="share of the rows of each class to hold out, for an honest accuracy (default: 0)",
    )
    _add_parameters(parser)
    parser.add_device_option()
    parser.set_defaults(run=run)


def _add_parameters(parser: Parser) -> None:
    """The parameters of the estimator, with its own defaults."""
    group = parser.add_argument_group("training")
    add = group.add_argument
    positive, not_negative = number(0, inclusive=False), number(0, inclusive=True)
    add("--learning-rate", metavar="X", type=positive, default=0.1, help="length of a step (default: %(default)s)")
    add("--max-iter", metavar="N", type=whole(1), default=100, help="passes over the rows (default: %(default)s)")
    add(
        "--alpha", metavar="X", type=not_negative, default=0.0, help="strength of the L2 penalty (default: %(default)s)"
    )
    add("--tol", metavar="X", type=not_negative, help="stop when the loss no longer falls by this (default: never)")
    add("--batch-size", metavar="N", type=whole(1), help="rows per step (default: all of them)")
    add("--seed", metavar="N", type=whole(0), default=0, help="of held-out rows and batches (default: %(default)s)")
    add(
        "--standardize",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether to train on features of mean 0 and deviation 1; the model takes them as they are either way",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        DataError: the data cannot be used; the message gives line and column.
        ValueError: an output has no place, or training overflows.
        ImportError: a plot is asked for, and there is no matplotlib.
    """
    for path, others in ((args.model, (args.data,)), (args.plot, (args.data, args.model))):
        if path is not None:
            output.check(path, *others)
    if args.plot is not None:
        plot.require(args.plot)

    from vkcompute.cli import table
    from vkcompute.cli.regression import regress
    from vkcompute.runtime.runtime import Runtime

    data = table.read(args.data, target=args.target, ignore=args.ignore)
    with Runtime(args.device) as runtime, progress.bar("train", unit=" epochs", quiet=args.quiet) as update:
        result = regress(data, args, runtime, lambda done: update(done, args.max_iter))
        device = runtime.device.name
    if args.model is not None:
        with output.replacing(args.model) as temporary:
            result.model.save(temporary)
    if args.plot is not None:
        title = f"Logistic regression of {args.target} on {page.count(result.n_train, 'row')}"
        with output.replacing(args.plot) as temporary:
            plot.draw(temporary, result.model.loss_curve_, title)
    if not args.quiet:
        page.show(_text(args, result, device))
    return 0


def _text(args: argparse.Namespace, result: Result, device: str) -> str:
    classes = [f"{label} ({count:,})" for label, count in result.class_counts.items()]
    counts = [page.count(result.n_train + result.n_test, "row"), page.count(result.n_features, "feature")]
    made = f"{page.count(result.model.n_iter_, 'epoch')} in {result.seconds:.3g} s"
    held_out = [f"{result.accuracy[1]:.4f} held out"] if result.n_test else []
    held_out_loss = [f"{result.log_loss[1]:.4f} held out"] if result.n_test else []
    rows = [page.count(result.n_train, "row"), *([f"{result.n_test:,} held out"] if result.n_test else [])]
    fields = [
        ("data", [f"{args.data}:", *page.listed(counts)]),
        ("classes", page.listed(classes)),
        ("device", [device]),
        ("training", page.listed([*rows, made])),
        ("accuracy", page.listed([f"{result.accuracy[0]:.4f} training", *held_out])),
        ("log-loss", page.listed([f"{result.log_loss[0]:.4f} training", *held_out_loss])),
        ("model", [args.model or "not written (--model says where)"]),
        ("plot", [args.plot or "not drawn (--plot says where)"]),
    ]
    return "\n".join(page.field(label, items, indent=0, label_columns=10) for label, items in fields)
