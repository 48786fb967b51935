"""Calls of functions with arguments of odd kinds: what Triton refuses is refused, and what it takes has its type.

Where Triton is installed, its own compiler is asked, too: `PYTHONPATH=FOLDER pytest` with a folder that has it.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkcompute import KernelError
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.compiler.types import OF_SCALAR
from vkcompute.compat import triton
from vkcompute.compat.triton import language as tl
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.values import Number
from vkcompute.tile import shape_of

pytestmark = pytest.mark.pure

_TYPES = "int1", "int8", "int32", "int64", "uint8", "uint32", "fp16", "bf16", "fp32", "fp64"
_HEAD = f"""
@triton.jit
def added(a, b):
    return a + b

@triton.jit
def program({", ".join(_TYPES)}, n, f, N: tl.constexpr):
    at = tl.arange(0, 4)
    square = at[:, None] * 4 + at[None, :]
"""

_REFUSED = [
    "tl.sum(tl.load(fp32 + square), n)",
    "tl.cumsum(tl.load(fp32 + at), axis=None)",
    "tl.cumprod(tl.load(fp32 + square), axis=None)",
    "tl.associative_scan(tl.load(fp32 + at), None, added)",
    "tl.argmax(tl.load(fp32 + square), None)",
    "tl.min(tl.load(fp32 + square), return_indices=True)",
    "tl.argmax(fp32 + at, 0)",
    "tl.bitonic_merge(int32 + at)",
    "tl.cumsum(tl.load(fp32 + at), reverse=n > 3)",
    "tl.sort(tl.load(fp32 + at), descending=n > 3)",
    "tl.div_rn(n, 2**40)",
    "tl.div_rn(tl.load(bf16 + at), f)",
    "tl.umulhi(tl.load(int32 + at), tl.load(uint8 + at))",
    "tl.cdiv(True, None)",
    "tl.maximum(tl.load(fp32 + at), 1.0, propagate_nan=True)",
    "tl.join(tl.load(int32 + at), tl.load(fp32 + at))",
    "tl.cat(tl.load(uint8 + at), tl.load(int32 + at))",
    "tl.interleave(tl.load(fp16 + at), tl.load(fp32 + at))",
    "tl.assume(n)",
    "tl.assume(tl.load(int1 + at))",
    "tl.static_assert(N)",
    "tl.multiple_of(tl.load(int32 + at), (4, 4))",
    "tl.max_contiguous(tl.load(int32 + square), 4)",
    "tl.max_constancy(tl.load(int32 + at), n)",
    "tl.broadcast_to(tl.load(fp32 + at), (4, 4))",
    "tl.broadcast_to(tl.load(fp32 + at), ())",
    "tl.full((4,), 2.5, tl.int32)",
    "tl.dot(tl.load(int32 + square), tl.load(int32 + square))",
    "tl.dot(tl.load(fp32 + square), tl.load(fp32 + square), input_precision='ieee', allow_tf32=False)",
    "tl.load(fp32 + at, mask=at > 1, other=tl.load(fp32 + square))",
    "tl.store(fp32 + at, 1.0, mask=1)",
    "tl.atomic_add(fp32 + at, 1.0, mask=0)",
    "tl.atomic_add(bf16 + at, 1.0, mask=n)",
    "tl.histogram(tl.load(int32 + at), 4, mask=n)",
    "tl.atomic_load(int32 + at, sem='acq_rel')",
    "tl.atomic_store(int32 + at, 1, sem='acquire')",
    "tl.atomic_cas(int32, n, f)",
]
"""Calls that Triton refuses."""

_TAKEN = {
    "tl.fdiv(tl.load(fp16 + at), 3.0)": "fp32[4]",
    "tl.fdiv(tl.load(bf16 + at), tl.load(bf16))": "fp32[4]",
    "tl.load(fp16 + at) / tl.load(fp16 + at)": "fp32[4]",
    "tl.clamp(tl.load(int32 + at), 0, 5)": "int32[4]",
    "tl.clamp(tl.load(uint8 + at), 1, 3)": "uint8[4]",
    "tl.clamp(3, n > 3, tl.load(int8 + at))": "int8[4]",
    "tl.cumprod(tl.load(int8 + at), dtype=tl.int64)": "int64[4]",
    "tl.sub(tl.load(int8 + at), 1)": "int8[4]",
    "tl.add(3, -1)": "int32[]",
    "tl.mul(-1.0, 1e40)": "fp64[]",
    "(n).cdiv(4)": "int32[]",
    "not tl.load(int1 + tl.arange(0, 1))": "int1[1]",
    "-(n > 3)": "int1[]",
    "tl.load(int1 + at) / tl.load(int1 + at)": "fp32[4]",
    "tl.load(int1 + at) // tl.load(int1 + at)": "int1[4]",
    "tl.load(int1 + at) % tl.load(int1 + at)": "int1[4]",
    "tl.squeeze(tl.load(fp32 + tl.arange(0, 1)), 0)": "fp32[]",
    "tl.reshape(tl.load(int8 + tl.arange(0, 1)), ())": "int8[]",
    "tl.expand_dims(n, ())": "int32[]",
    "tl.trans(tl.load(fp32 + square), ())": "fp32[4, 4]",
    "tl.load(uint8 + at, mask=tl.load(int1 + at[None, :]))": "uint8[1, 4]",
    "tl.join(tl.load(int32 + at), tl.load(uint32 + at))": "int32[4, 2]",
    "tl.softmax(tl.load(fp16 + square))": "fp32[4, 4]",
    "max(tl.load(fp32 + at), f)": "fp32[4]",
}
"""Calls that Triton takes, with the types of their results."""

_CALLS = [*_REFUSED, *_TAKEN]


def _write(path: Path, call: str) -> Path:
    path.write_text(f"{_HEAD}    report({call})\n")
    return path


_results: list[str] = []


@block_function
def report(c: Any, x: Any) -> None:
    """Notes the type of a result."""
    value = c.as_tensor(x)
    if isinstance(value, Number):
        _results.append(f"{OF_SCALAR[element_of(value.kind.type)]}{list(shape_of(value.kind.type))}")


def _arrays() -> list[np.ndarray]:
    names = "bool int8 int32 int64 uint8 uint32 float16 uint16 float32 float64".split()
    arrays: list[Any] = [np.ones(16, name) for name in names]
    arrays[7] = triton.reinterpret(arrays[7], tl.bfloat16)
    return arrays


def _run(tmp_path: Path, call: str) -> list[str]:
    path = _write(tmp_path / "module.py", call)
    specification = importlib.util.spec_from_file_location("signatures", path)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    module.triton, module.tl, module.report = triton, tl, report
    specification.loader.exec_module(module)
    _results.clear()
    module.program.interpret[(1,)](*_arrays(), 7, 2.5, 4)
    return _results


@pytest.mark.parametrize("call", _REFUSED)
def test_calls_that_triton_refuses(tmp_path: Path, call: str) -> None:
    with pytest.raises(KernelError):
        _run(tmp_path, call)


@pytest.mark.parametrize(("call", "kind"), _TAKEN.items())
def test_types_of_results(tmp_path: Path, call: str, kind: str) -> None:
    assert _run(tmp_path, call) == [kind]


_ASK = """
import importlib.util
import json
import sys
import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

results = []

@tl.core.builtin
def report(x, _semantic=None):
    x = _semantic.to_tensor(x)
    results.append(f"{x.type.scalar.name}{[int(n) for n in x.shape]}")

target = GPUTarget("cuda", 90, 32)
backend = make_backend(target)
options = backend.parse_options({})
short = dict(int="i", uint="u", fp="fp", bf="bf")
for path in sys.argv[2:]:
    specification = importlib.util.spec_from_file_location("signatures", path)
    module = importlib.util.module_from_spec(specification)
    module.triton, module.tl, module.report = triton, tl, report
    specification.loader.exec_module(module)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    signature = {t: "*" + t.replace("uint", "u").replace("int", "i") for t in json.loads(sys.argv[1])}
    signature |= {"n": "i32", "f": "fp32", "N": "constexpr"}
    results.clear()
    try:
        source = ASTSource(module.program, signature, {"N": 4})
        source.make_ir(
            target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
        )
    except Exception:
        print("answer refused")
    else:
        print("answer", *results)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton_itself_gives_the_same_answers(tmp_path: Path) -> None:
    """Asks Triton 3.9, since earlier ones take fewer of these calls."""
    paths = [_write(tmp_path / f"program_{n}.py", call) for n, call in enumerate(_CALLS)]
    command = [sys.executable, "-c", _ASK, json.dumps(_TYPES), *map(str, paths)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    answers = [line.removeprefix("answer ") for line in lines if line.startswith("answer ")]
    wanted = ["refused"] * len(_REFUSED) + [*_TAKEN.values()]
    differing = [rows for rows in zip(_CALLS, answers, wanted, strict=True) if rows[1] != rows[2]]
    assert not differing
