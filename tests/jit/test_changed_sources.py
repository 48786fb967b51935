"""Sources that differ from the code that Python runs are refused; code and defaults that are replaced are noticed."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import linecache
import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s

import vkcompute as vc
from vkcompute.frontend.source import read

LAUNCHES = {
    "kernel": lambda module, x: module.kernel(x, x),
    "simulation": lambda module, x: module.kernel.simulate(x, x),
    "vectorize": lambda module, x: module.each(x),
    "reduce": lambda module, x: module.total(x),
}
TEXT = """
import vkcompute as vc

def minus(x): return x - 1
def plus(x): return x + 1

def changed(x):
    return minus(x) * 2

@vc.kernel
def kernel(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = changed(x[i])

each = vc.vectorize(lambda x: changed(x))
total = vc.reduce(lambda a, b: a + b, 0, map=lambda x: changed(x))
"""


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Writes a module and imports it."""
    path = tmp_path / "mine_to_change.py"

    def load(text: str) -> Any:
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location("mine_to_change", path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    sys.modules.pop("mine_to_change", None)


@pytest.mark.parametrize("launch", LAUNCHES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return minus(x) * 2", "return plus(x) * 2"),
        ("return minus(x) * 2", "return minus(x) * 3"),
        ("def plus(x): return x + 1\n", ""),  # the helper is a line above
        ("    return minus(x) * 2", "    return (minus(x) * 2"),
    ],
)
def test_a_helper_that_is_saved_before_the_first_launch(
    gpu: vc.Runtime, imported: Callable[[str], Any], launch: str, old: str, new: str
) -> None:
    module = imported(TEXT)
    file = Path(module.__file__)
    assert old in TEXT
    file.write_text(TEXT.replace(old, new))
    os.utime(file, (1, 1))
    x = gpu.array(np.arange(4, dtype=np.float32))
    with pytest.raises(vc.KernelError, match="the source of changed has changed since it was imported"):
        LAUNCHES[launch](module, x)
    file.write_text(TEXT)
    result = LAUNCHES[launch](module, x)
    result = result.numpy() if launch in ("vectorize", "reduce") else x.numpy()
    assert result.tolist() == (4.0 if launch == "reduce" else [-2, 0, 2, 4])


ANNOTATED = """
import vkcompute as vc

@vc.kernel
def kernel(x, out):
    half: vc.float32 = x[vc.global_id(0)] / 2
    out[vc.global_id(0)] = half
"""


def test_a_kernel_that_is_saved_before_its_first_launch(gpu: vc.Runtime, imported: Callable[[str], Any]) -> None:
    """Annotations of variables are not in the code; the cache on disk keeps each text apart."""

    def found(module: Any) -> float:
        out = gpu.zeros(64)
        module.kernel[1, 64](gpu.full(64, 3.0), out)
        return float(out.numpy()[0])

    old, changed = imported(ANNOTATED), ANNOTATED.replace("vc.float32", "vc.bool_")
    Path(old.__file__).write_text(changed)
    os.utime(old.__file__, (1, 1))
    assert found(old) == 1.5
    assert found(imported(changed)) == 1


def test_two_helpers_that_change_places(gpu: vc.Runtime, imported: Callable[[str], Any]) -> None:
    """Text is read at the old lines."""
    text = TEXT.replace("return minus(x) * 2", "return minus(x) * 5")
    module = imported(text)
    one, other = "def minus(x): return x - 1\n", "def plus(x): return x + 1\n"
    Path(module.__file__).write_text(text.replace(one + other, other + one))
    with pytest.raises(vc.KernelError, match="the source of minus has changed"):
        module.kernel(gpu.zeros(4), gpu.zeros(4))


SOURCES = {
    "closures, nested": """
        def make(n):
            m = n + 1
            def scaled(x):
                return x * m + [k for k in (n,)][0]
            def outer(x):
                return scaled(x) if x > 0 else (lambda y: y + n)(x)
            return scaled, outer, lambda x: outer(x) + m, lambda x: outer(x) - m
        found = make(3)
        """,
    "classes, whose names are mangled": """
        import math
        class Config:
            __private = 3
            def method(x): return math.sqrt(x) * Config.__private + __other(x)
            class Inner:
                one, two = lambda x: __hidden(x), lambda x: __hidden(x) + 1
        found = Config.method, Config.Inner.one, Config.Inner.two
        """,
    "imports, and objects with methods": """
        import math as m, vkcompute as vc
        from vkcompute import vector
        class Config:
            def call(self, x): return x
        config = Config()
        def mixed(x): return m.sin(vc.vector.dot(x, x)) + vector.dot(x, x) + config.call(x)
        def plain(x): return config.call(x)
        found = mixed, plain
        """,
    "decorators and defaults": """
        def marked(scale):
            return lambda function: function
        @marked(
            3
        )
        @marked(scale=2)
        def decorated(x: float = 3.0, *, k=(1, 2)) -> float:
            '''With a
            docstring.'''
            assert x > 0, f"not {x!r}"
            return x in {"a", "b", "c"} or __debug__
        found = decorated,
        """,
    "annotations of the future": """
        from __future__ import annotations
        def annotated(x: Unknown) -> Unknown:
            y: Unknown = x
            return y
        found = annotated,
        """,
}


def run(text: str, name: str, level: int = -1, *, divided: bool = False) -> dict[str, Any]:
    """Runs a text that Python finds by its name; each statement compiled by itself, as in a notebook, if `divided`."""
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    tree, scope = ast.parse(text), {"__name__": "mine"}
    for part in [[item] for item in tree.body] if divided else [tree.body]:
        exec(compile(ast.Module(part, []), name, "exec", dont_inherit=True, optimize=level), scope)
    return scope


@pytest.mark.pure
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("level", [-1, 0, 1, 2])
@pytest.mark.parametrize("divided", [False, True])
def test_functions_of_all_kinds_have_their_code(source: str, level: int, divided: bool) -> None:
    text = textwrap.dedent(SOURCES[source])
    name = f"<{source} {level} {divided}>"
    if divided and "__future__" in text:
        pytest.skip("a statement for itself has no future")
    for function in run(text, name, level, divided=divided)["found"]:
        result = read(function)
        assert result.file == name
        assert result.code is function.__code__
    changed = text.replace("x", "z")
    linecache.cache[name] = len(changed), None, changed.splitlines(keepends=True), name
    for function in run(text, "<another>", level)["found"]:
        with pytest.raises(vc.KernelError, match="has changed"):
            read(
                types.FunctionType(
                    function.__code__.replace(co_filename=name), {}, function.__name__, None, function.__closure__
                )
            )


@pytest.mark.pure
def test_lambdas_of_one_line_are_told_apart() -> None:
    scope = run("found = lambda x: x + 1, lambda x: -x, lambda x: (lambda y: y)(x), lambda x: x + 1\n", "<one line>")
    texts = [ast.unparse(read(item).tree.body[0]) for item in scope["found"]]
    assert texts == ["return x + 1", "return -x", "return (lambda y: y)(x)", "return x + 1"]


@pytest.mark.pure
def test_functions_in_doctests_have_their_code() -> None:
    text = """
    >>> import math
    >>> from vkcompute.frontend.source import read
    >>> def helper(x):
    ...     return math.sin(x)
    >>> read(helper).lines[0]
    'def helper(x):\\n'
    >>> len(read(lambda x: math.cos(x)).tree.body)
    1
    """
    test = doctest.DocTestParser().get_doctest(text, {}, "mine", "mine.py", 0)
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.pure
@pytest.mark.parametrize("flag", ["-O", "-OO"])
def test_optimized_python_compiles(tmp_path: Path, flag: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"import numpy\n{TEXT}\nx = numpy.ones(2, 'f4')\nkernel.simulate(x, x)\nprint(x)\n")
    command = [sys.executable, flag, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=hang_limit_s(), check=False)
    assert (done.stdout, done.stderr) == ("[0. 0.]\n", "")


PARTS = """
import vkcompute as vc

def scaled(x, by=2.0, *, plus=1.0):
    return x * by + plus

def negated(x, by=2.0, *, plus=1.0):
    return -x * by - plus

HELPERS = (scaled, scaled)

@vc.kernel
def kernel(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = HELPERS[0](x[i])

each = vc.vectorize(lambda x: scaled(x))
"""


@pytest.mark.parametrize("launch", ["kernel", "vectorize"])
def test_code_and_defaults_that_are_replaced_are_noticed(
    gpu: vc.Runtime, imported: Callable[[str], Any], launch: str
) -> None:
    """In a new process, too, which loads the kernel from the disk."""
    x = gpu.array(np.array([1, 2], np.float32))

    def found(module: Any) -> list[float]:
        out = gpu.zeros(2)
        module.kernel(x, out) if launch == "kernel" else module.each(x, out=out)
        return list(out.numpy())

    for _ in range(2):
        module = imported(PARTS)
        assert found(module) == found(module) == [3, 5]
        module.scaled.__defaults__ = (3.0,)
        assert found(module) == [4, 7]
        module.scaled.__kwdefaults__["plus"] = 0.0
        assert found(module) == [3, 6]
        module.scaled.__kwdefaults__ = {"plus": 2.0}
        assert found(module) == [5, 8]
        module.scaled.__code__ = module.negated.__code__
        assert found(module) == [-5, -8]


def test_the_code_of_a_kernel_that_is_replaced_is_refused(gpu: vc.Runtime, imported: Callable[[str], Any]) -> None:
    module = imported(PARTS)
    module.kernel.__wrapped__.__code__ = (lambda x, out: None).__code__
    with pytest.raises(vc.KernelError, match="has changed"):
        module.kernel(gpu.zeros(2), gpu.zeros(2))
