"""Progress bars: `progress=True` draws one by tqdm, in a notebook as a widget."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress_bar(progress: Any, title: str, unit: str, total: int | None = None) -> Iterator[Callable[..., Any] | None]:
    """Yields the function to call with (done) or (done, total): `progress` itself, or one that draws a bar for True.

    Raises:
        ImportError: it is True, and tqdm is not installed.
        TypeError: it is neither a function, a bool nor None.
    """
    if progress is not True:
        if not (progress is None or progress is False or callable(progress)):
            raise TypeError(f"progress is True for a bar, or a function; got {progress!r}")
        yield progress or None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True draws a bar by tqdm: pip install 'vkcompute[cli]'") from error
    with tqdm(desc=title, unit=f" {unit}", unit_scale=True, total=total) as bar:

        def update(done: int, _: int | None = None) -> None:
            bar.update(done - bar.n)

        yield update
