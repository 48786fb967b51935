"""Syntax of Python that Triton's compiler refuses, or has: the same programs are refused here, and no others of them.

Where Triton is installed, its own compiler is asked, too: `PYTHONPATH=FOLDER pytest` with a folder that has it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkcompute import KernelError

pytestmark = pytest.mark.pure

_HEAD = """
import math
from typing import NamedTuple
import {triton} as triton
import {triton}.language as tl

class Pair(NamedTuple):
    a: int
    b: int

def of_python(a):
    return a + 1

@triton.jit
def added(a, b=2):
    return a + b

@triton.jit
def early(a):
    if a > 3:
        return a
    return a + 1

@triton.jit
def of_two_types(a):
    if a > 3:
        return 1.5
    return a

@triton.jit
def program(x, n, f, N: tl.constexpr):
"""

_REFUSED = {
    "lambda": "g = lambda a: a + 1.0\ntl.store(x, g(1.0))",
    "lambda of a reduction": "tl.store(x, tl.reduce(tl.load(x + tl.arange(0, N)), 0, lambda a, b: a + b))",
    "function inside": "def g(a): return a + 1.0\ntl.store(x, g(1.0))",
    "match": "match N:\n    case 4:\n        tl.store(x, 1.0)",
    "break": "for i in range(n):\n    if i > 3:\n        break\n    tl.store(x + i, 1.0)",
    "continue": "for i in range(n):\n    if i > 3:\n        continue\n    tl.store(x + i, 1.0)",
    "break of a while": "i = 0\nwhile i < n:\n    if i > 3:\n        break\n    i += 1",
    "else of a while": "i = 0\nwhile i < n:\n    i += 1\nelse:\n    tl.store(x, 1.0)",
    "else of a for": "for i in range(n):\n    tl.store(x + i, 1.0)\nelse:\n    tl.store(x, 1.0)",
    "comprehension of a range": "a = [i + 1 for i in range(2)]\ntl.store(x, a[0] * 1.0)",
    "generator": "a = tuple(i + 1 for i in (1, 2))\ntl.store(x, a[0] * 1.0)",
    "starred list": "a = (1.0, 2.0)\nb = [*a, 3.0]\ntl.store(x, b[0])",
    "starred tuple": "a = (1.0, 2.0)\nb = (*a, 3.0)\ntl.store(x, b[0])",
    "list as a target": "[a, b] = 1.0, 2.0\ntl.store(x, a + b)",
    "two targets": "a = b = 1.0\ntl.store(x, a + b)",
    "constexpr twice": "a: tl.constexpr = N * 2\na: tl.constexpr = N * 4\ntl.store(x, a)",
    "index that varies": "a = (1.0, 2.0, 3.0)\ntl.store(x, a[n % 3])",
    "length from a loop": "for i in tl.range(4, 5):\n    tl.store(x + tl.arange(0, i), 1.0)",
    "length from a variable": "M = 4\ntl.store(x + tl.arange(0, M), 1.0)",
    "changed constant as a length": "N = N * 2\ntl.store(x + tl.arange(0, N), 1.0)",
    "shape from a variable": "M = 4\ntl.store(x + tl.zeros((M,), tl.int32), 1.0)",
    "static assertion of a variable": "M = 4\ntl.static_assert(M == 4)",
    "static loop over a variable": "M = 4\nfor i in tl.static_range(M):\n    tl.store(x + i, 1.0)",
    "text in a variable": "M = 'ieee'\ntl.store(x, 1.0)",
    "function in a variable": "M = added\ntl.store(x, M(1.0))",
    "in": "tl.store(x, 1.0 if N in (1, 4) else 2.0)",
    "not in": "tl.store(x, 1.0 if N not in (1, 4) else 2.0)",
    "plus": "tl.store(x, +f)",
    "not of an int": "tl.store(x, 1.0 if not n else 2.0)",
    "and of floats": "tl.store(x, (f and f) * 1.0)",
    "choice of types": "tl.store(x, n if n > 1 else f)",
    "float as a condition": "if 1.5:\n    tl.store(x, 1.0)",
    "text as a condition": "tl.store(x, 1.0 if 'a' else 2.0)",
    "tuple as a condition": "if (1, 2):\n    tl.store(x, 1.0)",
    "order of tuples": "if (1, 2) < (3, 4):\n    tl.store(x, 1.0)",
    "str": "tl.store(x, 1.0 if str(N) == '4' else 2.0)",
    "bool": "tl.store(x, 1.0 if bool(N) else 2.0)",
    "abs": "tl.store(x, abs(-N) * 1.0)",
    "round": "tl.store(x, round(1.5) * 1.0)",
    "pow": "tl.store(x, pow(N, 2) * 1.0)",
    "sum": "tl.store(x, sum((1, 2)) * 1.0)",
    "tuple": "tl.store(x, tuple((1, 2))[0] * 1.0)",
    "min of one": "tl.store(x, min((1, 2)) * 1.0)",
    "function of Python": "tl.store(x, of_python(N) * 1.0)",
    "results of two types": "tl.store(x, of_two_types(n) * 1.0)",
    "type changes in a loop": "a = 0\nfor i in range(n):\n    a += f\ntl.store(x, a)",
    "width changes in a loop": "a = 0\nfor i in range(n):\n    a += i.to(tl.int64)\ntl.store(x, a * 1.0)",
    "type changes in a branch": "a = 0\nif n > 1:\n    a = f\ntl.store(x, a)",
    "two types in branches": "if n > 1:\n    a = 1.0\nelse:\n    a = 2\ntl.store(x, a)",
    "bool and int in a branch": "a = n > 3\nif n > 1:\n    a = 1\ntl.store(x, a * 1.0)",
    "constant as the condition of a while": "while N - 4:\n    tl.store(x, 1.0)\ntl.store(x, 1.0)",
    "constant changes in a loop": "for i in range(n):\n    N = N + 1\ntl.store(x, N * 1.0)",
    "constant changes in a while": "i = 0\nwhile i < n:\n    N = 8\n    i += 1\ntl.store(x, N * 1.0)",
    "constant changes in a branch": "if n > 1:\n    N = 8\ntl.store(x, N * 1.0)",
    "constexpr changes in a branch": "a: tl.constexpr = 3\nif n > 1:\n    a = a + 1\ntl.store(x, a * 1.0)",
    "constant that a loop counts": "for j in tl.static_range(2):\n    x += j\n"
    "for i in range(n):\n    for j in range(i):\n        tl.store(x + j, 1.0)",
    "None changes in a loop": "a = None\nfor i in range(n):\n    a = 1.0\ntl.store(x, 1.0)",
    "None changes in a branch of a loop": "a = None\nfor i in range(n):\n    if N < 5:\n        a = 1.0\n"
    "tl.store(x, 1.0)",
    "constant that a loop counts in a branch": "j: tl.constexpr = 1\nif n > 1:\n    for j in range(n):\n"
    "        tl.store(x + j, 1.0)\ntl.store(x, j * 1.0)",
    "loop over a tuple": "for a in (1.0, 2.0):\n    tl.store(x, a)",
    "loop over enumerate": "for i, a in enumerate((1.0, 2.0)):\n    tl.store(x + i, a)",
    "loop over zip": "for i, a in zip((1, 2), (1.0, 2.0)):\n    tl.store(x + i, a)",
    "loop over reversed": "for i in reversed(range(3)):\n    tl.store(x + i, 1.0)",
}
"""Programs that Triton refuses, by what they have."""

_ACCEPTED = {
    "named": "tl.store(x, (a := n + 1) * 1.0)",
    "comprehension with a tuple": "a = [i + j for i, j in ((1, 2), (3, 4))]\ntl.store(x, a[0] * 1.0)",
    "chain": "tl.store(x, 1.0 if 0 < n < 5 else 2.0)",
    "chain of constants": "tl.store(x, 1.0 if 0 < N < 5 else 2.0)",
    "not of a tuple": "tl.static_assert(not ())",
    "int as the condition of a while": "i = n\nwhile i:\n    i -= 1\ntl.store(x, 1.0)",
    "comprehension": "a = [i + 1 for i in (1, 2)]\ntl.store(x, a[0] * 1.0)",
    "list": "a = [1.0] + [2.0]\ntl.store(x, a[1])",
    "starred argument": "a = (1.0, 2.0)\ntl.store(x, added(*a))",
    "nested targets": "(a, b), d = (1.0, 2.0), 3.0\ntl.store(x, a + b + d)",
    "constexpr": "a: tl.constexpr = N * 2\ntl.store(x + tl.arange(0, a), 1.0)",
    "variable in a branch": "M = 4\nif M == 4:\n    tl.store(x, 1.0)",
    "dtype in a variable": "M = tl.float32\ntl.store(x, tl.full((), 1, M))",
    "None in a variable": "M = None\nif M is None:\n    tl.store(x, 1.0)",
    "and of constants": "tl.store(x, 1.0 if n > 1 and f > 1 else 2.0)",
    "and of a constant": "tl.store(x, ((N == 4) and n) * 1.0)",
    "and of tuples": "tl.static_assert(((3, 4) and (5, 6)) == (5, 6))\ntl.static_assert((() and n) == ())",
    "or of constants": "tl.store(x, (None or 5) * 1.0)",
    "not of a constant": "tl.store(x, 1.0 if not N else 2.0)",
    "not of a text": "tl.store(x, 1.0 if not '' else 2.0)",
    "not of a float": "if not 0.5:\n    tl.store(x, 1.0)",
    "full of a number that wraps": "tl.store(x, tl.sum(tl.full((4,), 255, tl.int8)) * 1.0)",
    "max of constants": "tl.store(x, max(N, 3) * 1.0)",
    "max of numbers": "tl.store(x, max(n, 3, 4) * 1.0)",
    "math": "tl.store(x, math.sqrt(N))",
    "named tuple": "tl.store(x, Pair(a=1, b=2).b * 1.0)",
    "f-string": "tl.store(x, 1.0 if f'{N}' == '4' else 2.0)",
    "isinstance": "tl.store(x, 1.0 if isinstance(n, tl.tensor) else 2.0)",
    "early return": "if n > 3:\n    return\ntl.store(x, 1.0)",
    "early return of a function": "tl.store(x, early(n) * 1.0)",
    "condition that is a float": "tl.store(x, 1.0 if f else 2.0)",
    "tuple in a branch": "a = (1, 2.0)\nif n > 1:\n    a = (2, 3.0)\ntl.store(x, a[0] + a[1])",
    "pointer in a loop": "p = x\nfor i in range(n):\n    tl.store(p, 1.0)\n    p += 1",
    "while of two conditions": "i = 0\nwhile i < n and i < 5:\n    i += 1\ntl.store(x, 1.0)",
    "constant changes in a branch on constants": "if N > 1:\n    N = 8\ntl.store(x, N * 1.0)",
    "constant that a static loop counts": "for j in tl.static_range(2):\n    tl.store(x + j, 1.0)\n"
    "for i in range(n):\n    for j in tl.static_range(3):\n        tl.store(x + j, 1.0)",
    "constant changes before a loop": "N = N + 1\nfor i in range(n):\n    N = N + 1\ntl.store(x, N * 1.0)",
    "None in a loop, and a branch that is not taken": "a = None\nfor i in range(n):\n"
    "    if f.dtype.is_fp16():\n        a += 1.0\n    tl.store(x + i, 1.0 if a is None else 2.0)",
    "constant in a loop, and a branch that is not taken": "for i in range(n):\n    if N > 5:\n        N = 3\n"
    "    tl.store(x + tl.arange(0, N), 1.0)\ntl.store(x + tl.arange(0, N), 1.0)",
    "constant in a while, and a branch that is not taken": "i = 0\nwhile i < n:\n    if N > 5:\n        N = 3\n"
    "    tl.store(x + tl.arange(0, N), 1.0)\n    i += 1",
    "constant in a branch, and a branch that is not taken": "if n > 1:\n    if N > 5:\n        N = 3\n"
    "    tl.store(x + tl.arange(0, N), 1.0)\ntl.store(x + tl.arange(0, N), 1.0)",
    "hints in a range of Python": "for i in range(n, flatten=True, num_stages=2):\n    tl.store(x + i, 1.0)",
    "rounding to the same type": "tl.store(x, f.to(tl.float32, fp_downcast_rounding='rtne'))",
    "range downwards": "for i in range(n, 0, -1):\n    tl.store(x + i, 1.0)",
}
"""Programs that Triton compiles, by what they have."""

_ALL = [(body, True) for body in _REFUSED.values()] + [(body, False) for body in _ACCEPTED.values()]


def _written(path: Path, body: str, package: str) -> Path:
    """Writes a module with a program."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path.write_text(_HEAD.replace("{triton}", package) + lines)
    return path


@pytest.mark.parametrize(("body", "is_refused"), _ALL, ids=[*_REFUSED, *_ACCEPTED])
def test_programs_are_refused_as_by_triton(tmp_path: Path, body: str, is_refused: bool) -> None:
    path = _written(tmp_path / "module.py", body, "vkcompute.compat.triton")
    specification = importlib.util.spec_from_file_location("refused_syntax", path)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    x = np.zeros(64, np.float32)
    if is_refused:
        with pytest.raises(KernelError):
            module.program.interpret[(1,)](x, 7, 2.5, N=4)
        assert not x.any()
    else:
        module.program.interpret[(1,)](x, 7, 2.5, N=4)


_COMPILE = """
import runpy
import sys
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

target = GPUTarget("cuda", 80, 32)
backend = make_backend(target)
options = backend.parse_options({})
for path in sys.argv[1:]:
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    signature = {"x": "*fp32", "n": "i32", "f": "fp32", "N": "constexpr"}
    try:
        source = ASTSource(runpy.run_path(path)["program"], signature, {"N": 4})
        functions = backend.get_codegen_implementation(options)
        source.make_ir(target, options, functions, backend.get_module_map(), context)
    except Exception:
        print("refused")
    else:
        print("compiled")
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton_itself_refuses_the_same(tmp_path: Path) -> None:
    paths = [_written(tmp_path / f"program_{n}.py", body, "triton") for n, (body, _) in enumerate(_ALL)]
    command = [sys.executable, "-c", _COMPILE, *map(str, paths)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    answers = [line for line in lines if line in ("refused", "compiled")]  # among forms that its verifier prints
    wanted = ["refused" if is_refused else "compiled" for _, is_refused in _ALL]
    assert answers == wanted
