"""The `vkcompute` command: one command line, from its arguments to its exit status.

Nothing of the library is imported before a command needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from vkcompute._version import __version__
from vkcompute.cli import bench, compile, info, interruption, logreg, multiply, stderr
from vkcompute.cli.options import Parser

_EPILOG = "`vkcompute COMMAND --help` tells more of each. VKCOMPUTE_DEVICE names the device where --device does not."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line, given without the program's name; None takes the process's own.

    Returns the exit status: 0; 2 for input or a machine that will not do, after one line on stderr; 1 where the fault
    is the driver's or our own; 130 after Ctrl-C. What was to be written is then not there, whole or in part.
    """
    args = argparse.Namespace(verbose=False, quiet=False)
    status = 0
    try:
        with interruption.by_exception():
            try:
                _parser().parse_args(argv, args)
                with stderr.records(verbose=args.verbose, quiet=args.quiet):
                    status = int(args.run(args))
            except SystemExit as end:  # argparse, after --help and --version
                status = int(end.code or 0)
            stderr.flush()
    except BaseException as error:
        return stderr.report(error, verbose=args.verbose)
    return status


def _parser() -> Parser:
    parser = Parser(
        prog="vkcompute", description="Computes on any device that has a Vulkan driver.", epilog=_EPILOG, talk=False
    )
    parser.add_argument("--version", action="version", version=f"vkcompute {__version__}")
    parser.add_talk_options()
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (info, multiply, logreg, compile, bench):
        command.add_parser(commands)
    return parser
