"""Compiled kernels on disk: found again by another process, and never where what they depend on has changed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hang_limit import hang_limit_s

from vkcompute import disk
from vkcompute.arrays.algorithms import scans
from vkcompute.compiled import cache
from vkcompute.jit.compilation import fingerprint
from vkcompute.jit.compilation.fingerprint import PythonOrigin

pytestmark = pytest.mark.pure

_PROGRAM = """
    import sys
    import numpy as np
    import vkcompute as vc
    import vkcompute.jit.launcher as launcher
    import helper

    real = launcher.specialize
    def counted(*args, **named):
        print("compiled")
        return real(*args, **named)
    launcher.specialize = counted

    FACTOR = 3
    SETTING = (1, 2.5)

    def maker(offset):
        @vc.kernel
        def kernel(x, out, a):
            i = vc.global_id(0)
            if i < out.size:
                out[i] = helper.twice(x[i]) * FACTOR + offset + a * SETTING[0] + helper.BIAS
        return kernel

    with vc.Runtime() as gpu:
        x, out = gpu.array(np.arange(4, dtype=np.float32)), gpu.zeros(4)
        maker(OFFSET)(x, out, 1.0)
        print(*out.numpy())
"""
_HELPER = """
    BIAS = 100
    def twice(x):
        return 2 * x
"""


class Program:
    """A program of two files, run in processes of its own, with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._env = os.environ | {"VKCOMPUTE_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.texts = {"program.py": textwrap.dedent(_PROGRAM), "helper.py": textwrap.dedent(_HELPER)}
        self.replace("OFFSET", "7")

    def replace(self, old: str, new: str) -> None:
        """Edits the program."""
        changed = {name: text.replace(old, new) for name, text in self.texts.items()}
        assert changed != self.texts
        self.write(changed)

    def write(self, texts: dict[str, str]) -> None:
        """Writes the program's files."""
        self.texts = texts
        for name, text in texts.items():
            (self._folder / name).write_text(text)

    def run(self) -> tuple[int, list[float]]:
        """How often it compiled, and what it found."""
        command = [sys.executable, str(self._folder / "program.py")]
        done = subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=hang_limit_s(), check=False
        )
        assert done.returncode == 0, done.stderr
        *compiled, numbers = done.stdout.strip().splitlines()
        return len(compiled), [float(word) for word in numbers.split()]

    def entries(self) -> list[Path]:
        return sorted((self._folder / "cache" / "vkcompute" / "python").iterdir())


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A program that has run twice: the first run compiles, the second finds the result."""
    program = Program(tmp_path_factory.mktemp("program"))
    assert program.run() == (1, _expected())
    assert program.run() == (0, _expected())
    return program


@pytest.fixture
def compiled(shared: Program) -> Iterator[Program]:
    """The shared program, for a test that edits it; its cache has what other edits have left."""
    texts = shared.texts
    yield shared
    shared.write(texts)


def _expected(factor: float = 3, offset: float = 7, bias: float = 100, one: float = 1, slope: float = 2) -> list[float]:
    return [slope * x * factor + offset + one + bias for x in range(4)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("FACTOR = 3", "FACTOR = 5", _expected(factor=5)),
        ("FACTOR = 3", "FACTOR = 3.0", _expected()),
        ("SETTING = (1,", "SETTING = (4,", _expected(one=4)),
        ("maker(7)", "maker(8)", _expected(offset=8)),
        ("BIAS = 100", "BIAS = 90", _expected(bias=90)),
        ("return 2 * x", "return 4 * x", _expected(slope=4)),
        ("* FACTOR + offset", "* FACTOR - offset", _expected(offset=-7)),
        ("1.0)", "np.float32(1.0))", _expected()),
    ],
)
def test_what_a_kernel_depends_on_is_compiled_anew(
    compiled: Program, old: str, new: str, expected: list[float]
) -> None:
    compiled.replace(old, new)
    assert compiled.run() == (1, expected)


def test_annotations_of_variables_are_seen(compiled: Program) -> None:
    """Python has no code for them."""
    compiled.replace("BIAS = 100", "import vkcompute as vc\nBIAS = 100")
    compiled.replace("return 2 * x", "y: vc.int32  = 2 * x\n    return y")
    assert compiled.run() == (1, _expected())
    compiled.replace("vc.int32 ", "vc.uint32")
    assert compiled.run() == (1, _expected())


def test_constants_of_classes_that_show_them_otherwise(program: Program) -> None:
    program.replace("FACTOR = 3", "import enum\nclass Mode(enum.IntEnum):\n    FAST = 3\nFACTOR = Mode.FAST")
    program.replace("    FAST = 3", "    __repr__ = lambda self: self.name\n    FAST = 3")
    assert program.run() == (1, _expected())
    program.replace("FAST = 3", "FAST = 5")
    assert program.run() == (1, _expected(factor=5))
    assert program.run() == (0, _expected(factor=5))


def test_a_module_that_takes_the_place_of_another_is_seen(compiled: Program) -> None:
    other = "BIAS = 1\ndef twice(x):\n    return 3 * x\n"
    compiled.write(compiled.texts | {"other.py": other})
    compiled.replace("import helper\n", "import other as helper\n")
    assert compiled.run() == (1, _expected(bias=1, slope=3))


def test_a_module_that_the_program_loads_itself_is_known(program: Program) -> None:
    """Compilers load what they write by `exec`, and `sys.modules` lacks it."""
    loader = """
        from pathlib import Path
        path = str(Path(__file__).with_name("loaded.py"))
        exec(compile(Path(path).read_text(), path, "exec"), {"__name__": "loaded"})
    """
    program.write(program.texts | {"loaded.py": program.texts["program.py"], "program.py": textwrap.dedent(loader)})
    assert program.run() == (1, _expected())
    assert program.run() == (0, _expected())
    program.replace("FACTOR = 3", "FACTOR = 5")
    assert program.run() == (1, _expected(factor=5))


def test_an_older_compiler_s_work_is_not_taken(compiled: Program) -> None:
    compiled.replace(
        "import helper\n",
        "import helper\nimport vkcompute.code_version as f\nf.__version__ = 'other'\n",
    )
    assert compiled.run()[0] == 1


def test_a_damaged_entry_is_compiled_again(program: Program) -> None:
    program.run()
    (entry,) = program.entries()
    entry.write_bytes(entry.read_bytes()[:-4] + b"????")
    assert program.run() == (1, _expected())
    assert program.run() == (0, _expected())


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[]",
        b"[0, [], []]",  # no fields
        b'[{"Interface": 1}, [], []]',
        b'[{"Interface": ["main"]}, [], []]',
        b'[{"Popen": ["true"]}, [], []]',
        b"[{}, [], []]",
        b'[{"Site": [], "Pack": []}, [], []]',
        b"[" * 9999,
        b"[0, [], [1]]",
        b"\xff",
    ],
)
def test_a_malformed_entry_is_missing(tmp_path: Path, head: bytes) -> None:
    disk.write_cached(tmp_path / "entry", head + b"\nspirv")
    assert cache._load(tmp_path / "entry", PythonOrigin(())) is None


def test_what_cannot_be_told_apart_is_not_kept(program: Program) -> None:
    program.replace("SETTING = (1, 2.5)", "SETTING = (1, object())")
    assert program.run() == (1, _expected())
    assert program.run() == (1, _expected())


UNCHECKED = """
import sys
import numpy, vkcompute as vc

@vc.kernel
def kernel(x):
    i = vc.global_id(0)
    if i < x.size:
        x[i] = i

with vc.Runtime() as gpu:
    kernel(x := gpu.zeros(4, numpy.int32))
    print(x.numpy().tolist(), "vkcompute.spirv.validation" in sys.modules)
"""


def test_modules_of_the_compiler_are_not_validated_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(UNCHECKED)
    for _ in range(2):  # the second time from the disk cache
        done = subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, timeout=hang_limit_s(), check=False
        )
        assert (done.stdout, done.stderr) == ("[0, 1, 2, 3] False\n", "")


UNPARSED = """
import ast, inspect, sys
import numpy, vkcompute as vc
import vkcompute.jit.elementwise.element_launcher, vkcompute.jit.launcher
if sys.argv[1:]:
    ast.parse = inspect.getblock = None

@vc.function
def twice(x):
    return x * 2

@vc.kernel
def kernel(x):
    i = vc.global_id(0)
    if i < x.size:
        x[i] = twice(i)

@vc.vectorize
def each(x):
    return x + 1

with vc.Runtime("cpu") as gpu:
    kernel(x := gpu.zeros(4, numpy.int32))
    print(each(x).numpy().tolist())
"""


def test_what_is_on_disk_is_not_parsed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(UNPARSED)
    env = os.environ | {"VKCOMPUTE_CACHE_DIR": str(tmp_path / "cache")}
    for given in ([], ["from the disk"]):
        command = [sys.executable, str(program), *given]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=hang_limit_s(), check=False)
        assert (done.stdout, done.stderr) == ("[1, 3, 5, 7]\n", "")


def test_lambdas_of_this_package_differ_by_their_code() -> None:
    add, multiply = (lambda a, b: a + b), (lambda a, b: a * b)
    for function in (add, multiply):
        function.__module__ = "vkcompute.arrays.algorithms.scans"
        function.__qualname__ = "<lambda>"
    assert fingerprint.value(add) != fingerprint.value(multiply)
    assert "scans.cumulative" in str(fingerprint.value(scans.cumulative))
