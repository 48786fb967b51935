"""What kernels refuse: the message says what and where, and what to write instead."""

from __future__ import annotations

import functools
import math
import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import module

import vkcompute as vc
from vkcompute.compiled.specialization import Specialization
from vkcompute.errors import CompileError, KernelError

pytestmark = pytest.mark.pure

# (a statement, what it is refused with, the text below which the caret stands)
REFUSED = [
    ("y = {i: 2}", "a dict; use variables", "{i"),
    ("y = [j for j in range(3)]", "a comprehension; write a for loop", "[j"),
    ("y = max(j for j in range(3))", "but as the only argument of sum, any or all, with no := in it", "(j for"),
    ("y = sum(z := j for j in range(3))", "with no := in it; write a for loop", "(z :="),
    ("y = sum(j for j in i)", "int32 has no length; tuples, vectors, arrays and their rows have", "i)"),
    ("sum = min; y = sum(j for j in range(3))", "sum is not Python's own here", "sum(j"),
    ("y = f'{i}'", "an f-string of device values is for print() only", "f'"),
    ("x[1:] += 1", "an operator assigns to one element of x; write a for loop over the slice", "x[1:]"),
    ("y = b'2'", "b'2'; numbers are bools, ints and floats", "b'2'"),
    ("import os", "import; import outside of the kernel", "import"),
    ("with i: pass", "not supported in kernels: with", "with"),
    ("print(x)", "print takes numbers; got the array x (float32, 1-D); print its elements", "print(x)"),
    ("y = x.cumsum()", "the array x (float32, 1-D) has no attribute cumsum", "x.cumsum"),
    ("y = x + 1", "takes numbers; got the array x (float32, 1-D); index it, as x[i]", "x + 1"),
    ("y = i if x else 0", "the array x (float32, 1-D) has no truth value", "i if"),
    ("y = x[i, 2]", "x takes 1 indices, one per axis; got 2; write x[i]", "x[i, 2]"),
    ("y = x[0.5]", "an index is an integer; got a Python float; write // for /, or int(…)", "x[0.5]"),
    ("y = x[x[i]]", "an index is an integer; got float32; write // for /, or int(…)", "x[x[i]]"),
    ("y = x[i] & 1", "& takes integers; got float32 and a Python int; write 'and' between conditions", "x[i] & 1"),
    ("y = x[i] ^ 2", "got float32 and a Python int; write x ** y for a power, or convert with int(x)", "x[i] ^ 2"),
    ("y = (i < 1) - (i < 2)", "- takes numbers; got bool and bool", "(i < 1)"),
    ("y = i << 0.5", "<< takes integers; got int32 and a Python float", "i << 0.5"),
    ("y = i + 5000000000", "5000000000 does not fit int32; convert the other operand", "i + 5"),
    ("y = i @ i", "@ takes two vectors; got int32 and int32; multiply and add", "i @ i"),
    ("y = 1 // 0", "by zero", "1 // 0"),
    ("y = i / 0", "division by zero; write math.inf or math.nan", "i / 0"),
    ("y = i // 0", "division by zero; integers have no infinity: change the divisor", "i // 0"),
    ("y = x[i] % np.float32(0)", "division by zero", "x[i] %"),
    ("y = i ** -1", "an integer to a negative power is not an integer", "i ** -1"),
    ("y = i is x", "is compares with None and enums only; write ==", "i is x"),
    ("y = i in x", "'in' takes a tuple or a vector in kernels; got the array x", "i in"),
    ("y = x[i].astype(np.int32)", "that a kernel can use; call functions, as vc.int32(x)", "x[i].as"),
    ("y = several[i]", "got a list; make it a tuple", "several[i]"),
    ("y = pair.total()", "Pair.total is a method; write a function of its fields", "pair.total"),
    ("y = pair.half", "Pair.half is a property; write a function of its fields", "pair.half"),
    ("y = np.zeros(4)", "np.zeros cannot be called in a kernel; write vc.local(shape, dtype) or [0] * n", "np.zeros"),
    ("y = np.iinfo(np.float32).max", "iinfo: Invalid integer data type 'f'", "np.iinfo"),
    ("y = np.iinfo(np.int32, foo=3).max", "takes its dtype by position in a kernel; write np.iinfo(dtype)", "np."),
    ("y = np.iinfo(i).max", "np.iinfo cannot be called", "np.iinfo"),
    ("y = nothing", "the name nothing is not defined", "nothing"),
    ("y = z; z = 1", "z is used before it is assigned", "z;"),
    ("for j in sorted((1, 2)): pass", "iterates over range(…), enumerate(…), zip(…), a tuple", "sorted"),
    ("for j in i: pass", "int32 has no length; tuples, vectors, arrays and their rows have", "i: pass"),
    ("for j in (1, (2, 3)): break", "or of several types has no break and no continue; use if", "for j"),
    ("for j, k in (1, 2): pass", "2 names take a tuple of 2; got a Python int", "j, k"),
    ("for j in enumerate(range(0, 3, i)): pass", "range cannot be called in a kernel", "range(0"),
    ("for j in range(x[i]): pass", "range takes integers; got float32; write // for /, or int(…)", "range(x[i])"),
    ("for j in range(0, 3, 0): pass", "the step of a range is not 0", "range(0, 3, 0)"),
    ("for a, b in zip((1, 2), (3, 4), strict=True): pass", "stops at the shortest; strict=True cannot raise", "zip"),
    ("for a, b in enumerate(x, 1, 2): pass", "enumerate takes a sequence, and optionally the first", "enumerate"),
    ("for j in reversed(range(0, 7, i)): pass", "or a range of a constant step", "reversed"),
    ("for j in reversed(zip((1, 2))): pass", "reversed takes a sequence, or a range of a constant step", "reversed"),
    ("for j, k in range(3): pass", "a for loop over a range has one variable", "for j"),
    ("y = range(3)", "range cannot be called in a kernel; write it as 'for i in range(n):' only", "range(3)"),
    ("if i: y = 1\n    y += 1", "y has no value that can be used here: on some of the paths", "y += 1"),
    ("for j in range(i): y = j\n    y += 1", "may end before it is assigned; assign it before the loop", "y += 1"),
    ("y = x if i else i", "the array x (float32, 1-D) on one path and int32 on another", "x if i"),
    ("a, b = 1, 2, 3", "2 names take a tuple of 2; got a tuple of 3" , "a, b"),
    ("return i", "a kernel returns nothing; store the value in an array", "return"),
    ("y = math.sqrt(-1)", "sqrt: ", "math.sqrt"),
    ("y = math.sqrt(i, 2)", "sqrt takes 1 argument; got 2", "math.sqrt"),
    ("y = round(x[i], i)", "the digits of round are an int, known at compile time", "round"),
    ("y = 1 << -1", "<< takes a non-negative number of bits; got -1", "1 << -1"),
    ("for j in several: pass", "a list has no length; tuples, vectors, arrays and their rows have; make it a", "sev"),
    ("y = math.log(x[i], 2, 3)", "log takes 1 to 2 arguments; got 3", "math"),
    ("y = vc.shared(8)", "shared takes 2 to 3 arguments; got 1: shape and dtype, as vc", "vc"),
    ("y = np.sum(x)", "np.sum cannot be called in a kernel; write sum(v) of a vector or a tuple; for", "np.sum"),
    ("y = vc.subgroup.sum(i)", "subgroup has no attribute sum; did you mean add?", "vc.subgroup.sum"),
    ("y = vc.subgroup_add(i)", "vc has no attribute subgroup_add; did you mean subgroup.add?", "vc.sub"),
    ("vc.atomic.sub(x, 0, 1)", "no attribute sub; write atomic.add of a negative number", "vc.atomic.sub"),
    ("y = np.roll(i)", "np.roll cannot be called in a kernel; call functions written in Python, or those", "np.roll"),
    ("y = np.random.rand()", "rand cannot be called in a kernel; write vc.random.uniform(counter, key)", "np.random"),
    ("y = random.random()", "random cannot be called in a kernel; write vc.random.uniform(counter, key)", "random"),
    ("y = vc.global_id(i)", "an axis is 0, 1 or 2, known at compile time; got int32", "vc.global_id"),
    ("y = vc.global_id(3)", "an axis is 0, 1 or 2, known at compile time; got 3", "vc.global_id"),
    ("y = vc.globalid(0)", "vc has no attribute globalid; did you mean global_id?", "vc.globalid"),
    ("y = math.sqr(2.0)", "math has no attribute sqr; did you mean sqrt?", "math.sqr"),
    ("here = 1; y = heer", "the name heer is not defined; did you mean here?", "heer"),
    ("y = rage(3)", "the name rage is not defined; did you mean range?", "rage"),
    ("y = (1, (2, 3))[i]", "a tuple of 2 is indexed by a constant in range; got int32", "(1, (2, 3))[i]"),
    ("y = x.shape[1]", "a tuple of 1 is indexed by a constant in range; got 1", "x.shape[1]"),
    ("y = vc.grid(1)", "vc has no attribute grid", "vc.grid"),
    ("y = loop(i)", "loop calls itself; kernels have no recursion: write a loop", "loop(a - 1)"),
    ("y = some(i)", "some returns a value on some paths only", "some(i)"),
    ("y = decorated(i)", "decorated is decorated", "deco"),
    ("y = two(i)", "two: missing a required argument: 'b'", "two(i)"),
    ("y = two(*i)", "* takes a tuple, a vector or a list; got int32", "*i"),
    ("y = wrong(i)", "& takes integers; got int32 and a Python float", "a & 0.5"),
    ("y = table[i]", "table is a table of object, which kernels lack; convert it, as", "table"),
    ("x.y = i", "a kernel assigns to variables and to elements of arrays", "x.y"),
    ("i[0] = 2", "only arrays, vectors and tuples are indexed; got int32", "i[0]"),
    ("x[i] = (1, 2)", "this takes numbers; got a tuple of 2", "x[i]"),
]  # fmt: skip

MODULE = """
import functools, math, random, typing
import numpy as np
import vkcompute as vc
table = np.zeros(3, object)
several = [1, 2]
def loop(a):
    return loop(a - 1) if a > 0 else 0
def some(a):
    if a > 0:
        return 1
def two(a, b):
    return a + b
def wrong(a):
    return a & 0.5
def deco(f):
    return functools.wraps(f)(lambda a: 2 * f(a))
@deco
def decorated(a):
    return a
def kernel(x):
    i = vc.global_id(0)
    {statement}
class Pair(typing.NamedTuple):
    x: float
    def total(self):
        return self.x
    @property
    def half(self):
        raise TypeError("this is not called")
pair = Pair(1.0)
"""


def compiled(function: Callable[..., Any], *signature: Any) -> Specialization:
    from vkcompute.frontend.source import definition_of
    from vkcompute.jit.compilation.build import specialize

    return specialize(definition_of(function), signature)  # type: ignore[arg-type]


@pytest.mark.parametrize(("statement", "message", "at"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_kernels_refuse(statement: str, message: str, at: str) -> None:
    lines = MODULE.format(statement=statement).split("\n")
    kernel = module("\n".join(lines)).kernel
    with pytest.raises(KernelError) as raised:
        compiled(kernel, ("f", 1))
    first, line, caret, *_ = str(raised.value).split("\n")
    place = re.match(r"(.*):(\d+):(\d+): (.*)", first)
    assert place is not None
    assert place[1] == kernel.__code__.co_filename
    assert message in place[4]
    text = lines[int(place[2]) - 1]
    assert line == "    " + text
    assert line[caret.index("^") :].startswith(at)
    assert text[int(place[3]) - 1 :].startswith(at)


def test_a_kernel_s_own_name_is_not_suggested() -> None:
    kernel = module(MODULE.format(statement="y = kernels(i)")).kernel
    with pytest.raises(KernelError, match="the name kernels is not defined\n"):
        compiled(kernel, ("f", 1))


def test_the_calls_that_led_to_a_fault_are_shown() -> None:
    kernel = module(MODULE.format(statement="y = two(wrong(i), 1)")).kernel
    with pytest.raises(KernelError) as raised:
        compiled(kernel, ("f", 1))
    assert textwrap.dedent(str(raised.value)).endswith(
        f"{kernel.__code__.co_filename}:23:13: in this call of wrong\n        y = two(wrong(i), 1)\n                ^"
    )


def test_the_column_counts_characters_and_methods_are_found() -> None:
    text = """
    import vkcompute as vc
    class Namespace:
        def kernel(x):
            größe = "ä"; x[0] = größe
    """
    kernel = module(textwrap.dedent(text)).Namespace.kernel
    with pytest.raises(KernelError, match=r":5:22: this takes numbers; got 'ä'\n.*\n {25}\^"):
        compiled(kernel, ("f", 1))


def test_functions_without_source() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x): pass", scope)
    with pytest.raises(KernelError, match="the source of f is not found"):
        vc.kernel(scope["f"])
    with pytest.raises(KernelError, match="a lambda stores nothing; write the kernel with def"):
        vc.kernel(lambda x: None)
    for wrong in (3, math.sqrt, np.sin, functools.partial(print)):
        with pytest.raises(TypeError, match="takes a function written in Python; got"):
            vc.kernel(wrong)  # type: ignore[arg-type]


def test_kernels_take_plain_parameters() -> None:
    def many(*x: Any) -> None:
        pass

    def only(*, x: Any) -> None:
        pass

    for each in (many, only):
        with pytest.raises(KernelError, match="a kernel takes positional-or-keyword parameters only"):
            vc.kernel(each)


def test_a_kernel_is_a_compile_error() -> None:
    assert issubclass(KernelError, CompileError)
    assert vc.KernelError is KernelError


@pytest.mark.parametrize("name", ["global_id", "local_id", "group_id", "local_size", "num_groups"])
def test_ids_have_no_value_outside(name: str) -> None:
    with pytest.raises(KernelError, match=f"vc.{name}.* inside of a function that vc.kernel compiles"):
        getattr(vc, name)(0)


TABLE = tuple(range(5000))


def test_kernels_of_unlimited_size_are_refused(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(x: Any) -> Any:
        return x * x

    def fourfold(x: Any) -> Any:
        return twice(twice(twice(twice(x))))

    def often(x: Any) -> Any:
        return fourfold(fourfold(fourfold(fourfold(x))))

    @vc.kernel
    def large(x: Any) -> None:
        x[0] = often(often(x[0]))

    @vc.kernel
    def table(x: Any) -> None:
        x[0] = TABLE[vc.int32(x[0])]

    x = gpu.zeros(1)
    with pytest.raises(
        KernelError, match=r"has at most 4096 elements, as drivers take long .*; got 5000; pass the elements"
    ):
        table(x)
    monkeypatch.setattr("vkcompute.frontend.evaluator._MOST_NODES", 100)
    with pytest.raises(KernelError, match=r"at most 100 expressions and statements, .* call the function in a loop"):
        large(x)
    monkeypatch.undo()
    large(x)
