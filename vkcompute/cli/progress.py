"""Progress bars: on stderr, for as long as the work lasts, and only where somebody looks at it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


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
    with tqdm(desc=what, unit=unit, unit_scale=True, leave=False, dynamic_ncols=True, file=sys.stderr) as drawn:

        def update(done: int, total: int) -> None:
            drawn.total = total
            drawn.update(done - drawn.n)

        yield update
