"""`triton.testing`: measurements of launches, and their plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from vkcompute import disk
from vkcompute.blocks.launching.measuring import do_bench as do_bench


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Measures as `do_bench` does, without a graph: launches take as long with and without one."""
    return do_bench(fn, rep=rep, grad_to_none=grad_to_none, quantiles=quantiles, return_mode=return_mode)


class Benchmark:
    """Describes a plot of `perf_report`: lines of `line_vals` over `x_vals`.

    Args:
        x_names: the arguments that take the values of x. An item of `x_vals` is one value for all of them, or a tuple.
            Strings are categories.
        line_arg: the argument that takes a value of `line_vals`; `line_names` label the lines.
        plot_name: the title, and the name of the files.
        args: further arguments.
        styles: a color and a line style per line, as matplotlib names them.
    """

    def __init__(
        self,
        x_names: Sequence[str],
        x_vals: Sequence[Any],
        line_arg: str,
        line_vals: Sequence[Any],
        line_names: Sequence[str],
        plot_name: str,
        args: Mapping[str, Any],
        xlabel: str = "",
        ylabel: str = "",
        x_log: bool = False,
        y_log: bool = False,
        styles: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        if len(line_vals) != len(line_names) or (styles is not None and len(styles) < len(line_vals)):
            raise ValueError(f"{plot_name} has a name, and a style if any, per line; got {len(line_vals)} lines")
        self.x_names, self.x_vals, self.line_arg, self.line_vals = x_names, list(x_vals), line_arg, line_vals
        self.line_names, self.plot_name, self.args, self.styles = line_names, plot_name, dict(args), styles
        self.xlabel, self.ylabel, self.x_log, self.y_log = xlabel or x_names[0], ylabel, x_log, y_log


class Mark:
    """A function whose measurements are tabled and plotted."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = [benchmarks] if isinstance(benchmarks, Benchmark) else list(benchmarks)

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **named: Any,
    ) -> Any:
        """Measures all points; returns a table per benchmark, with a row (values of x, one value per line) per point.

        Args:
            show_plots: shows a plot with matplotlib.
            print_data: prints the tables.
            save_path: a folder for plots (png) and tables (csv).
            return_df: True for tables that are pandas' data frames, one or a list.
            named: further arguments of the function.

        Raises:
            ImportError: pandas or matplotlib is needed, and is not installed.
        """
        if return_df:
            _demand("pandas", "return_df=True makes data frames of pandas", "pandas")
        if save_path or show_plots:
            _demand("matplotlib", "plots are made by matplotlib", "'vkcompute[plot]'")
        tables = []
        for bench in self.benchmarks:
            points = [self._point(bench, x, named) for x in bench.x_vals]
            table = [(*xs, *[line[0] for line in lines]) for xs, lines in points]
            text = [",".join([*bench.x_names, *bench.line_names])]
            text += [",".join(str(cell) for cell in row) for row in table]
            if print_data:
                print(f"{bench.plot_name}:", *text, sep="\n")
            if save_path:
                Path(save_path).mkdir(parents=True, exist_ok=True)
                disk.write_atomic(Path(save_path, f"{bench.plot_name}.csv"), "\n".join([*text, ""]).encode())
            if save_path or show_plots:
                _plot(bench, points, save_path, show=show_plots)
            tables.append(_frame(bench, table) if return_df else table)
        return tables[0] if return_df and len(tables) == 1 else tables

    def _point(self, bench: Benchmark, x: Any, named: dict[str, Any]) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
        """Returns the values of x, and per line what the function returns: a number, perhaps with a range."""
        values = tuple(x) if isinstance(x, (tuple, list)) else (x,) * len(bench.x_names)
        if len(values) != len(bench.x_names):
            raise ValueError(f"{bench.plot_name} has x_names {', '.join(bench.x_names)}; got the values {values}")
        given = {**dict(zip(bench.x_names, values, strict=True)), **bench.args, **named}
        measured = [self.fn(**given, **{bench.line_arg: line}) for line in bench.line_vals]
        return values, [tuple(value) if isinstance(value, (tuple, list)) else (value,) for value in measured]


def _demand(package: str, use: str, name: str) -> None:
    """Raises ImportError unless an optional package is installed. Call it before measurements, which take long."""
    if find_spec(package) is None:
        raise ImportError(f"{use}, which is not installed: pip install {name}")


def _frame(bench: Benchmark, table: Sequence[tuple[Any, ...]]) -> Any:
    import pandas  # type: ignore[import-untyped]  # not at import: an optional package

    return pandas.DataFrame(table, columns=[*bench.x_names, *bench.line_names])


def _plot(
    bench: Benchmark, points: Sequence[tuple[tuple[Any, ...], list[tuple[Any, ...]]]], save_path: str, *, show: bool
) -> None:
    """Plots the lines over the first x, each with its range if it has one."""
    try:
        import matplotlib.pyplot as plt  # not at import: an optional package
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: pip install 'vkcompute[plot]' ({error})") from error
    figure, axes = plt.subplots()
    xs = [values[0] for values, _ in points]
    is_log = bench.x_log and not any(isinstance(x, str) for x in xs)  # strings are categories at 0, 1, 2, …
    axes.set_xscale("log", base=2) if is_log else axes.set_xscale("linear")  # before lines, whose labels it removes
    axes.set_yscale("log" if bench.y_log else "linear")
    for at, name in enumerate(bench.line_names):
        color, style = bench.styles[at] if bench.styles else (None, "-")
        lines = [line[at] for _, line in points]
        (drawn,) = axes.plot(xs, [line[0] for line in lines], label=name, color=color, linestyle=style)
        ranges = [sorted(line[1:]) for line in lines if len(line) == 3]
        if len(ranges) == len(xs):
            axes.fill_between(
                xs, [low for low, _ in ranges], [high for _, high in ranges], alpha=0.15, color=drawn.get_color()
            )
    axes.legend()
    axes.set(xlabel=bench.xlabel, ylabel=bench.ylabel, title=bench.plot_name)
    if save_path:
        with disk.replacing(Path(save_path, f"{bench.plot_name}.png")) as temporary:
            figure.savefig(temporary)
    if show:
        plt.show()
    plt.close(figure)


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Decorates a function that measures one point; `run()` of the result measures all of them."""
    return lambda fn: Mark(fn, benchmarks)


def assert_close(x: Any, y: Any, atol: float = 1e-2, rtol: float = 1e-2, err_msg: str = "") -> None:
    """Raises AssertionError unless two arrays are equal within tolerances."""
    one, other = (value.numpy() if hasattr(value, "numpy") else np.asarray(value) for value in (x, y))
    np.testing.assert_allclose(one, other, atol=atol, rtol=rtol, err_msg=err_msg)
