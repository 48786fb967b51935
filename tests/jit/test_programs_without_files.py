"""Kernels whose source is in no file: of `python -c`, standard input, exec() and notebooks."""

from __future__ import annotations

import linecache
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.frontend.source import read

pytestmark = pytest.mark.pure
PROGRAM = """
import math
import numpy as np
import vkcompute as vc
SCALE = 3
def helper(v):
    return v * SCALE + int(math.sqrt(4.0))
@vc.kernel
def kernel(out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = helper(i) + each(i)
each = vc.vectorize(lambda x: helper(x) - 1)
@vc.kernel(fast_math=True)
def wrong(out):
    out[0] = {1}
out = np.zeros(3, np.int32)
kernel.simulate(out)
print(out.tolist())
try:
    wrong.simulate(out)
except vc.KernelError as error:
    print(error)
"""
EXPECTED = "[3, 9, 15]\n{}:16:14: not supported in kernels: a set; use a tuple\n        out[0] = {{1}}\n"


def output(*arguments: str, **options: Any) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **options)
    return done.stdout + done.stderr


def test_a_program_on_the_command_line() -> None:
    result = output("-B", "-c", PROGRAM, "def kernel(out): pass")
    assert result.startswith(EXPECTED.format("<string>"))


def test_a_file_that_is_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with path.open() as file:
        assert output("-", stdin=file).startswith(EXPECTED.format("<stdin>"))


def test_a_pipe_says_what_to_do() -> None:
    assert "a pipe or a prompt cannot be read again: run the program as a file" in output("-", input=PROGRAM)


TEXT = """
import vkcompute as vc

def helper(v):
    return v * 2

class Made:
    scale = 5
    def kernel(out):
        i = vc.global_id(0)
        if i < out.size:
            out[i] = helper(i) + Made.scale

def outer(n):
    def kernel(out):
        out[0] = helper(n) + {1}
    return kernel
"""


@pytest.fixture
def made() -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "made"}
    exec(TEXT, scope)
    return scope


def test_a_text_that_is_given(made: dict[str, Any]) -> None:
    out = np.zeros(3, np.int32)
    vc.kernel(made["Made"].kernel, source=TEXT).simulate(out)
    assert out.tolist() == [5, 7, 9]
    with pytest.raises(vc.KernelError, match=r"<string>:16:30: .*\n {12}out\[0\] = helper\(n\) \+ \{1\}\n {33}\^"):
        vc.kernel(source=TEXT)(made["outer"](3)).simulate(out)
    part = "def helper(v):\n    return v * 2\n"
    assert read(made["helper"], part).location(read(made["helper"], part).tree.body[0]) == (5, 5)


def test_a_text_of_something_else_is_refused(made: dict[str, Any]) -> None:
    for text in (TEXT.replace("helper(i)", "helper(i + 1)"), "def other(out): pass", "(", ""):
        with pytest.raises(vc.KernelError, match="no function kernel with this code; give the text that was executed"):
            vc.kernel(made["Made"].kernel, source=text)
    with pytest.raises(TypeError, match="source is the text of a program"):
        vc.kernel(made["Made"].kernel, source=Path("x.py"))  # type: ignore[call-overload]
    with pytest.raises(vc.KernelError, match=r"or give the text, as vc\.kernel\(source=text\)"):
        vc.kernel(made["Made"].kernel)
    with pytest.raises(vc.KernelError, match=r"the source of helper is not found.*\n.*helper\(i\)"):  # in another text
        vc.kernel(made["Made"].kernel, source=TEXT.replace("v * 2", "v * 3")).simulate(np.zeros(3, np.int32))


def test_a_text_in_linecache() -> None:
    name = "<made by a tool>"
    linecache.cache[name] = len(TEXT), None, TEXT.splitlines(keepends=True), name
    scope: dict[str, Any] = {"__name__": "made"}
    exec(compile(TEXT, name, "exec"), scope)
    out = np.zeros(3, np.int32)
    vc.kernel(scope["Made"].kernel).simulate(out)
    assert out.tolist() == [5, 7, 9]


def test_a_cell_with_a_magic() -> None:
    """IPython runs a cell that begins with %%time as a file that it has nowhere."""
    cells = ["(", f"get_ipython().run_cell_magic('time', '', {TEXT!r})", "run_cell_magic ("]
    scope: dict[str, Any] = {"__name__": "__main__", "In": cells}
    exec(compile(TEXT, "<timed exec>", "exec"), scope)
    out = np.zeros(3, np.int32)
    vc.kernel(scope["Made"].kernel).simulate(out)
    assert out.tolist() == [5, 7, 9]
    cells.clear()
    with pytest.raises(vc.KernelError, match="the source of kernel is not found"):
        vc.kernel(scope["Made"].kernel)
