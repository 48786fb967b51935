"""The loss curve as a picture, by matplotlib."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkcompute.cli import page

if TYPE_CHECKING:
    import numpy.typing as npt

_SUFFIXES = (".png", ".svg", ".pdf", ".jpg")
_MANY_EPOCHS = 50
_TITLE_COLUMNS = 70


def require(path: str) -> None:
    """Refuses what could only fail after the training.

    Raises:
        ImportError: there is no matplotlib.
        ValueError: the path's suffix is that of no picture.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(f'--plot needs matplotlib: pip install "vkcompute[plot]" ({error})') from error
    if os.path.splitext(path)[1].lower() not in _SUFFIXES:
        raise ValueError(f"--plot {path}: the name of a picture ends in one of {', '.join(_SUFFIXES)}")


def draw(path: Path, losses: npt.NDArray[Any], title: str) -> None:
    """Draws the loss of each epoch to `path`, whose suffix says in which format."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    epochs = range(1, len(losses) + 1)
    axes.plot(epochs, losses, linewidth=1.8, marker="" if len(losses) > _MANY_EPOCHS else ".")
    outcome = f"loss {losses[-1]:.4g} after {page.count(len(losses), 'epoch')}"
    # A name from a file may hold dollar signs, which are no formula.
    axes.set_title(f"{page.fit(title, _TITLE_COLUMNS)}\n{outcome}", parse_math=False)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss (cross-entropy and penalty)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
