"""`triton.testing`: measurements of launches, and their plots."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Returns the time of a call in milliseconds, until the work that it launches has completed.

    Args:
        fn: launches work, and returns a `Future`, an array or None.
        warmup, rep: milliseconds of calls before the measurement, and of those that are measured.
        quantiles: the quantiles to return; None for one number.
        return_mode: "mean", "median", "min", "max", or "all" for a list.
    """
    if return_mode not in ("mean", "median", "min", "max", "all"):
        raise ValueError(f"return_mode is mean, median, min, max or all; got {return_mode!r}")
    _timed(fn)
    _repeated(fn, warmup)
    times = _repeated(fn, rep)
    if quantiles is not None:
        found = [float(each) for each in np.quantile(times, quantiles)]
        return found[0] if len(found) == 1 else found
    return times if return_mode == "all" else float(getattr(np, return_mode)(times))


def _repeated(fn: Callable[[], Any], milliseconds: float) -> list[float]:
    """Returns the times of calls for this long, at least one."""
    times = [_timed(fn)]
    while sum(times) < milliseconds:
        times.append(_timed(fn))
    return times


def _timed(fn: Callable[[], Any]) -> float:
    start = time.perf_counter()
    found = fn()
    if hasattr(found, "result"):
        found.result()
    elif hasattr(found, "runtime"):
        found.runtime.wait()
    return (time.perf_counter() - start) * 1e3


class Benchmark:
    """Describes a plot of `perf_report`: lines of `line_vals` over `x_vals`."""

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
        self.x_names, self.x_vals, self.line_arg, self.line_vals = x_names, list(x_vals), line_arg, line_vals
        self.line_names, self.plot_name, self.args, self.styles = line_names, plot_name, dict(args), styles
        self.xlabel, self.ylabel, self.x_log, self.y_log = xlabel or x_names[0], ylabel, x_log, y_log


class Mark:
    """A function whose measurements are tabled and plotted."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = [benchmarks] if isinstance(benchmarks, Benchmark) else list(benchmarks)

    def run(
        self, show_plots: bool = False, print_data: bool = False, save_path: str = "", return_df: bool = False
    ) -> list[list[tuple[Any, ...]]]:
        """Measures all points; returns a table per benchmark, with a row (x, one value per line) per point.

        Args:
            show_plots: shows a plot with matplotlib.
            print_data: prints the tables.
            save_path: a folder for plots (png) and tables (csv).
        """
        tables = []
        for bench in self.benchmarks:
            table = [self._row(bench, x) for x in bench.x_vals]
            lines = [",".join([bench.x_names[0], *bench.line_names])]
            lines += [",".join(str(each) for each in row) for row in table]
            if print_data:
                print(f"{bench.plot_name}:", *lines, sep="\n")
            if save_path:
                Path(save_path).mkdir(parents=True, exist_ok=True)
                Path(save_path, f"{bench.plot_name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
            if save_path or show_plots:
                _plot(bench, table, save_path, show=show_plots)
            tables.append(table)
        return tables

    def _row(self, bench: Benchmark, x: Any) -> tuple[Any, ...]:
        values = x if isinstance(x, (tuple, list)) else [x] * len(bench.x_names)
        named = {**dict(zip(bench.x_names, values, strict=True)), **bench.args}
        found = [self.fn(**named, **{bench.line_arg: line}) for line in bench.line_vals]
        return (values[0], *[each[0] if isinstance(each, (tuple, list)) else each for each in found])


def _plot(bench: Benchmark, table: Sequence[tuple[Any, ...]], save_path: str, *, show: bool) -> None:
    """Plots a table; the quantiles beside the first value are left out."""
    import matplotlib.pyplot as plt  # not at import: an optional package

    figure, axes = plt.subplots()
    xs, *columns = zip(*table, strict=True)
    for at, (name, ys) in enumerate(zip(bench.line_names, columns, strict=True)):
        color, style = bench.styles[at] if bench.styles else (None, "-")
        axes.plot(xs, ys, label=name, color=color, linestyle=style)
    axes.legend()
    axes.set(xlabel=bench.xlabel, ylabel=bench.ylabel, title=bench.plot_name)
    axes.set_xscale("log" if bench.x_log else "linear")
    axes.set_yscale("log" if bench.y_log else "linear")
    if save_path:
        figure.savefig(Path(save_path, f"{bench.plot_name}.png"))
    if show:
        plt.show()
    plt.close(figure)


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Decorates a function that measures one point; `run()` of the result measures all of them."""
    return lambda fn: Mark(fn, benchmarks)


def assert_close(x: Any, y: Any, atol: float = 1e-2, rtol: float = 1e-2, err_msg: str = "") -> None:
    """Raises AssertionError unless two arrays are equal within tolerances."""
    one, other = (each.numpy() if hasattr(each, "numpy") else np.asarray(each) for each in (x, y))
    np.testing.assert_allclose(one, other, atol=atol, rtol=rtol, err_msg=err_msg)
