"""Random shaders against Python, which runs the same source on one index at a time.

All values are small integers, which float32 represents exactly, so that results are equal to the bit.
"""

from __future__ import annotations

import importlib.util
import operator
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from run_shader import run

import vkcompute as vc

N = 7
HEAD = """
from vkcompute.compat.pyshader import *

def compute(
    index=("input", "GlobalInvocationId", ivec3),
    numbers=("buffer", 0, Array(f32)),
    vectors=("buffer", 1, Array(vec3)),
    out=("buffer", 2, Array(vec4)),
):
    i = index.x
    n, f, v, w = i - 3, numbers[i], vectors[i], vec4(vectors[i], numbers[i])
"""
TAIL = "    out[i] = vec4(f32(n) + f, v.x + v.y, v.z - w.w, w @ vec4(1.0, 2.0, -1.0, 3.0))\n"
DIMENSIONS = {"f": 1, "n": 1, "v": 3, "w": 4}  # of f32, i32, vec3 and vec4 variables


class Vec:
    """A vector for the run in Python."""

    def __init__(self, *parts: Any) -> None:
        self.parts = [float(x) for part in parts for x in (part.parts if isinstance(part, Vec) else [part])]

    def __getattr__(self, name: str) -> Any:
        results = [self.parts["xyzw".index(letter)] for letter in name]
        return results[0] if len(results) == 1 else Vec(*results)

    def __matmul__(self, other: Vec) -> float:
        return sum(map(operator.mul, self.parts, other.parts))

    def __neg__(self) -> Vec:
        return self * -1

    def __add__(self, other: Any) -> Vec:
        return each(operator.add, self, other)

    def __sub__(self, other: Any) -> Vec:
        return each(operator.sub, self, other)

    def __mul__(self, other: Any) -> Vec:
        return each(operator.mul, self, other)

    def __radd__(self, other: Any) -> Vec:
        return self + other

    def __rmul__(self, other: Any) -> Vec:
        return self * other

    def __rsub__(self, other: Any) -> Vec:
        return -self + other


def each(function: Callable[..., Any], *args: Any) -> Any:
    """Applies a function elementwise."""
    n = max(len(arg.parts) if isinstance(arg, Vec) else 0 for arg in args)
    columns = [arg.parts if isinstance(arg, Vec) else [arg] * n for arg in args]
    return Vec(*map(function, *columns)) if n else function(*args)


def clamp(x: Any, low: Any, high: Any) -> Any:
    return each(lambda a: min(max(a, low), high), x)


PYTHON = {
    **dict.fromkeys(("vec2", "vec3", "vec4"), Vec),
    "f32": float,
    "i32": int,
    "clamp": clamp,
    **{name: lambda *args, f=f: each(f, *args) for name, f in (("min", min), ("max", max), ("abs", abs))},
}

# -- programs ---------------------------------------------------------------------------------------------------------


@st.composite
def number(draw: Any, kind: str, depth: int) -> str:
    """Draws an expression of f32 ("f") or i32 ("n")."""
    if depth == 0:
        constant = draw(st.integers(0, 3))
        leaves = ["n", "i", str(constant)] if kind == "n" else ["f", "v.y", "w.w", f"{constant}.0"]
        return str(draw(st.sampled_from(leaves)))

    def inner(kind: str = kind) -> str:
        return str(draw(number(kind, depth - 1)))

    match draw(st.sampled_from(["+", "-", "*", "negative", "max", "abs", "if", "own"])):
        case "negative":
            return f"-{inner()}"
        case "max":
            return f"max({inner()}, {inner()})"
        case "abs":
            return f"abs({inner()})"
        case "if":
            return f"({inner()} if {draw(condition(depth - 1))} else {inner()})"
        case "own" if kind == "n":
            return str(draw(st.sampled_from(["i32({f})", "({n} % 5)"]))).format(f=inner("f"), n=inner())
        case "own":
            size = draw(st.sampled_from([2, 3, 4, 0]))
            vectors = [draw(vector(size, depth - 1)) for _ in range(2) if size]
            return f"({' @ '.join(vectors)})" if size else f"f32({inner('n')})"
        case sign:
            return f"({inner()} {sign} {inner()})"


@st.composite
def condition(draw: Any, depth: int) -> str:
    kind, sign = draw(st.sampled_from("fn")), draw(st.sampled_from(["<", "<=", "==", "!=", ">", ">="]))
    simple = f"{draw(number(kind, depth))} {sign} {draw(number(kind, depth))}"
    if depth == 0 or draw(st.booleans()):
        return simple
    return f"({simple} {draw(st.sampled_from(['and', 'or', 'and not']))} {draw(condition(depth - 1))})"


@st.composite
def vector(draw: Any, size: int, depth: int) -> str:
    if depth == 0:
        swizzle = "".join(draw(st.lists(st.sampled_from("xyzw"), min_size=size, max_size=size)))
        leaves = [f"w.{swizzle}", f"v.{swizzle.replace('w', 'z')}", *{3: ["v"], 4: ["w"]}.get(size, [])]
        return str(draw(st.sampled_from(leaves)))

    def inner() -> str:
        return str(draw(vector(size, depth - 1)))

    match draw(st.sampled_from(["+", "-", "*", "negative", "min", "abs", "if", "made"])):
        case "negative":
            return f"-{inner()}"
        case "min":
            return f"min({inner()}, {inner()})"
        case "abs":
            return f"abs({inner()})"
        case "if":
            return f"({inner()} if {draw(condition(depth - 1))} else {inner()})"
        case "made":
            parts = [draw(number(draw(st.sampled_from("fn")), depth - 1)) for _ in range(size - 2)]
            return f"vec{size}({', '.join([*parts, draw(vector(2, depth - 1))])})"
        case sign:
            pair = [inner(), inner()]
            at = draw(st.integers(0, 2))
            pair[at : at + 1] = [draw(number("f", depth - 1))] if at < 2 else []
            return f"({pair[0]} {sign} {pair[1]})"


@st.composite
def block(draw: Any, indent: str, depth: int) -> str:
    """Draws statements; each value is reduced to a small one."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from("fnvw"))
        value = draw(number(name, 2) if name in "fn" else vector(DIMENSIONS[name], 2))
        bounds = "-5, 5" if name == "n" else "-5.0, 5.0"
        kind = draw(st.sampled_from(["assign", "augment", "if", "for", "while"])) if depth else "assign"
        inner = draw(block(indent + "    ", depth - 1)) if depth and kind not in ("assign", "augment") else ""
        if kind == "assign":
            lines.append(f"{indent}{name} = clamp({value}, {bounds})\n")
        elif kind == "augment":
            lines.append(f"{indent}{name} += {value}\n{indent}{name} = clamp({name}, {bounds})\n")
        elif kind == "if":
            lines.append(f"{indent}if {draw(condition(1))}:\n{inner}")
            lines.append(f"{indent}else:\n{draw(block(indent + '    ', depth - 1))}" if draw(st.booleans()) else "")
        else:
            counter = f"k{len(indent)}"
            leave = draw(st.sampled_from(["break", "continue"]))
            end = f"{indent}    if {draw(condition(1))}:\n{indent}        {leave}\n"
            head = f"for {counter} in range(min(n, 4)):\n"
            if kind == "while":
                lines.append(f"{indent}{counter} = 0\n")
                head = f"while {counter} < 3:\n{indent}    {counter} += 1\n"
            lines.append(f"{indent}{head}{end}{inner}")
    return "".join(lines)


def imported(text: str, path: Path) -> ModuleType:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COUNT = iter(range(10**9))


@given(body=block("    ", 2))
@settings(max_examples=settings().max_examples * 2)
def test_random_shaders(gpu: vc.Runtime, tmp_path_factory: Any, body: str) -> None:
    text = HEAD + body + TAIL
    module = imported(text, tmp_path_factory.getbasetemp() / f"shader{next(COUNT)}.py")
    numbers = np.arange(N, dtype=np.float32) % 5 - 2
    vectors = (np.arange(3 * N, dtype=np.float32).reshape(N, 3) * 7) % 9 - 4
    out = run(gpu, module.compute, numbers, vectors, np.zeros((N, 4), np.float32), grid=N)[2]
    expected = [
        run_in_python(module, Vec(i, 0, 0), numbers.tolist(), [Vec(*v) for v in vectors.tolist()]) for i in range(N)
    ]
    np.testing.assert_array_equal(out, expected, err_msg=text)


def run_in_python(module: ModuleType, index: Vec, numbers: list[float], vectors: list[Vec]) -> list[float]:
    """Runs the shader's source as Python; returns the buffer that it writes."""
    index.parts = list(map(int, index.parts))
    for name, value in PYTHON.items():
        setattr(module, name, value)
    out: dict[int, Vec] = {}
    module.compute(index, numbers, vectors, out)
    return out[index.x].parts
