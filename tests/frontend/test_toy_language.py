"""A language with a parser of its own drives the library's control flow, without Python's syntax trees."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from toy import program

import vkcompute as vc

TOY = Path(__file__).parent / "toy.py"
VALIDATOR = shutil.which("spirv-val")
COLLATZ = """
def steps n {
    count = 0
    while 1 < n {
        if count == 20 { return 0 - 1 }
        half = 0
        while half * 2 < n - 1 { half = half + 1 }
        if half * 2 == n { n = half } else { n = n * 3 + 1 }
        count = count + 1
    }
    return count
}
first = i + 1
x = steps first
"""


def collatz(i: int) -> int:
    n, count = i + 1, 0
    while n > 1:
        if count == 20:
            return -1
        half = (n - 1) // 2 + (n - 1) % 2
        n = half if half * 2 == n else n * 3 + 1
        count += 1
    return count


def run(gpu: vc.Runtime, text: str, n: int = 8) -> list[float]:
    module = program(text)
    if VALIDATOR:
        command = [VALIDATOR, "--target-env", "vulkan1.2", "-"]
        done = subprocess.run(command, input=module, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    x = gpu.array(np.arange(n, dtype="f") / 2)
    gpu.kernel(module)(x, grid=(n, 1, 1))
    return [float(value) for value in x.numpy()]


def test_an_early_return_in_a_loop_leaves_the_function(gpu: vc.Runtime) -> None:
    assert run(gpu, COLLATZ, 12) == [collatz(i) for i in range(12)]


def test_break_leaves_the_inner_loop_only(gpu: vc.Runtime) -> None:
    text = """
    a = 0
    total = 0
    while a < i {
        b = 0
        while b < 10 {
            if b == 3 { break }
            b = b + 1
            total = total + 1
        }
        a = a + 1
    }
    x = total
    """
    assert run(gpu, text) == [3.0 * i for i in range(8)]


def test_an_int_and_a_float_join_to_a_float(gpu: vc.Runtime) -> None:
    text = "if i < 4 { y = i } else { y = x } x = y * 2 + 1"
    assert run(gpu, text) == [1, 3, 5, 7, 5, 6, 7, 8]


def test_a_variable_becomes_a_float_in_a_loop(gpu: vc.Runtime) -> None:
    """The body is built again, as the variable is an int before the loop."""
    text = "y = 0 n = 0 while n < i { y = y + 0.25 n = n + 1 } x = y"
    assert run(gpu, text) == [0.25 * i for i in range(8)]


def test_the_program_returns_early(gpu: vc.Runtime) -> None:
    assert run(gpu, "if i < 4 { return } x = 9") == [0, 0.5, 1, 1.5, 9, 9, 9, 9]


def test_a_loop_that_always_returns(gpu: vc.Runtime) -> None:
    text = "def first n { while 0 < 1 { if n < 3 { return n } n = n - 3 } } x = first i"
    assert run(gpu, text) == [float(i % 3) for i in range(8)]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = y", "line 1: y is used before it is assigned"),
        ("if i < 4 {\n y = 1\n}\nx = y", "line 4: y .*: on some of the paths that join after line 1"),
        ("y = 1 < 2\nif i < 2 {\n y = 1\n}\nx = y", "line 5: y .*: after line 2 it is int32 on one path"),
        ("while i < 4 {\n y = 1\n i = i + 1\n}\nx = y", "line 5: y .*: the loop at line 1 may end before"),
    ],
)
def test_a_variable_without_a_value_is_refused(text: str, message: str) -> None:
    with pytest.raises(vc.KernelError, match=f"^{message}"):
        program(text)


@pytest.mark.pure
def test_the_language_needs_no_syntax_trees_of_python() -> None:
    """Neither does what it imports of the front end: a process that compiles a program has not loaded the evaluator."""
    source = TOY.read_text()
    imports = [
        statement for statement in ast.walk(ast.parse(source)) if isinstance(statement, (ast.Import, ast.ImportFrom))
    ]
    names = {alias.name for statement in imports for alias in statement.names} | {
        getattr(statement, "module", "") for statement in imports
    }
    assert "ast" not in names
    assert {name for name in names if name.startswith("vkcompute.frontend")} == {
        "vkcompute.frontend.control_flow",
        "vkcompute.frontend.kinds",
        "vkcompute.frontend.unsupported",
    }
    assert len(source.splitlines()) <= 150
    folder = Path(vc.__file__).parent / "frontend"
    for name in ("control_flow", "kinds", "unsupported"):
        text = (folder / f"{name}.py").read_text()
        assert "import ast" not in text
        assert "evaluator" not in "".join(line for line in text.splitlines() if "import" in line)
