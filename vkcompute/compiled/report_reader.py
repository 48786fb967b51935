"""Reads the reports of a launch on the host: prints them, or makes an error of the first failure."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from vkcompute import deferred_calls
from vkcompute.compiled.completion import Words, expect
from vkcompute.compiled.report import N_FAILED, N_HEADER, Site
from vkcompute.compiled.spilling_kernel import AnyKernel
from vkcompute.dtypes import SmallFloat, as_dtype
from vkcompute.errors import KernelError, warn_caller
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.runtime.scheduling.future import Future

_START = N_HEADER + N_FAILED  # first word of the printed records


def launch(
    kernel: AnyKernel,
    sites: Sequence[Site],
    print_limit: int,
    arrays: Sequence[Array],
    run: Callable[[Sequence[Array]], Future],
    remedy: str,
) -> Future:
    """Launches a kernel by `run` on these arrays and a buffer for reports, which is read after completion."""
    largest = max([site.n_words for site in sites if not site.fails], default=0)
    n_words = -(-(_START + print_limit * largest) // 64) * 64
    read = partial(_read, kernel.name, sites, print_limit, remedy)
    return expect(runtime_of(kernel), n_words, read, lambda buffer: run([*arrays, buffer]))


def _read(name: str, sites: Sequence[Site], print_limit: int, remedy: str, memory: Words) -> Exception | None:
    """Returns the error of the first failed invocation, if any. Has the records printed, in grid order.

    Fills the memory with zeros.
    """
    taken, lost, taken_by_failures, _, n_failures, *_ = memory[:N_HEADER].tolist()
    stop = min(_START + taken, len(memory))
    words: list[int] = memory[:stop].tolist()
    memory[:stop] = 0
    printed = sorted(_records(words, _START, stop, sites))
    if printed:
        text = "".join([_text(words, at, sites[site - 1]) for *_, at, site in printed])
        deferred_calls.call(partial(print, text, end=""))
    if lost:
        warn_caller(
            f"{name}: {lost} of its {len(printed) + lost} prints were lost; {remedy.format(print_limit + lost)}",
            RuntimeWarning,
        )
    if not n_failures:
        return None
    z, y, x, at, site = min(_records(words, N_HEADER, min(N_HEADER + taken_by_failures, _START), sites))
    more = f", the first of {n_failures} failures" if n_failures > 1 else ""
    failed = sites[site - 1]
    kind: type[Exception] = getattr(builtins, failed.error) if failed.error else KernelError
    return kind(_text(words, at, failed, invocation=f"invocation ({x}, {y}, {z})", more=more))


def _records(
    words: list[int], start: int, stop: int, sites: Sequence[Site]
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields (z, y, x, offset, number of the site) of each record; sorted, they are in grid order."""
    while start < stop and words[start]:
        number, x, y, z = words[start : start + 4]
        yield z, y, x, start, number
        start += sites[number - 1].n_words


def _text(words: Sequence[int], at: int, site: Site, **named: str) -> str:
    """Formats the record at this offset."""
    values, at = [], at + 4
    for kind in map(as_dtype, site.kinds):
        n_words = 2 if kind.itemsize == 8 else 1
        bits = words[at] | (words[at + 1] << 32 if n_words == 2 else 0)
        wide = kind if kind.itemsize >= 4 else np.dtype(np.float32 if kind.kind == "f" else np.uint32)
        number = np.array(bits, f"u{wide.itemsize}").view(wide)
        values.append((number if isinstance(kind, SmallFloat) else number.astype(kind))[()])
        at += n_words
    return site.text.format(*values, **named)
