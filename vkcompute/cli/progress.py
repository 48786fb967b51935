"""Progress bars: on stderr, for as long as the work lasts, and only where somebody looks at it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

_USUAL, _WIDEST = 80, 100
_ROWS = 24  # any number: tqdm draws nothing where it asks a terminal that has no size


@contextlib.contextmanager
def bar(what: str, *, unit: str, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """Gives a function to be called with (done, total), or None: no terminal, no tqdm, or `quiet`."""
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

        def update(done: int, total: int) -> None:
            drawn.total = total
            drawn.update(done - drawn.n)

        yield update


def _columns() -> int:
    """The width of the terminal behind stderr, within reason; some terminals do not tell theirs."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        columns = 0
    return min(columns or _USUAL, _WIDEST)
