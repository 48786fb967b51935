"""Random kernels of the shapes of CUDA's: early returns before barriers in loops, warps in branches, views, records.

Invocations meet at barriers, where all come that have not returned, and at operations of warps, which stand anywhere.
Python runs an invocation to its next meeting. A meeting has a key: the lines and iterations of the loops around it, and
its own line. Keys have the order of the program: the lanes of a warp with the least key are all that come there.

The text has `$name(arguments)$key$` for a meeting, of which the device and Python get their own forms.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import Any

import numpy as np

from vkcompute.gpu_report.random_programs.groups import _Group, _sent
from vkcompute.gpu_report.random_programs.kernels import _PREAMBLE, N, RandomProgram, indented
from vkcompute.gpu_report.random_programs.oracle import computed_on_host, module, on_host

N_GROUPS, WARP, LENGTH = 2, 32, 40
"""Workgroups, the lanes of a warp, and the invocations of a workgroup, whose second warp has fewer lanes."""
RECORD = np.dtype([("a", "i4"), ("b", "u1", (4,)), ("c", "u4"), ("d", "f4")])
_MEETING = re.compile(r"\$(\w+)\((.*?)\)\$(.*?)\$")
_WARP = """u0 = $ballot(B); u1 = $active_mask(); b0 = $any(B); b1 = $all(B); b0 = $elect(); u0 = $match_any(K & 3)
    b1 = $match_all(K & 1); k0 = $shuffle(K, LANE); k1 = $shuffle_xor(K, ONE); k0 = $shuffle_up(K, ONE)
    k2 = $shuffle_down(K, ONE); f0 = $shuffle_xor(F1, ONE); u1 = $ballot(B, MASK); b0 = $any(B, MASK)"""
_VOTES = "k0 = $barrier_count(B); b0 = $barrier_any(B); b1 = $barrier_all(B)"
_READS = f"""k0 ^= tile[AT]; k1 = tile[{LENGTH} - 1 - AT] - k1; k2 ^= np.int32(tile.view(np.uint8)[4 * AT + (K & 3)])
    k0 += np.int32(tile.view(np.int16)[2 * AT + (K & 1)]); k1 ^= tile[8:][K & 31]; k2 += tile[::-1][AT]
    u0 ^= tile.view(np.uint32)[AT]; k0 -= tile[1::2][K & 15]; k1 ^= tile[8:40].view(np.int16)[::-3][K & 15]"""
_WRITES = """tile[MINE] = K; tile.view(np.uint32)[MINE] = U; tile.view(np.int16)[2 * MINE + 1] = K
    tile.view(np.uint8)[4 * MINE + SOME] = U & 255; tile[::-1][MINE] = K; tile[8:][(MINE) % 32 if tid < 32 else 0] = 1
    if tid == 3: tile[8:16] = x; if tid == SOME: tile[::5] = K; if tid == 0: tile[1:] = tile[:-1]"""
_FIELDS = """vc.atomic.add(records["a"], K & 3, K); vc.atomic.max(records["a"], 4, K)
    vc.atomic.xor(records["c"], K & 3, U)
    vc.atomic.min(records["c"], 4, U); vc.atomic.or_(records[1:]["c"], (K & 1) + 4, U)
    vc.atomic.add(total.view(np.uint32), K & 7, U)"""
"""One function for each element, since workgroups come in any order: `xor` and `or_` of one do not commute."""


def _choices(text: str) -> list[str]:
    return [form.strip() for form in re.split(r"[;\n]", text)]


class WarpProgram(RandomProgram):
    """Draws one program from a random generator."""

    def __init__(self, random: Random, *, halves: bool = False) -> None:
        super().__init__(random, halves=halves)
        self._path: list[str] = []  # the parts of the key of what is drawn
        self._line = 0

    def text(self) -> str:
        """A module, with kernel(x, y, z, out, uo, fo, total, extreme, records, n)."""
        start = [
            "tid, me = vc.local_id(0), vc.global_id(0)",
            "i = tid & 7",
            f"tile = vc.shared({LENGTH}, vc.int32)",
            "hs, ps = [x[i], *(x[7 - i],) * 3], vc.local((2, 2), vc.int32)",
            "k0, k1, u0, u1, f0 = x[i], x[7 - i] + tid, y[i], y[i ^ 1], z[i]",
            *self._constants("k2 f1 b0 b1 w0 w1 m0 v0 v1 p0 p1"),
            "tile[tid] = k1",
            self._meeting("barrier()"),
        ]
        lines = [*start, *self._together(3), *self._together(3), *self._together(2)]
        end = [*[f"out[me, {n}] = k{n}" for n in range(3)], "uo[me] = u0 ^ u1", "fo[me, 0], fo[me, 1] = f0, q(f1 + m0)"]
        body = "\n".join(indented([*lines, *end]))
        body = re.sub(r"\b(out|fo)\[i,", r"\1[me,", body)
        return f"{_PREAMBLE}def kernel(x, y, z, out, uo, fo, total, extreme, records, n):\n{body}\n"

    def _next(self) -> str:
        self._line += 1
        return str(self._line)

    def _meeting(self, call: str) -> str:
        """A meeting, with its key."""
        return f"${call}${', '.join([*self._path, self._next()])},$"

    def _inside(self, lines: Callable[[], list[str]], counter: str = "0") -> list[str]:
        """The lines of a block, whose key has the number of the iteration."""
        self._path += [self._next(), counter]
        block = lines()
        del self._path[-2:]
        return indented(block)

    # -- where all invocations come that have not returned ------------------------------------------------------------

    def _together(self, depth: int) -> list[str]:
        """Statements that may have barriers."""
        lines: list[str] = []
        for _ in range(self._random.randint(1, 3)):
            kind = self._random.choice(["between", "shared", "atomic", "votes", "return", "apart", "loop", "branch"])
            lines += getattr(self, f"_{kind}")(depth - 1) if depth > 1 or kind not in ("loop", "branch") else ["pass"]
        return lines

    def _between(self, depth: int) -> list[str]:
        return self._block(1, 0, "")

    def _return(self, depth: int) -> list[str]:
        """An early return of some invocations, whose results are stored before."""
        left = self._filled(self._random.choice(["tid >= n", "tid == n + 1", "K & 7 == 3 and B", "me % 5 == n"]), 1)
        return [f"if {left}:", "    out[me, 0], uo[me] = k0, u0", "    return"]

    def _shared(self, depth: int) -> list[str]:
        """Stores to the shared array, each to elements of its own or one alone, and loads of any."""
        mine = self._random.choice(["tid", f"{LENGTH - 1} - tid", f"(tid * 3 + 5) % {LENGTH}", "tid ^ 1"])
        write = self._random.choice([form for form in _choices(_WRITES) if "32 else 0" not in form])
        reads = [self._random.choice(_choices(_READS)) for _ in range(2)]
        lines = [write.replace("MINE", f"({mine})"), *reads]
        at = self._random.choice(["tid", f"(tid + 7) % {LENGTH}", "(K & 31)", "3", "(tid ^ 32) % 40"])
        lines = [
            self._filled(line.replace("AT", f"({at})").replace("SOME", str(self._random.randrange(4))), 2)
            for line in lines
        ]
        return [lines[0], self._meeting("barrier()"), *lines[1:], self._meeting("barrier()")]

    def _atomic(self, depth: int) -> list[str]:
        """Atomic operations that may be done in any order: one function for each memory."""
        add = f"vc.atomic.{self._random.choice(['add', 'xor', 'max'])}(tile, K & 31, K)"
        forms = [*_choices(_FIELDS), add]
        line = self._filled(self._random.choice(forms), 2)
        lines = [self._filled("if B:", 2), f"    {line}"] if self._random.random() < 0.5 else [line]
        return [*lines, self._meeting("barrier()"), "k1 ^= tile[tid]", self._meeting("barrier()")]

    def _votes(self, depth: int) -> list[str]:
        target, call = self._random.choice(_choices(_VOTES)).split(" = $")
        return [f"{target} = {self._meeting(self._filled(call, 2))}"]

    def _loop(self, depth: int) -> list[str]:
        """A loop with as many iterations for all invocations."""
        name = f"t{self._next()}"
        count = self._random.choice(["n & 3", "2", "min(n, 3)", "(x[2] & 1) + 1", "vc.group_id(0) + 1"])
        body = self._inside(lambda: self._together(depth), name)
        leave = [f"    if {self._random.choice(['n', 'x[3]', 'total.size'])} == {name}: break"]
        return [f"for {name} in range({count}):", *body, *(leave if self._random.random() < 0.3 else [])]

    def _branch(self, depth: int) -> list[str]:
        """A branch that all invocations take, or none."""
        test = self._random.choice(["n > 9", "x[n & 7] > 0", "vc.group_id(0) == 0", "n & 1 == 1 or y[0] > 9"])
        lines = [f"if {test}:", *self._inside(lambda: self._together(depth))]
        return [*lines, "else:", *self._inside(lambda: self._together(depth))] if self._random.random() < 0.5 else lines

    # -- where some invocations come ----------------------------------------------------------------------------------

    def _apart(self, depth: int) -> list[str]:
        """Statements that may have operations of warps."""
        kind = self._random.choice(["warp", "warp", "some", "turns"] if depth > 0 else ["warp"])
        return getattr(self, f"_{kind}")(depth - 1)  # type: ignore[no-any-return]

    def _several(self, depth: int) -> list[str]:
        lines = [line for _ in range(self._random.randint(1, 2)) for line in self._apart(depth)]
        return [*lines, *(self._between(0) if self._random.random() < 0.3 else [])]

    def _warp(self, depth: int) -> list[str]:
        target, call = self._random.choice(_choices(_WARP)).split(" = $")
        numbers = {"LANE": "K & 31", "ONE": str(self._random.choice([1, 2, 5, 16, 31])), "MASK": "0x0F0F00FF"}
        for name, number in numbers.items():
            call = call.replace(name, number)
        if not call.startswith("shuffle"):
            return [f"{target} = {self._meeting(self._filled(call, 2))}"]
        name, arguments = call[:-1].split("(")
        return self._shuffled(target, name, *[self._filled(form, 2) for form in arguments.split(", ")])

    def _shuffled(self, target: str, name: str, value: str, by: str) -> list[str]:
        """A shuffle, whose value counts where the other lane is active."""
        lane, there = f"s{self._next()}", f"s{self._next()}"
        source = {
            "shuffle": by, "shuffle_xor": f"(tid & 31) ^ {by}", "shuffle_up": f"max((tid & 31) - {by}, 0)",
            "shuffle_down": f"min((tid & 31) + {by}, 31)",
        }[name]  # fmt: skip
        call = f"{name}({value}, {lane if name == 'shuffle' else by})"
        return [
            f"{lane} = np.int32({source})",
            f"{there} = {self._meeting('active_mask()')} >> np.uint32({lane}) & 1",
            f"r{there} = {self._meeting(call)}",
            f"if {there} == 1: {target} = r{there}",
        ]

    def _some(self, depth: int) -> list[str]:
        """A branch of some invocations."""
        lines = [self._filled("if B:", 2), *self._inside(lambda: self._several(depth))]
        if self._random.random() < 0.2:
            lines += indented(["out[me, 0], uo[me] = k0, u0", "return"])
        return [*lines, "else:", *self._inside(lambda: self._several(depth))] if self._random.random() < 0.4 else lines

    def _turns(self, depth: int) -> list[str]:
        """A loop with a number of iterations for each invocation."""
        name = f"j{self._next()}"
        body = self._inside(lambda: self._several(depth), name)
        leave = indented([self._filled(self._random.choice(["if B: break", "if B: continue"]), 1)])
        body = [*leave, *body] if self._random.random() < 0.3 else body
        if self._random.random() < 0.5:
            return [self._filled(f"for {name} in range(K & 3):", 1), *body]
        return [f"{name} = -1", self._filled(f"while {name} < 2 and (B):", 2), f"    {name} += 1", *body]


def of_device(text: str) -> str:
    """The module as a kernel has it."""
    return _MEETING.sub(lambda m: f"vc.{'' if m[1].startswith('barrier') else 'warp.'}{m[1]}({m[2]})", text)


def of_host(text: str) -> str:
    """The module as Python runs it: a meeting is a request."""
    return _MEETING.sub(lambda m: f'(yield ({m[3]}), "{m[1]}", ({m[2]}{"," * bool(m[2])}))', text)


def data_of(random: np.random.Generator) -> list[Any]:
    """The arguments of a kernel."""
    n = LENGTH * N_GROUPS
    x = np.where(random.random(N) < 0.6, random.integers(-20, 20, N), random.integers(-(2**31) + 1, 2**31, N))
    y = np.where(random.random(N) < 0.6, random.integers(0, 20, N), random.integers(0, 2**32, N))
    z = (random.integers(-32, 33, N) * 0.25).astype(np.float32)
    results = np.full((n, 6), -7, np.int32), np.full(n, 7, np.uint32), np.full((n, 4), -7, np.float32)
    records = np.zeros(7, RECORD)
    records["b"] = 9
    total, extreme = np.full(8, 5, np.int32), np.full(4, 9, np.uint32)
    limit = int(random.choice([0, 1, 3, 7, 31, 33, 50]))
    return [x.astype(np.int32), y.astype(np.uint32), z, *results, total, extreme, records, limit]


class _Thread(_Group):
    """`vc` as an invocation of a workgroup of `LENGTH` sees it."""

    def __init__(self, at: int, group: int, arrays: dict[Any, Any]) -> None:
        super().__init__(at, group, arrays)
        self._at, self._local = (group * LENGTH + at, 0, 0), (LENGTH, 1, 1)


def run_by_keys(text: str, arguments: Sequence[Any], groups: Sequence[int] = range(N_GROUPS)) -> list[Any]:
    """The arguments after the kernel, by Python, which runs the workgroups in this order."""
    kernel = module(of_host(text)).kernel

    def run(*arrays: Any) -> None:
        for group in groups:
            shared: dict[Any, Any] = {}
            _run_group([on_host(kernel, _Thread(at, group, shared), *arrays) for at in range(LENGTH)])

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return computed_on_host(run, tuple(arguments))


def _run_group(threads: list[Generator[Any, Any, None]]) -> None:
    """Runs the invocations of a workgroup to their ends."""
    asked: dict[int, Any] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(threads)))
    while answers:
        sent = {at: _sent(threads[at], answer) for at, answer in answers.items()}
        asked = {at: request for at, request in (asked | sent).items() if request is not StopIteration}
        answers = {}
        for first in range(0, len(threads), WARP):
            answers |= _warp_answers({at: asked[at] for at in range(first, first + WARP) if at in asked})
        if not answers and asked:
            assert len({key for key, *_ in asked.values()}) == 1, "a barrier that some do not reach"
            answers = _group_answers(asked)


def _group_answers(asked: dict[int, Any]) -> dict[int, Any]:
    """The results of a barrier."""
    votes = [bool(args[0]) for _, _, args in asked.values() if args]
    results = {
        "barrier": None,
        "barrier_count": np.int32(sum(votes)),
        "barrier_any": any(votes),
        "barrier_all": all(votes),
    }
    return {at: results[name] for at, (_, name, _) in asked.items()}


def _warp_answers(asked: dict[int, Any]) -> dict[int, Any]:
    """The results of the first meeting of a warp, unless it is a barrier of the workgroup."""
    least = min([key for key, *_ in asked.values()], default=None)
    lanes = {at: (name, args) for at, (key, name, args) in asked.items() if key == least}
    if not lanes or next(iter(lanes.values()))[0].startswith("barrier"):
        return {}
    name = next(iter(lanes.values()))[0]
    values = {at % WARP: args for at, (_, args) in lanes.items()}
    return {at: _result(name, values, at % WARP) for at in lanes}


def _result(name: str, values: dict[int, Any], own: int) -> Any:
    """The result of an operation for a lane, given the arguments of those that are there."""
    args = values[own]
    if name.startswith("shuffle"):
        by = int(args[1])
        n = {"shuffle": by, "shuffle_xor": own ^ by, "shuffle_up": own - by, "shuffle_down": own + by}[name]
        return values[n][0] if n in values else args[0]
    mask = int(args[1]) if len(args) > 1 else 2**WARP - 1
    among = [lane for lane in values if mask >> lane & 1]
    alike = [lane for lane in among if not args or (values[lane][0] == args[0] if "match" in name else values[lane][0])]
    results = {
        "elect": own == min(values), "any": bool(alike), "all": len(alike) == len(among),
        "match_all": len(alike) == len(values),
    }  # fmt: skip
    return results[name] if name in results else np.uint32(sum(1 << lane for lane in alike))
