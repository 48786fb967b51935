"""Integers of 64 bits, as uint32 beside int32 gives, whose low words alone are used: devices compute 32 bits."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from oracle import check, module

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.frontend.source import definition_of
from vkcompute.ir.function import walk
from vkcompute.jit.compilation.build import build, optimized
from vkcompute.jit.frontend.compiler import Compiler

SIGNATURE = ("I", 1), ("i", 1), ("I", 1), int
N = 16

STATEMENTS = """
out[i] = x[i] ^ i
out[i] = x[i] + y[i] * 3 - i
out[i] = x[i] | (vc.uint32(1) << i)
out[i] = (x[i] >> (i & 31)) & 1
out[i] = x[i] * vc.global_id(0)
out[i] = ~(x[i] ^ y[i]) - (y[i] | x[i])
out[i] = x[i] << (i * 3)
out[i] = (x[i] & 0xFFFF) >> (i + 20)
out[i] = -(x[i] & y[i])
""".strip().splitlines()


def kernel(statement: str) -> Any:
    text = "import numpy as np\nimport vkcompute as vc\ndef kernel(x, y, out, n):\n    i = vc.global_id(0)\n"
    return module(text + f"    {statement}\n").kernel


def data(seed: int) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)
    ends = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]
    x = np.concatenate([ends, random.integers(0, 2**32, N - 5)]).astype(np.uint32)
    y = np.concatenate([[0, -1, 2**31 - 1, -(2**31), 31], random.integers(-40, 40, N - 5)]).astype(np.int32)
    return random.permutation(x), random.permutation(y), np.zeros(N, np.uint32)


def wide_operations(function: ir.Function) -> list[str]:
    return [op.code for op in walk(function.body) if op.has_result and op.type.bits == 64]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_devices_without_int64_compute_them(gpu: vc.Runtime, statement: str) -> None:
    check(gpu, vc.kernel(kernel(statement)), *data(1), 3, local_size=(N, 1, 1))
    compiler = build(Compiler, definition_of(kernel(statement)), SIGNATURE, CompileOptions((N, 1, 1)))
    assert not wide_operations(optimized(compiler.function))


@pytest.mark.parametrize(
    "statement",
    [
        "out[i] = (x[i] + y[i]) >> 3",  # the upper word is shifted into the lower one
        "out[i] = 1 if x[i] + y[i] > 7 else 2",
        "out[i] = 5 if (x[i] & 1) + y[i] % 7 == i else 6",
        "out[i] = (x[i] * y[i]) // 5",
        "out[i] = x[i] % (y[i] | 1)",
    ],
)
def test_upper_words_that_matter_are_computed(gpu: vc.Runtime, statement: str) -> None:
    compiler = build(Compiler, definition_of(kernel(statement)), SIGNATURE, CompileOptions((N, 1, 1)))
    assert wide_operations(optimized(compiler.function))
    check(gpu, vc.kernel(kernel(statement)), *data(2), 3, local_size=(N, 1, 1))


OPERATORS = ["+", "-", "*", "&", "|", "^"]
LEAVES = ["x[i]", "y[i]", "i", "n", "np.int32(7)", "np.uint32(4294967295)", "np.int32(-2147483648)", "vc.uint32(i)"]


def expression(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.15:
        return random.choice(LEAVES)
    one, other = (expression(random, depth - 1) for _ in range(2))
    kind = random.random()
    if kind < 0.6:
        return f"({one} {random.choice(OPERATORS)} {other})"
    if kind < 0.75:
        return f"({one} {random.choice(['<<', '>>'])} {random.choice(['3', '31', '32', '(i & 63)', '(y[i] & 31)'])})"
    if kind < 0.85:
        condition = f"{one} {random.choice(['<', '<=', '==', '!=', '>', '>='])} {other}"
        return f"(np.uint32({one}) if {condition} else np.uint32({other}))"  # both of one type, as in Python
    if kind < 0.92:
        return f"({one} {random.choice(['//', '%'])} {random.choice(['3', 'np.uint32(7)', '(x[i] | 1)'])})"
    return f"{random.choice(['~', '-'])}{one}"


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions(gpu: vc.Runtime, seed: int) -> None:
    random = Random(seed)
    target = random.choice(["np.uint32", "np.int32", ""])
    statement = f"out[i] = {target}({expression(random, 3)})"
    if target == "np.int32":
        statement = statement.replace("out[i] =", "out[i] = np.uint32(") + ")"
    try:
        check(gpu, vc.kernel(kernel(statement)), *data(seed), 3, local_size=(N, 1, 1))
    except OverflowError as error:  # a Python int that does not fit its other operand, as in NumPy
        pytest.skip(str(error))
