"""Common command-line options: the parser, argument types, and checks of output paths."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from vkcompute import disk
from vkcompute.cli.stderr import UsageError

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""The object that a command adds its parser to."""

_NEGATIVE = re.compile(r"-(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?$|-inf$", re.IGNORECASE)
_MIN_BYTES = 1024  # smaller chunks would be very slow
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises `UsageError`. Parsers of subcommands are of this class too."""

    def __init__(self, *, verbosity: bool = True, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._negative_number_matcher = _NEGATIVE  # argparse's own does not match -1e5
        if verbosity:
            self.add_verbosity_options()

    def add_verbosity_options(self) -> None:
        """Adds -q and --verbose, which are accepted before and after the command's name."""
        # SUPPRESS: a subcommand without the option does not reset the one before its name.
        self.add_argument(
            "-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="print only results and errors"
        )
        self.add_argument(
            "--verbose", action="store_true", default=argparse.SUPPRESS, help="log details, show tracebacks"
        )

    def add_device_option(self) -> None:
        """Adds --device, None by default."""
        self.add_argument("--device", metavar="X", help="the device: its index, or part of its name")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses as argparse does. Unknown arguments are an error of the subcommand that got them."""
        known_args, unknown = super().parse_known_args(args, namespace)
        if unknown:
            known = [*self._option_string_actions]
            close = [
                f"did you mean {match}?" for argument in unknown for match in get_close_matches(argument, known, 1)
            ]
            self.error("; ".join([f"unrecognized arguments: {' '.join(unknown)}", *close]))
        return known_args, unknown

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument COMMAND"):  # perhaps the value of an option before it
            message += "; options of a command follow its name"
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def whole(minimum: int) -> Callable[[str], int]:
    """Argument type: an integer of at least `minimum`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number; got {text!r}") from None
        if value < minimum:
            raise argparse.ArgumentTypeError(f"expected at least {minimum}; got {value}")
        return value

    return read


def number(minimum: float, *, inclusive: bool, below: float = math.inf) -> Callable[[str], float]:
    """Argument type: a finite number of at least (`inclusive`) or more than `minimum`, and less than `below`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a number; got {text!r}") from None
        if not (minimum <= value if inclusive else minimum < value) or not value < below:
            limit = f"{'at least' if inclusive else 'more than'} {minimum:g}"
            limit += f" and less than {below:g}" if below < math.inf else ""
            raise argparse.ArgumentTypeError(f"expected a finite number, {limit}; got {text}")
        return value

    return read


def byte_count(text: str) -> int:
    """Argument type: a number of bytes, such as 65536, 512K, 8M, 1G, 8MiB (powers of 1024)."""
    match = re.fullmatch(r"([0-9]+) ?([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    nbytes = int(match[1]) << _UNITS[match[2].upper()] if match else 0
    if nbytes < _MIN_BYTES:
        raise argparse.ArgumentTypeError(f"expected at least {_MIN_BYTES} bytes, such as 64K, 8M or 1G; got {text!r}")
    return nbytes


def check_output(path: str, *taken: str | None) -> None:
    """Checks that an output file can be written, before any work is done. Deletes what killed runs left beside it.

    Args:
        path: the file to create or replace.
        taken: paths of the command's inputs and other outputs.

    Raises:
        ValueError: the path is one of `taken`, a folder or a device, or its folder is missing or not writable.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be written: the folder {folder} does not exist; create it first")
    disk.require_regular(path)
    if any(_same(path, other) for other in taken if other is not None):
        raise ValueError(f"{path} is also another input or output of the command; choose another name")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: no permission to write in {folder}")
    disk.remove_abandoned(folder)


def _same(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)
