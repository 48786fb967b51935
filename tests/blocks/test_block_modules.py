"""Triton's modules: each is importable by its path in a new process, and an attribute of its parent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PACKAGE = "vkcompute.compat.triton"
NAMES = {
    "": "CompilationError InterpreterError OutOfResources jit cdiv Config autotune",
    "backends.compiler": "GPUTarget",
    "compiler": "CompilationError CompiledKernel OutOfResources errors",
    "compiler.errors": "CompilationError",
    "language": "load extra core standard math",
    "language.core": "load constexpr CONSTEXPR_0 get_int_dtype",
    "language.extra": "libdevice cuda",
    "language.extra.cuda": "libdevice",
    "language.extra.cuda.libdevice": "rsqrt",
    "language.extra.libdevice": "asin fast_expf",
    "language.math": "exp2",
    "language.standard": "sum _log2 _is_power_of_two",
    "runtime": "Autotuner JITFunction OutOfResources InterpreterError driver",
    "runtime.autotuner": "Autotuner Config",
    "runtime.driver": "active",
    "runtime.errors": "OutOfResources InterpreterError",
    "runtime.jit": "JITFunction jit",
    "testing": "do_bench",
}


@pytest.mark.pure
@pytest.mark.parametrize("path", NAMES)
def test_modules_have_paths(run_python: Callable[..., Any], path: str) -> None:
    full, installed = f"{PACKAGE}.{path}".rstrip("."), f"triton.{path}".rstrip(".")
    names = ", ".join(NAMES[path].split())
    program = f"""
from {full} import {names}
found = [{names}]
import {full} as ours
import {PACKAGE} as package
value = package
for name in {path!r}.split("."):
    value = getattr(value, name) if name else value
assert value is ours and ours.__name__ == {full!r}
package.install_as_triton()
import {installed} as theirs
from {installed} import {names}
assert theirs is ours and all(one is other for one, other in zip(found, [{names}], strict=True))
print("done")
"""
    done = run_python(program)
    assert done.stdout == "done\n", done.stderr
