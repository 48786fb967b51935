"""Figures that a notebook shows once, below the cell. Importing this module needs matplotlib."""

from __future__ import annotations

import sys
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.figure import Figure


class _ShownOnce(Figure):
    """A figure that is not shown as the value of a cell if it is shown below the cell, anyway."""

    _is_pending = False

    def show_below(self, shell: Any) -> None:
        """Shows the figure when the cell has ended."""

        def show() -> None:
            shell.events.unregister("post_execute", show)
            self._is_pending = False
            self._ipython_display_()

        self._is_pending = True
        shell.events.register("post_execute", show)

    def _ipython_display_(self) -> None:
        """Shows the figure, unless it will be shown."""
        if self._is_pending:
            return
        from IPython.core import display_functions, pylabtools

        display: Any = display_functions.display
        print_figure: Any = pylabtools.print_figure
        display({"image/png": print_figure(self, base64=True)}, raw=True)


def subplots(**options: Any) -> tuple[Figure, Any]:
    """Returns a figure, which notebooks show once, and its axes. Takes the arguments of pyplot's `subplots`."""
    figure, axes = pyplot.subplots(FigureClass=_ShownOnce, **options)
    interpreter: Any = sys.modules.get("IPython")
    shell = interpreter.get_ipython() if interpreter is not None else None
    if shell is not None and "inline" in matplotlib.get_backend():
        pyplot.close(figure)  # the backend would show all open figures
        figure.show_below(shell)
    return figure, axes
