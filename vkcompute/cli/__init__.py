"""The `vkcompute` command line.

Each command imports the library when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from vkcompute._version import __version__
from vkcompute.cli import bench, cache, compile, demo, doctor, info, interruption, logreg, multiply, stderr
from vkcompute.cli.options import Parser

_EPILOG = "`vkcompute COMMAND --help` describes a command. VKCOMPUTE_DEVICE is the default of --device."


_COMMANDS = info, doctor, demo, multiply, logreg, compile, bench, cache
COMMANDS = tuple([command.__name__.rpartition(".")[2] for command in _COMMANDS])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (without the program's name); None means the process's own.

    A command that fails writes a line to stderr, and leaves no output file, not even a partial one.

    Returns:
        The exit status: 0 for success, 1 for an internal error or a failure of the driver, 2 for invalid input or an
        unsuitable machine, 130 after Ctrl-C.
    """
    args = argparse.Namespace(verbose=False, quiet=False)
    status = 0
    try:
        with interruption.signals_as_exceptions():
            try:
                _parser().parse_args(argv, args)
                with stderr.log_records(verbose=args.verbose, quiet=args.quiet):
                    status = int(args.run(args))
            except SystemExit as error:  # by argparse, after --help and --version
                status = int(error.code or 0)
            stderr.flush()
    except BaseException as error:
        return stderr.report(error, verbose=args.verbose)
    return status


def _parser() -> Parser:
    parser = Parser(
        prog="vkcompute",
        description="Computes on any device that has a Vulkan driver.",
        epilog=_EPILOG,
        verbosity=False,
    )
    parser.add_argument("--version", action="version", version=f"vkcompute {__version__}")
    parser.add_verbosity_options()
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser
