"""Random kernels with grid barriers, and their results by Python: invocations are generators that stop at barriers.

The text of a kernel is the text of its generator, but for barriers, ids and the places where arrays are made.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

LOCAL = 16
_HEAD = """
i = vc.global_id(0)
t = vc.local_id(0)
tile = vc.shared(16, vc.int32)
mine = vc.local(4, vc.int32)
a = x[i]
b = i
tile[t] = t
mine[0] = 3
mine[1] = i
mine[2] = a
mine[3] = 1
vc.barrier()
"""
_TAIL = """
x[i] = a
out[i] = a + 3 * b + 5 * mine[n % 4] + 7 * tile[t]
"""


class Program:
    """A random kernel of x, y, out, n and steps: arrays of int32 with an element for each invocation."""

    def __init__(self, seed: int, *, returns: bool) -> None:
        self._random, self._n_names, self._lines = random.Random(seed), 0, list[str]()
        body = _HEAD.strip().splitlines()
        if returns and self._random.random() < 0.5:  # else invocations return behind a barrier, if at all
            body += ["if i >= n:", "    return"]
        body += self._block(3, (), in_loop=False, returns=returns)
        self.body = "\n".join([*body, *_TAIL.strip().splitlines()])
        self.text = "import vkcompute as vc\n\ndef made(x, y, out, n, steps):\n" + textwrap.indent(self.body, "    ")

    def _block(self, depth: int, counters: Sequence[str], *, in_loop: bool, returns: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self._random.randint(1, 3)):
            lines += self._statement(depth, counters, in_loop=in_loop, returns=returns)
        return lines

    def _statement(self, depth: int, counters: Sequence[str], *, in_loop: bool, returns: bool) -> list[str]:
        pick, c = self._random.random, self._random.randint(1, 9)
        kind = self._random.choice(
            ["exchange", "share", "own", "differ", "if", "for", "while", "leave", "total", "wait", "repeat"]
        )
        uniform = self._random.choice(["steps", "n", *counters])
        if kind == "exchange":
            return [f"y[i] = a + {c}", "vc.grid_barrier()", f"a = (a + y[(i + {c}) % n]) & 1023", "vc.grid_barrier()"]
        if kind == "wait":
            return ["vc.grid_barrier()"]
        if kind == "repeat":
            return [f"for _ in range({c} + a % 3):", f"    b = (3 * b + {uniform}) & 1023", "vc.grid_barrier()"]
        if kind == "share":
            first = ["tile[t] = (tile[t] + a) & 1023", *(["vc.grid_barrier()"] if pick() < 0.5 else []), "vc.barrier()"]
            return [*first, f"b = (b + tile[(t + {c}) % 16]) & 1023", "vc.barrier()"]
        if kind == "own":
            return [f"mine[{c} % 4] = (b + {uniform}) & 255", f"a = (a ^ mine[({uniform} + {c}) % 4]) & 1023"]
        if kind == "differ":
            leaves = ["    return"] if returns and pick() < 0.2 else [f"    b = (a + {c}) & 1023"]
            return [f"if (a + i) % {c + 1} == 0:", *leaves, "else:", f"    a = (a + {uniform}) & 1023"]
        if kind == "leave" and in_loop:
            return [f"if {uniform} % {c + 1} == {c}:", f"    {self._random.choice(['break', 'continue'])}"]
        if depth == 0 or kind in ("total", "leave"):
            return [f"b = (b * {c} + a + {uniform}) & 1023"]
        if kind == "if":
            parts = [self._indented(depth, counters, in_loop, returns) for _ in range(2)]
            return [f"if ({uniform} + {c}) % 3 == 0:", *parts[0], *(["else:", *parts[1]] if pick() < 0.6 else [])]
        name = f"k{self._n_names}"
        self._n_names += 1
        if kind == "for":
            stop = self._random.choice(["steps", "3", f"steps - {c % 2}"])
            return [f"for {name} in range({stop}):", *self._indented(depth, [*counters, name], True, returns)]
        head = [f"{name} = 0", f"while {name} < steps:", f"    {name} += 1"]
        return [*head, *self._indented(depth, [*counters, name], True, returns)]

    def _indented(self, depth: int, counters: Sequence[str], in_loop: bool, returns: bool) -> list[str]:
        return [f"    {line}" for line in self._block(depth - 1, counters, in_loop=in_loop, returns=returns)]

    def expected(self, arrays: Sequence[np.ndarray[Any, Any]], n: int, steps: int) -> None:
        """Computes what the kernel does to x, y and out."""
        body = self.body.replace("vc.barrier()", "yield 'group'").replace("vc.grid_barrier()", "yield 'grid'")
        body = body.replace("vc.global_id(0)", "group * 16 + local").replace("vc.local_id(0)", "local")
        body = body.replace("vc.shared(16, vc.int32)", "shared").replace("vc.local(4, vc.int32)", "[0] * 4")
        names: dict[str, Any] = {}
        exec("def made(group, local, shared, x, y, out, n, steps):\n" + textwrap.indent(body, "    "), names)
        lists = [array.tolist() for array in arrays]
        run(names["made"], len(arrays[0]) // LOCAL, (*lists, n, steps))
        for array, values in zip(arrays, lists, strict=True):
            array[:] = values


def run(made: Callable[..., Iterator[str]], n_groups: int, args: Sequence[Any]) -> None:
    """Runs generators of a grid, to a barrier of the workgroup or of the grid in turns."""
    groups: list[list[Iterator[str]]] = []
    for group in range(n_groups):
        shared = [0] * LOCAL
        groups.append([made(group, local, shared, *args) for local in range(LOCAL)])
    while any(groups):
        for group in groups:
            reached = {"group"}
            while reached == {"group"}:
                stops = [(one, next(one, None)) for one in group]
                group[:] = [one for one, stop in stops if stop is not None]
                reached = {stop for _, stop in stops if stop is not None}
                assert len(reached) <= 1, "invocations wait at barriers of two kinds"
