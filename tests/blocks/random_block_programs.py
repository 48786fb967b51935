"""Random block programs, as texts in Triton's language: a device computes what the interpreter does.

Half of the programs are exact, and compared to the bit: floats are integers, limited after each operation, so that all
results are the same in any order. The others have quotients, functions and fractions of floats, whose differences are
within the bounds of `error_bounds`.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from error_bounds import Undecided, bounded
from random_block_steps import HELPERS, MORE_STEPS, SLOT

import vkcompute as vc
from vkcompute.compat import triton
from vkcompute.compat.triton import language as tl

N_INPUT, N_PROGRAMS = 512, 2
INTEGERS = "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
FLOATS = "float16", "bfloat16", "float32", "float64"
SMALL = "float16", "bfloat16"
REFUSED = {
    "bytes of workgroup memory": "needs more workgroup memory",
    "atomic operations on numbers of 64 bits are not computed": "needs atomics of 64 bits",
}
"""Outcomes by a part of the error's text."""
OUTCOMES = "same", "within bounds", "undecided", *REFUSED.values()
FEATURES = {"float64": ("shaderFloat64",)}
HEAD = """import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

@triton.jit
def greater(a, b):
    return tl.maximum(a, b)

@triton.jit
def last(a, b, c, d):
    return tl.where(c > 0, c, a), d

"""


class Launch(NamedTuple):
    """The grid and warps of a launch."""

    grid: tuple[int, ...]
    n_warps: int


class Writer:
    """Writes one program.

    Attributes:
        values: (name, shape, dtype) of the blocks that are known.
        is_rough: True if floats are not exact.
    """

    def __init__(self, random: Random, dtypes: list[str], *, rough: bool) -> None:
        self.random, self.dtypes, self.depth = random, dtypes, 1
        self.is_rough = rough
        self.lines: list[str] = []
        self.values: list[tuple[str, tuple[int, ...], str]] = []
        self.n_names, self.n_stored = 0, dict.fromkeys(dtypes, 0)

    def text(self) -> str:
        """Returns the whole program."""
        self.line("pid = tl.program_id(0) + tl.program_id(1) + tl.program_id(2)")
        for _ in range(3):
            self.load(self.random.choice(self.dtypes), self.shape())
        if self.is_rough:
            self.fraction()
            self.fraction()
        for _ in range(self.random.randint(4, 12)):
            self.random.choice(ROUGH_STEPS if self.is_rough else STEPS)(self)
        for value in self.values[-6:]:
            self.store(*value)
        pointers = [f"{kind}_{dtype}" for dtype in self.dtypes for kind in ("given", "out", "scratch")]
        return (
            f"{HEAD}{HELPERS}@triton.jit\ndef program({', '.join(pointers)}, counts, n):\n"
            + "\n".join(self.lines)
            + "\n"
        )

    # -- texts --------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def new(self, text: str, shape: tuple[int, ...], dtype: str) -> str:
        """Assigns an expression to a new variable; floats are limited."""
        self.n_names += 1
        name, limit = f"v{self.n_names}", 8.0 if dtype in SMALL else 512.0
        back = f".to(tl.{dtype})" if dtype in SMALL else ""
        self.line(f"{name} = {text}" if dtype not in FLOATS else f"{name} = tl.clamp({text}, -{limit}, {limit}){back}")
        self.values.append((name, shape, dtype))
        return name

    def shape(self) -> tuple[int, ...]:
        logs = [self.random.randint(0, 5) for _ in range(self.random.randint(1, 3))]
        while sum(logs) > 8:
            logs[logs.index(max(logs))] -= 1
        return tuple(1 << log for log in logs)

    def pick(self, fits: Callable[[tuple[int, ...], str], bool] = lambda shape, dtype: True) -> tuple[Any, ...]:
        """Returns a value that fits; a new one if there is none."""
        results = [value for value in self.values if fits(*value[1:])]
        if not results:
            return self.load("int32" if fits((16,), "int32") else "float32", (16,))
        return self.random.choice(results)

    def alike(self, shape: tuple[int, ...], dtype: str) -> str:
        """Returns the name of a block of this shape and dtype."""
        results = [name for name, *kind in self.values if kind == [shape, dtype]]
        return self.random.choice(results) if results else self.load(dtype, shape)[0]

    def offsets(self, shape: tuple[int, ...]) -> str:
        """Row-major offsets, perhaps transposed or reversed."""
        n = math.prod(shape)
        flat = f"tl.arange(0, {n})"
        kind = self.random.choice(["plain", "plain", "transposed", "reversed"])
        if kind == "transposed":
            return f"tl.reshape({flat}, {shape[::-1]}).permute({tuple(reversed(range(len(shape))))})"
        return f"tl.reshape({flat if kind == 'plain' else f'{n - 1} - {flat}'}, {shape})"

    # -- memory -------------------------------------------------------------------------------------------------------

    def load(self, dtype: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], str]:
        at = f"{self.offsets(shape)} + {self.random.choice(['0', '4', '7', 'pid * 16'])}"
        mask = self.random.choice(["", "", f", mask={at} < n * 5, other=3", f", mask={at} < n * 8"])
        name = self.new(f"tl.load(given_{dtype} + {at}{mask})", shape, dtype)
        return name, shape, dtype

    def store(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        if dtype == "int1":
            name, dtype = f"{name}.to(tl.int32)", "int32"
        at = f"pid * {SLOT} + {self.n_stored[dtype]} + {self.offsets(shape)}"
        self.n_stored[dtype] += math.prod(shape)
        self.line(f"tl.store(out_{dtype} + {at}, {name})")

    def through_memory(self) -> None:
        """Stores a block, and loads it in another order."""
        name, shape, dtype = self.pick(lambda _, dtype: dtype != "int1")
        place = f"scratch_{dtype} + pid * {SLOT} + "
        mask = self.random.choice(["", f", mask={self.offsets(shape)} < n * 4"])
        self.line(f"tl.store({place}{self.offsets(shape)}, {name}{mask})")
        self.new(f"tl.load({place}{self.offsets(shape)})", shape, dtype)

    def atomic(self) -> None:
        name, _, _ = self.pick(lambda _, dtype: dtype in ("int32", "uint32"))
        kind = self.random.choice(["add", "max", "min", "xor", "or", "and"])
        row = ["add", "max", "min", "xor", "or", "and"].index(kind)
        mask = self.random.choice(["", f", mask={name} > 3"])
        self.line(f"tl.atomic_{kind}(counts + {16 * row} + ({name} & 15).to(tl.int32), {name}.to(tl.int32){mask})")

    # -- elements -----------------------------------------------------------------------------------------------------

    def binary(self) -> None:
        name, shape, dtype = self.pick(lambda _, dtype: dtype != "int1")
        other = self.alike(shape, dtype)
        if dtype in FLOATS:
            text = self.random.choice(["{0} + {1}", "{0} - {1}", "{0} * {1}", "tl.maximum({0}, {1})", "-{0}"])
        else:
            text = self.random.choice([
                "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} // ({1} | 1)",
                "{0} % ({1} | 1)", "{0} << ({1} & 7)", "{0} >> ({1} & 7)", "tl.minimum({0}, {1})", "~{0}",
            ])  # fmt: skip
        self.new(text.format(name, other), shape, dtype)

    def choose(self) -> None:
        name, shape, dtype = self.pick(lambda _, dtype: dtype != "int1")
        other, sign = self.alike(shape, dtype), self.random.choice(["<", ">=", "==", "!="])
        condition = self.new(f"{name} {sign} {other}", shape, "int1")
        self.new(f"tl.where({condition}, {name}, {self.alike(shape, dtype)})", shape, dtype)

    def convert(self) -> None:
        name, shape, dtype = self.pick()
        wanted = self.random.choice(self.dtypes)
        if wanted in FLOATS and dtype not in FLOATS:
            name = f"({name} & 7)" if dtype != "int1" else name
        elif wanted.startswith("uint") and dtype in FLOATS:
            name = f"tl.abs({name})"
        elif wanted == "int8" and dtype in FLOATS:
            name = f"tl.clamp({name}, -100.0, 100.0)"
        if wanted == "uint8" and dtype in FLOATS:
            name = f"tl.minimum({name}, 100.0)"
        self.new(f"{name}.to(tl.{wanted})", shape, wanted)

    def function(self) -> None:
        """Rounds: by a function or a quotient."""
        name, shape, dtype = self.pick(lambda _, dtype: dtype in ("float32", "float64"))
        text = self.random.choice([
            "tl.exp(tl.minimum({0}, 4.0))", "tl.log(tl.abs({0}) + 0.5)", "tl.sin({0})", "tl.cos({0})",
            "tl.sqrt(tl.abs({0}))", "{0} / (tl.abs({1}) + 1.0)", "{0} / 3.0", "({0} + 0.1) * ({1} + 0.7)",
        ])  # fmt: skip
        self.new(text.format(name, self.alike(shape, dtype)), shape, dtype)

    def fraction(self) -> None:
        """Rounds: a float of any dtype times a fraction, perhaps by way of a smaller dtype."""
        name, shape, dtype = self.pick(lambda _, dtype: dtype in FLOATS)
        text = f"{name} * {self.random.choice([0.3, 1.7, -0.001])}"
        smaller = [each for each in self.dtypes if each in SMALL and dtype not in SMALL]
        self.new(f"({text}).to(tl.{self.random.choice([*smaller, dtype])}).to(tl.{dtype})", shape, dtype)

    # -- shapes -------------------------------------------------------------------------------------------------------

    def reorder(self) -> None:
        name, shape, dtype = self.pick()
        order = self.random.sample(range(len(shape)), len(shape))
        self.new(f"tl.permute({name}, {tuple(order)})", tuple(shape[axis] for axis in order), dtype)

    def reshape(self) -> None:
        name, shape, dtype = self.pick()
        logs = [length.bit_length() - 1 for length in shape]
        total, first = sum(logs), self.random.randint(0, sum(logs))
        wanted = (1 << first, 1 << total - first)
        self.new(f"tl.reshape({name}, {wanted})", wanted, dtype)

    def join(self) -> None:
        name, shape, dtype = self.pick(lambda shape, _: math.prod(shape) <= 128 and len(shape) < 3)
        other, kind = self.alike(shape, dtype), self.random.choice(["join", "cat", "interleave"])
        if kind == "join":
            self.new(f"tl.join({name}, {other})", (*shape, 2), dtype)
        elif kind == "cat":
            axis = self.random.randrange(len(shape))
            wanted = tuple(2 * n if at == axis else n for at, n in enumerate(shape))
            self.new(f"tl.cat({name}, {other}, dim={axis})", wanted, dtype)
        else:
            self.new(f"tl.interleave({name}, {other})", (*shape[:-1], 2 * shape[-1]), dtype)

    def split(self) -> None:
        name, shape, dtype = self.pick(lambda shape, _: shape[-1] >= 2 and len(shape) < 3)
        half = (*shape[:-1], shape[-1] // 2)
        self.line(f"one, other = tl.split(tl.reshape({name}, {(*half, 2)}))")
        self.new("one", half, dtype)
        self.new("other", half, dtype)

    def order(self) -> None:
        name, shape, dtype = self.pick()
        kind = self.random.choice(["sort", "flip", "gather", "topk"])
        if kind == "flip":
            self.new(f"tl.flip({name}, {self.random.randrange(len(shape))})", shape, dtype)
        elif kind == "gather":
            axis = self.random.randrange(len(shape))
            index = self.alike(shape, "int32")
            self.new(f"tl.gather({name}, {index} & {shape[axis] - 1}, {axis})", shape, dtype)
        elif shape[-1] <= 16 and kind == "sort":
            self.new(f"tl.sort({name}, descending={self.random.choice([False, True])})", shape, dtype)
        elif shape[-1] <= 16:
            k = 1 << self.random.randint(0, shape[-1].bit_length() - 1)
            self.new(f"tl.topk({name}, {k}).to(tl.{dtype})", (*shape[:-1], k), dtype)

    def histogram(self) -> None:
        name, shape, _ = self.pick(lambda _, dtype: dtype in INTEGERS)
        self.new(f"tl.histogram({name}.reshape({math.prod(shape)}).to(tl.int32), 16)", (16,), "int32")

    # -- along axes ---------------------------------------------------------------------------------------------------

    def reduce(self) -> None:
        name, shape, dtype = self.pick(lambda _, dtype: dtype != "int1")
        axis = self.random.randrange(len(shape))
        name, dtype = (f"{name}.to(tl.float32)", "float32") if dtype in SMALL else (name, dtype)
        wide = dtype if dtype in FLOATS or dtype[-2:] in ("32", "64") else dtype.rstrip("0123456789") + "32"
        kinds = ["sum", "max", "min", "argmax", "argmin", "reduce", "tuple"]
        kind = self.random.choice(kinds if dtype in FLOATS else [*kinds, "xor_sum"])
        kept = tuple(1 if at == axis else n for at, n in enumerate(shape))
        if kind == "tuple":
            other = self.alike(shape, "int32")
            self.line(f"one, other = tl.reduce(({name}, {other}), {axis}, last, keep_dims=True)")
            self.new(f"tl.broadcast_to(other, {shape})", shape, "int32")
            result, wide = "one", dtype
        elif kind == "reduce":
            result, wide = f"tl.reduce({name}, {axis}, greater, keep_dims=True)", dtype
        elif kind in ("argmax", "argmin"):
            result, wide = f"tl.{kind}({name}, {axis}, keep_dims=True)", "int32"
        else:
            if kind in ("max", "min") and wide in ("uint32",) and dtype != "uint32":
                wide = "int32"
            result = f"tl.{kind}({name}, {axis}, keep_dims=True)"
        if wide not in self.dtypes:
            return
        self.new(f"tl.broadcast_to({result}, {shape}) + tl.zeros({kept}, tl.{wide})", shape, wide)

    def scan(self) -> None:
        name, shape, dtype = self.pick(lambda _, dtype: dtype[-2:] in ("32", "64"))
        axis, reverse = self.random.randrange(len(shape)), self.random.choice([False, True])
        kind = self.random.choice(["cumsum", "scan", "cumprod" if dtype not in FLOATS else "cumsum"])
        if kind == "scan":
            self.new(f"tl.associative_scan({name}, {axis}, greater, reverse={reverse})", shape, dtype)
        else:
            self.new(f"tl.{kind}({name}, {axis}, reverse={reverse})", shape, dtype)

    def dot(self) -> None:
        m, k, n = (1 << self.random.randint(0, 4) for _ in range(3))
        dtype = self.random.choice([each for each in self.dtypes if each in ("int32", "float32", *SMALL)])
        one, other = self.load(dtype, (m, k))[0], self.load(dtype, (k, n))[0]
        wide = "int32" if dtype == "int32" else "float32"
        if dtype == "float32":
            one = f"tl.clamp({one}, -64.0, 64.0)"
        if self.is_rough and dtype in FLOATS:
            one, other = f"{one} * 0.3", f"{other} * 1.7"
        start = self.random.choice(["", f", {self.alike((m, n), wide)}"])
        self.new(f"tl.dot({one}, {other}{start})", (m, n), wide)

    # -- control flow -------------------------------------------------------------------------------------------------

    def inside(self, head: str) -> None:
        """Changes a block in the body of a statement."""
        name, shape, dtype = self.pick(lambda _, dtype: dtype != "int1")
        self.alike(shape, dtype)
        known = [*self.values]
        self.n_names += 1
        carried = f"v{self.n_names}"
        self.line(f"{carried} = {name}")
        self.line(head)
        self.depth += 1
        self.values.append((carried, shape, dtype))
        for _ in range(self.random.randint(1, 2)):
            self.random.choice(INNER_STEPS)(self)
        self.line(f"{carried} = {self.alike(shape, dtype)}")
        if head.startswith("while"):
            self.line("k += 1")
        self.depth -= 1
        self.values = [*known, (carried, shape, dtype)]

    def loop(self) -> None:
        if self.depth < 3:
            self.inside(self.random.choice(["for i in range(n % 3):", "for i in tl.static_range(2):"]))

    def branch(self) -> None:
        if self.depth < 3:
            self.inside(self.random.choice(["if n > 40:", "if pid == 0:", "if n % 2 == 0:"]))

    def repeat(self) -> None:
        if self.depth < 3:
            self.line("k = 0")
            self.inside("while k < n % 3:")


STEPS = [
    Writer.binary, Writer.binary, Writer.choose, Writer.convert, Writer.reorder, Writer.reshape, Writer.join,
    Writer.split, Writer.order, Writer.histogram, Writer.reduce, Writer.reduce, Writer.scan, Writer.dot, Writer.loop,
    Writer.branch, Writer.repeat, Writer.through_memory, Writer.atomic, *MORE_STEPS,
]  # fmt: skip
INNER_STEPS = [
    Writer.binary, Writer.reduce, Writer.through_memory, Writer.order, Writer.scan, Writer.reorder, Writer.loop,
    Writer.branch, *MORE_STEPS,
]  # fmt: skip
"""Those in the body of a statement."""


ROUGH_STEPS = [*STEPS, *3 * [Writer.function, Writer.function, Writer.fraction, Writer.reduce, Writer.scan]]
"""Those of programs whose floats are not exact."""


def dtypes_of(runtime: vc.Runtime) -> list[str]:
    """Returns the names of the dtypes that a device has."""
    features = runtime.device.features
    needs = {name: FEATURES.get(name.removeprefix("u"), ()) for name in (*INTEGERS, *FLOATS)}
    return [name for name, wanted in needs.items() if features.issuperset(wanted)]


def arrays_of(dtypes: list[str], seed: int) -> list[np.ndarray]:
    """Returns the arrays of a program: inputs, outputs, scratch and counts."""
    random = np.random.default_rng(seed)
    results: list[np.ndarray] = []
    for name in dtypes:
        if name == "bfloat16":
            values = (random.integers(-8, 9, N_INPUT).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        elif name in FLOATS:
            values = random.integers(-8, 9, N_INPUT).astype(name)
        else:
            values = random.integers(0, 256, N_INPUT * np.dtype(name).itemsize).astype(np.uint8).view(name)
        results += [values, *[np.zeros(N_PROGRAMS * SLOT, values.dtype) for _ in range(2)]]
    return [*results, np.zeros(96, np.int32)]


def blocks(runtime: vc.Runtime, _: Any, random: Random) -> str:
    """Checks one random program; returns what became of it.

    Raises:
        AssertionError: the results differ; the message has the program.
    """
    dtypes = dtypes_of(runtime)
    others = [name for name in dtypes if name not in ("int32", "float32")]
    dtypes = ["int32", "float32", *random.sample(others, random.randint(0, min(2, len(others))))]
    text = Writer(random, dtypes, rough=random.random() < 0.5).text()
    n, seed = random.randint(1, 70), random.randint(0, 9)
    launch = Launch(random.choice([(N_PROGRAMS,), (1, N_PROGRAMS), (1, 1, N_PROGRAMS)]), random.choice([1, 2, 4]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random_block_program.py"
        path.write_text(text)
        names: dict[str, Any] = {"__name__": "random_block_program"}
        exec(compile(text, str(path), "exec"), names)
        try:
            return _compared(runtime, names["program"], dtypes, n, launch, seed)
        except Exception as error:
            raise AssertionError(f"{error}\nn={n} {launch} seed={seed}\n\n{text}") from error


def _compared(runtime: vc.Runtime, program: Any, dtypes: list[str], n: int, launch: Launch, seed: int) -> str:
    wanted = arrays_of(dtypes, seed)
    given = [runtime.array(host) for host in wanted]

    def seen(arrays: list[Any]) -> list[Any]:
        kinds = [dtype for dtype in dtypes for _ in range(3)]
        wrapped = [
            triton.reinterpret(a, tl.bfloat16) if k == "bfloat16" else a for a, k in zip(arrays, kinds, strict=False)
        ]
        return [*wrapped, arrays[-1]]

    with bounded() as bounds:
        try:
            program.interpret[launch.grid](*seen(wanted), n)
        except Undecided:
            return "undecided"
    try:
        program[launch.grid](*seen(given), n, num_warps=launch.n_warps)
    except vc.KernelError as error:
        outcome = next((outcome for text, outcome in REFUSED.items() if text in str(error)), None)
        if outcome is None:
            raise
        return outcome
    names = [f"{kind}_{dtype}" for dtype in dtypes for kind in ("given", "out", "scratch")] + ["counts"]
    for name, array, each in zip(names, given, wanted, strict=True):
        require_within(array.numpy(), each, bounds[name], name)
    return "within bounds" if any(bound.any() for bound in bounds.values()) else "same"


def require_within(result: np.ndarray, wanted: np.ndarray, bounds: np.ndarray, name: str) -> None:
    """Raises AssertionError unless elements differ by their bounds at most."""
    exact = bounds == 0
    np.testing.assert_array_equal(result[exact], wanted[exact], err_msg=name)
    with np.errstate(invalid="ignore"):
        difference = np.abs(result.astype(np.float64) - wanted.astype(np.float64))
    wrong = np.flatnonzero(~exact & ~(difference <= bounds))
    wrong = wrong[np.isfinite(bounds[wrong])]
    if wrong.size:
        at = wrong[0]
        raise AssertionError(
            f"{name}[{at}] is {result[at]}, not {wanted[at]}, within {bounds[at]:.3g}; {wrong.size} differ"
        )
