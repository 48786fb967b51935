"""What the commands' options have in common: the parser, the types of arguments, the places to write to."""

from __future__ import annotations

import argparse
import math
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from vkcompute.cli.stderr import UsageError

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What a command adds its parser to."""

_NEGATIVE = re.compile(r"-(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?$|-inf$", re.IGNORECASE)
_LEAST_BYTES = 1024  # less at a time would take for ever
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises its complaints, and that every sub-command's parser is made with too."""

    def __init__(self, *, talk: bool = True, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._negative_number_matcher = _NEGATIVE  # argparse's own takes -1e5 for an option
        if talk:
            self.add_talk_options()

    def add_talk_options(self) -> None:
        """-q and --verbose, which are understood before and after the command's name."""
        # SUPPRESS: a command that does not see the option leaves alone what was said before its name.
        self.add_argument(
            "-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="say nothing but results and errors"
        )
        self.add_argument(
            "--verbose", action="store_true", default=argparse.SUPPRESS, help="log what happens, show tracebacks"
        )

    def add_device_option(self) -> None:
        """--device, None where it is absent."""
        self.add_argument("--device", metavar="X", help="the device: its index, or part of its name")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (`{self.prog} --help` shows how it is used)")


def whole(minimum: int) -> Callable[[str], int]:
    """The argument type of whole numbers from `minimum` up."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"a whole number is needed; got {text!r}") from None
        if value < minimum:
            raise argparse.ArgumentTypeError(f"at least {minimum} is needed; got {value}")
        return value

    return read


def number(minimum: float, *, inclusive: bool, below: float = math.inf) -> Callable[[str], float]:
    """The argument type of finite numbers from `minimum` (included or not) to below `below`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"a number is needed; got {text!r}") from None
        if not (minimum <= value if inclusive else minimum < value) or not value < below:
            limit = f"{'at least' if inclusive else 'more than'} {minimum:g}"
            limit += f" and less than {below:g}" if below < math.inf else ""
            raise argparse.ArgumentTypeError(f"a finite number of {limit} is needed; got {text}")
        return value

    return read


def byte_count(text: str) -> int:
    """The argument type of sizes in bytes: 65536, 512K, 8M, 1G, 8MiB (powers of 1024)."""
    match = re.fullmatch(r"([0-9]+) ?([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    nbytes = int(match[1]) << _UNITS[match[2].upper()] if match else 0
    if nbytes < _LEAST_BYTES:
        raise argparse.ArgumentTypeError(f"a size is {_LEAST_BYTES} bytes or more, or with K, M or G; got {text!r}")
    return nbytes


def check_output(path: str, *taken: str | None) -> None:
    """Refuses a place that cannot be written, before any work is done for it.

    Args:
        path: where a file is to be written, a new one or one to be replaced.
        taken: the paths of the command's inputs and other outputs.

    Raises:
        ValueError: it is one of `taken`, a folder, a device, or in no folder that can be written.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {folder}; create it first")
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder; give the name of a file in it")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is a device or a pipe; outputs are files")
    if any(_same(path, other) for other in taken if other is not None):
        raise ValueError(f"{path} is named twice, and writing it would destroy the other; give it another name")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: no permission to write in {folder}")


def _same(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)
