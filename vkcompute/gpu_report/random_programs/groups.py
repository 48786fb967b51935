"""Random kernels whose invocations share memory: phases with barriers, atomic operations and subgroup operations.

Between two phases stands a part of a program of kernels.py. Invocations of a workgroup meet in phases
only, so Python runs them one after the other up to the next one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Sequence
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from vkcompute.gpu_report.random_programs.kernels import _PREAMBLE, N, RandomProgram, indented
from vkcompute.gpu_report.random_programs.oracle import Host, computed_on_host, module, on_host

N_GROUPS = 2
_ATOMICS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and_": np.bitwise_and, "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
_FOR_FLOATS = ("min", "max")
_SUBGROUP = """k0 = add(K); k1 = mul(K); k2 = min(K); k0 = max(K); k1 = and_(K); k2 = or_(K); u0 = xor(U); u1 = add(U)
    f0 = min(F1); f1 = max(F1); k0 = inclusive_add(K); k1 = exclusive_add(K); u0 = inclusive_max(U); b0 = any(B)
    b1 = all(B); k2 = broadcast_first(K); k0 = shuffle_xor(K, LANES); k1 = shuffle(K, LANES); f0 = shuffle(F1, LANES)"""


class GroupProgram(RandomProgram):
    """Draws one program from a random generator."""

    def text(self) -> str:
        """A module, with kernel(x, y, z, out, uo, fo, total, extreme), the first ones as of `RandomProgram`."""
        self._of_total, self._of_extreme = self._random.choice([*_ATOMICS]), self._random.choice(_FOR_FLOATS)
        start = [
            "i, me = vc.local_id(0), vc.global_id(0)",
            f"shared = vc.shared(({N},), vc.int32)",
            "hs, ps = [x[i], *(x[7 - i],) * 3], vc.local((2, 2), vc.int32)",
            "k0, k1, u0, u1, f0 = x[i], x[7 - i], y[i], y[i ^ 1], z[i]",
            *self._constants("k2 f1 b0 b1 w0 w1 m0 v0 v1 p0 p1"),
        ]
        end = [*[f"out[me, {n}] = k{n}" for n in range(3)], "uo[me] = u0 ^ u1", "fo[me, 0], fo[me, 1] = f0, q(f1 + m0)"]
        lines = start
        for _ in range(self._random.randint(1, 3)):
            phases = [line for _ in range(self._random.randint(1, 2)) for line in (*self._between(), *self._phase())]
            if self._random.random() < 0.3:
                phases = [f"for turn in range({self._random.randint(1, 3)}):", *indented(phases)]
            lines += phases
        body = "\n".join(indented([*lines, *self._between(), *end]))
        body = re.sub(r"\b(out|fo)\[i,", r"\1[me,", body)
        return f"{_PREAMBLE}def kernel(x, y, z, out, uo, fo, total, extreme):\n{body}\n"

    def _between(self) -> list[str]:
        return self._block(1, 0, "")

    def _phase(self) -> list[str]:
        kind = self._random.choice(["shared", "atomic", "subgroup", "subgroup"])
        if kind == "subgroup":
            target, call = self._random.choice([line.strip() for line in re.split("[;\n]", _SUBGROUP)]).split(" = ")
            filled = self._filled(call, 2).replace("LANES", str(self._random.randrange(4)))
            return [f"{target} = vc.subgroup.{filled}"]
        if kind == "atomic":
            lines = [f"vc.atomic.{self._of_total}(total, K & 7, K)", f"vc.atomic.{self._of_extreme}(extreme, U & 3, U)"]
            return [self._filled(self._random.choice(lines), 2)]
        shift = self._random.randrange(N)
        lines = [f"shared[(i * 3 + {shift}) & 7] = K", "vc.barrier()"]
        if self._random.random() < 0.5:
            name = self._random.choice([*_ATOMICS])
            lines += ["if B:", f"    vc.atomic.{name}(shared, K & 7, K)", "vc.barrier()"]
        lines += ["k0 ^= shared[K & 7]", "k1 = shared[I8] - k1", "vc.barrier()"]
        return [self._filled(line.replace("I8", self._random.choice(["i", "7 - i", "3"])), 2) for line in lines]


def data_of(random: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """The arguments of a kernel."""
    n = N * N_GROUPS
    x = np.where(random.random(N) < 0.6, random.integers(-20, 20, N), random.integers(-(2**31) + 1, 2**31, N))
    y = np.where(random.random(N) < 0.6, random.integers(0, 20, N), random.integers(0, 2**32, N))
    z = (random.integers(-32, 33, N) * 0.25).astype(np.float32)
    results = np.full((n, 6), -7, np.int32), np.full(n, 7, np.uint32), np.full((n, 4), -7, np.float32)
    return [x.astype(np.int32), y.astype(np.uint32), z, *results, np.full(8, 5, np.int32), np.full(4, 9, np.uint32)]


class _Group(Host):
    """`vc` as an invocation of a workgroup sees it."""

    def __init__(self, at: int, group: int, arrays: dict[Any, Any]) -> None:
        super().__init__((group * N + at, 0, 0), (N, 1, 1), (N_GROUPS, 1, 1))
        self._arrays = arrays
        self.atomic = SimpleNamespace(**{name: _atomic(function) for name, function in _ATOMICS.items()})

    def shared(self, shape: Any, dtype: Any) -> Any:
        return self._arrays.setdefault(shape, np.zeros(shape, dtype))


def _atomic(function: Callable[..., Any]) -> Callable[..., None]:
    def apply(array: Any, index: Any, value: Any) -> None:
        array[index] = function(array[index], array.dtype.type(value))

    return apply


def run_in_step(text: str, arguments: Sequence[Any], subgroup_size: int) -> list[Any]:
    """The arguments after the kernel, by Python."""
    text = text.replace("vc.barrier()", "yield")
    text = re.sub(r"= vc\.subgroup\.(\w+)\((.*)\)$", r'= yield ("\1", \2)', text, flags=re.MULTILINE)
    kernel = module(text).kernel

    def run(*arrays: Any) -> None:
        for group in range(N_GROUPS):
            shared: dict[Any, Any] = {}
            members = [_Group(at, group, shared) for at in range(N)]
            started = [on_host(kernel, member, *arrays) for member in members]
            _run_group([invocation for invocation in started if invocation is not None], subgroup_size)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return computed_on_host(run, tuple(arguments))


def _run_group(invocations: list[Generator[Any, Any, None]], subgroup_size: int) -> None:
    answers: list[Any] = [None] * N
    while invocations:
        asked = [_sent(invocation, answer) for invocation, answer in zip(invocations, answers, strict=True)]
        if StopIteration in asked:
            assert asked == [StopIteration] * N
            return
        answers = [None] * N
        if asked[0] is not None:
            starts = range(0, N, subgroup_size)
            answers = [result for at in starts for result in _combined(asked[at : at + subgroup_size])]


def _sent(invocation: Generator[Any, Any, None], answer: Any) -> Any:
    """Returns the next request of an invocation; StopIteration at its end."""
    try:
        return invocation.send(answer)
    except StopIteration:
        return StopIteration


def _combined(asked: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The results of a subgroup operation, for each of its lanes."""
    name, values = asked[0][0], [request[1] for request in asked]
    functions = _ATOMICS | {"mul": np.multiply}
    if name in functions:
        return [reduce(functions[name], values)] * len(values)
    if name in ("any", "all"):
        return [getattr(np, name)(values)] * len(values)
    if name == "broadcast_first":
        return [values[0]] * len(values)
    if name.startswith("shuffle"):
        lanes = [at ^ request[2] if name == "shuffle_xor" else request[2] for at, request in enumerate(asked)]
        return [values[lane] for lane in lanes]
    kind, _, function = name.partition("_")
    sums = [reduce(functions[function], values[: at + 1]) for at in range(len(values))]
    return sums if kind == "inclusive" else [type(values[0])(0), *sums[:-1]]
