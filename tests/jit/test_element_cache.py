"""Compiled functions of elements and reductions on disk: found by another process, unless something has changed."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest
from test_kernel_cache import Program

pytestmark = pytest.mark.pure

_PROGRAM = """
    import sys
    import numpy as np
    import vkcompute as vc
    import helper
    from vkcompute.jit.elementwise.program import ProgramSource

    real = ProgramSource.specialize
    def counted(*args):
        print("compiled")
        return real(*args)
    ProgramSource.specialize = counted

    FACTOR = 3

    def maker(offset, unit):
        @vc.vectorize
        def scaled(x, a):
            return helper.twice(x) * FACTOR + offset + a + helper.BIAS
        def combine(a, b):
            return a + b * unit
        def each(x):
            return x + offset
        return scaled, vc.reduce(combine, 0, map=each)

    expression = vc.elementwise("x - 2 * y")
    scaled, total = maker(OFFSET, UNIT)
    with vc.Runtime() as gpu:
        x, y = gpu.array(np.arange(4, dtype=np.float32)), gpu.array(np.full(4, 0.5, np.float32))
        one = expression(x, y)
        results = one, scaled(x, 1.0), total(x)
        print(*[number for each in results for number in each.numpy().reshape(-1)])
"""
_HELPER = """
    BIAS = 100
    def twice(x):
        return 2 * x
"""
_N = 3  # programs of one run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose cache has what the unchanged program compiles."""
    folder = tmp_path_factory.mktemp("program")
    assert _program(folder).run() == (_N, _expected())
    shutil.copytree(folder / "cache", folder / "filled")
    return folder


@pytest.fixture
def program(folder: Path) -> Program:
    shutil.rmtree(folder / "cache")
    shutil.copytree(folder / "filled", folder / "cache")
    return _program(folder)


def _program(folder: Path) -> Program:
    made = Program(folder)
    made.texts = {"program.py": textwrap.dedent(_PROGRAM), "helper.py": textwrap.dedent(_HELPER)}
    made.replace("OFFSET, UNIT", "7, 1")
    return made


def _expected(
    slope: float = 2, factor: float = 3, offset: float = 7, bias: float = 100, one: float = 1, first: float = 0
) -> list[float]:
    return [x - 1 for x in range(4)] + [slope * x * factor + offset + one + bias for x in range(4)] + [first + 34]


def test_another_process_finds_what_one_has_compiled(program: Program) -> None:
    assert program.run() == (0, _expected())


Y_X = [0.5 - 2 * x for x in range(4)]
SUM = [x + 1 for x in range(4)]


@pytest.mark.parametrize(
    ("changes", "n_compiled", "expected"),
    [
        (
            {'"x - 2 * y")': '"x - 2 * y", "y, x")', "FACTOR = 3": "FACTOR = 5", "combine, 0,": "combine, 5,"},
            3,
            Y_X + _expected(factor=5, first=5)[4:],
        ),
        ({"x - 2 *": "x - 2.0 *", "BIAS = 100": "BIAS = 90", "combine, 0,": "combine, 0.0,"}, 3, _expected(bias=90)),
        (
            {"x - 2": "x + 2", "return 2 *": "return 4 *", "b * unit": "b * unit + 1"},
            3,
            SUM + _expected(4, first=4)[4:],
        ),
        ({"(x, y)\n": "(x, y[:1])\n", "x, 1.0": "x, 1", "combine, 0,": "combine, np.float32(0),"}, 3, _expected()),
        ({"expression(x, y)": "expression(x, 0.5)", "maker(7": "maker(8"}, 3, _expected(offset=8, first=4)),
        (
            {"x - 2 * y": "int(x - 2 * y)", "(x, y)\n": "(x, y, out=gpu.zeros(4))\n", "(7, 1)": "(7, 1.0)"},
            3,
            _expected(),
        ),
        ({"combine, 0, map=each": "combine, 0"}, 1, _expected(first=-28)),
        ({"total(x)": "total(x, axis=())"}, 1, [*_expected()[:-1], 7, 8, 9, 10]),
        ({"total(x)": "total(x, dtype=np.int32)"}, 1, _expected()),
    ],
)
def test_what_a_program_depends_on_is_compiled_anew(
    program: Program, changes: dict[str, str], n_compiled: int, expected: list[float]
) -> None:
    for old, new in changes.items():
        program.replace(old, new)
    assert program.run() == (n_compiled, expected)


def test_a_closure_of_the_second_function_is_its_own(program: Program) -> None:
    program.replace("def each(x):\n        return x + offset", "def each(x):\n        return x + unit")
    program.replace("a + b * unit", "a + b * 1 + 0 * offset")
    assert program.run() == (1, [*_expected()[:-1], 10])
    program.replace("maker(7, 1)", "maker(7, 2)")
    assert program.run() == (1, [*_expected()[:-1], 14])
    assert program.run() == (0, [*_expected()[:-1], 14])


def test_an_older_compiler_s_work_is_not_taken(program: Program) -> None:
    program.replace(
        "import helper\n",
        "import helper\nimport vkcompute.code_version as f\nf.__version__ = 'other'\n",
    )
    assert program.run() == (_N, _expected())
