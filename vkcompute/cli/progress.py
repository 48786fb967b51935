"""Progress: between two steps of long work the user sees how far it is, and may stop it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

from vkcompute.cli import interruption

_USUAL, _WIDEST = 80, 100
_ROWS = 24  # any number: tqdm draws nothing where it asks a terminal that has no size

Update = Callable[[int, int], None]


@contextlib.contextmanager
def bar(what: str, *, unit: str, quiet: bool = False) -> Iterator[Update]:
    """Gives a function to be called with (done, total) after each step of the work; Ctrl-C ends the work in it.

    It draws a bar on stderr, if that is a terminal, tqdm is there, and `quiet` is not asked for.
    """
    with interruption.between_steps() as check, _drawn(what, unit, quiet) as draw:

        def update(done: int, total: int) -> None:
            check()
            if draw is not None:
                draw(done, total)

        yield update


@contextlib.contextmanager
def _drawn(what: str, unit: str, quiet: bool) -> Iterator[Update | None]:
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    shape = {"ncols": _columns(), "nrows": _ROWS}
    with tqdm(desc=what, unit=unit, unit_scale=True, leave=False, file=sys.stderr, **shape) as drawn:

        def draw(done: int, total: int) -> None:
            drawn.total = total
            drawn.update(done - drawn.n)

        yield draw


def _columns() -> int:
    """The width of the terminal behind stderr, within reason; some terminals do not tell theirs."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        columns = 0
    return min(columns or _USUAL, _WIDEST)
