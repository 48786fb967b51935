"""Errors for Python and NumPy that the language lacks: they quote the program, and name the replacement."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as language
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError
from vkcompute.blocks.compiler.functions import REMEDIES
from vkcompute.blocks.launching.program import block_program


@triton.jit
def names(x_ptr, WHICH: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    if WHICH == "misspelled":
        tl.laod(x_ptr)
    elif WHICH == "alias":
        language.laod(x_ptr)
    elif WHICH == "libdevice":
        tl.store(x_ptr, tl.tanh(x))
    elif WHICH == "math":
        tl.store(x_ptr, tl.math.tanh(x))
    elif WHICH == "of tl":
        tl.store(x_ptr, tl.math.where(x > 0, x, 0))
    elif WHICH == "of libdevice":
        tl.store(x_ptr, tl.extra.libdevice.tnah(x))
    elif WHICH == "numpy":
        tl.store(x_ptr, tl.mean(x))
    elif WHICH == "getattr":
        getattr(tl, "laod")(x_ptr)  # noqa: B009
    else:
        tl.load(x_ptr, msk=x > 0)


@pytest.mark.parametrize(
    ("which", "message", "at"),
    [
        ("misspelled", "tl has no attribute laod; did you mean load?", "tl.laod"),
        ("alias", "language has no attribute laod; did you mean load?", "language.laod"),
        ("libdevice", "tl has no attribute tanh; write tl.extra.libdevice.tanh", "tl.tanh"),
        ("math", "tl.math has no attribute tanh; write tl.extra.libdevice.tanh", "tl.math.tanh"),
        ("of tl", "tl.math has no attribute where; write tl.where", "tl.math.where"),
        ("of libdevice", "tl.extra.libdevice has no attribute tnah; did you mean tanh?", "tl.extra.libdevice.tnah"),
        ("numpy", "tl has no attribute mean; write tl.sum(x, axis) / n", "tl.mean"),
        ("getattr", "language has no attribute laod; did you mean load?", "getattr"),
        ("keyword", "got an unexpected keyword argument 'msk'; did you mean mask?; it takes pointer, mask", "tl.load"),
    ],
)
def test_unknown_names(machine: vkcompute.Runtime | None, which: str, message: str, at: str) -> None:
    with pytest.raises(KernelError) as caught:
        run(machine, names, (1,), (np.zeros(8, np.float32), which))
    check_error(caught.value, message, at)


@pytest.mark.pure
def test_remedies_name_what_the_language_has() -> None:
    for name, remedy in REMEDIES.items():
        for path in re.findall(r"tl((?:\.\w+)+)", remedy):
            result: Any = tl
            for part in path[1:].split("."):
                assert part in getattr(result, "__all__", vars(result)), remedy
                result = getattr(result, part)
        assert name not in tl.__all__ or remedy == f"tl.{name}"


@block_program
def python(x_ptr, WHICH: tl.constexpr):
    at = tl.arange(0, 8)
    x = tl.load(x_ptr + at)
    some, pair = [1.0, 2.0], (1.0, 2.0)
    made = [item * 2 for item in pair]
    if WHICH == "block":
        x[0] = 1.0
    elif WHICH == "more of a block":
        x[0] += 1.0
    elif WHICH == "pointer":
        x_ptr[0] = 1.0
    elif WHICH == "scalar":
        first = tl.load(x_ptr)
        first[0] = 1.0
    elif WHICH == "list":
        some[0] = 1.0
    elif WHICH == "tuple":
        pair[0] = 1.0
    elif WHICH == "descriptor":
        of_x = tl.make_tensor_descriptor(x_ptr, [8], [1], [8])
        of_x[0] = 1.0
    elif WHICH == "read descriptor":
        tl.store(x_ptr, tl.make_tensor_descriptor(x_ptr, [8], [1], [8])[0])
    elif WHICH == "append":
        some.append(3.0)
    elif WHICH == "append to a comprehension":
        made.append(3.0)
    elif WHICH == "append to list()":
        list(pair).append(3.0)
    elif WHICH == "count":
        pair.count(3.0)
    elif WHICH == "str":
        tl.store(x_ptr, WHICH.lower() == "str")
    elif WHICH == "raise":
        raise ValueError("x")
    elif WHICH == "dict":
        tl.store(x_ptr, {"a": 1}["a"])
    else:
        tl.store(x_ptr, len([*some, *made]) + (some + made)[3])


_CANNOT = "cannot be assigned"


@pytest.mark.parametrize(
    ("which", "message", "at"),
    [
        ("block", f"the elements of a block of fp32[8] {_CANNOT}; write x = tl.where(condition, value, x)", "x[0] = "),
        ("more of a block", f"{_CANNOT}; write x = tl.where(condition, value, x)", "x[0] += 1.0"),
        ("pointer", f"the elements of a pointer to x_ptr {_CANNOT}; write tl.store(x_ptr + offsets, value)", "x_"),
        ("scalar", f"the elements of float32 {_CANNOT}; assign first as a whole", "first[0]"),
        ("list", f"the elements of a list of 2 {_CANNOT}; make another list", "some[0]"),
        ("tuple", f"the elements of a tuple of 2 {_CANNOT}; make another tuple", "pair[0]"),
        ("descriptor", f"a descriptor of x_ptr {_CANNOT}; write of_x.store(offsets, value)", "of_x[0]"),
        ("read descriptor", "a descriptor of x_ptr has no elements; write x.load(offsets)", "[8])[0]"),
        ("append", "a list of 2 has no attribute append; its length is known at compile time", "some.append"),
        ("append to a comprehension", "a list of 2 has no attribute append", "made.append"),
        ("append to list()", "make another list, as [*list(pair), value]", "list(pair).append"),
        ("count", "at compile time: make another tuple, as (*pair, value)", "pair.count"),
        ("str", "'str' has no attribute lower; call functions, as tl.cast(x, tl.float32)", "WHICH.lower"),
        ("raise", "not supported in block programs: raise; write assert condition, text", "raise ValueError"),
        ("dict", "not supported in block programs: a dict; use variables", '{"a": 1}'),
    ],
)  # fmt: skip
def test_unknown_words(machine: vkcompute.Runtime | None, which: str, message: str, at: str) -> None:
    with pytest.raises(KernelError) as caught:
        run(machine, python, (1,), (np.zeros(8, np.float32), which))
    check_error(caught.value, message, at)


def test_lists_are_concatenated(machine: vkcompute.Runtime | None) -> None:
    (result,) = run(machine, python, (1,), (np.zeros(8, np.float32), "lists"))
    assert result[0] == 4 + 4


@triton.jit
def one(a):
    return a


@triton.jit
def three(a, b, c):
    return a


@triton.jit
def with_default(a, b, c=1):
    return a + b * c


@triton.jit
def combined(x_ptr, FUNCTION: tl.constexpr, SCANS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    if SCANS:
        tl.store(x_ptr + tl.arange(0, 8), tl.associative_scan(x, 0, FUNCTION))
    else:
        tl.store(x_ptr, tl.reduce(x, 0, FUNCTION))


@pytest.mark.parametrize("scans", [False, True])
@pytest.mark.parametrize(("function", "n"), [(one, 1), (three, 3)])
def test_functions_that_combine_take_two_arguments_per_block(
    machine: vkcompute.Runtime | None, function: triton.JITFunction, n: int, scans: bool
) -> None:
    message = f"a function of 2 arguments, two per block; {function.__name__} takes {n}"
    with pytest.raises(KernelError, match=message):
        run(machine, combined, (1,), (np.ones(8, np.float32), function, scans))


@pytest.mark.parametrize("function", [with_default, tl.add, tl.maximum])
def test_functions_that_combine_may_have_defaults(machine: vkcompute.Runtime | None, function: Any) -> None:
    (result,) = run(machine, combined, (1,), (np.ones(8, np.float32), function, False))
    assert result[0] == (1 if function is tl.maximum else 8)


@triton.jit
def reshaped(x_ptr, M: tl.constexpr, N: tl.constexpr):
    tl.store(x_ptr + tl.reshape(tl.arange(0, 16), (M, N)), 0)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, 5), r"reshape keeps the number of elements, 16 of a block of int32\[16\], and .*; got \[3, 5\], of 15"),
        ((-4, -4), "the lengths of a block are powers of two; got -4"),
    ],
)
def test_reshape_keeps_the_number_of_elements(shape: tuple[int, int], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        reshaped.interpret[(1,)](np.zeros(16, np.float32), *shape)


@pytest.mark.pure
def test_a_program_without_a_file() -> None:
    made: dict[str, Any] = {}
    exec("def program(x_ptr): pass", made)
    with pytest.raises(KernelError) as caught:
        triton.jit(made["program"])
    assert str(caught.value).endswith("from their source; define it in a file or in a cell of a notebook")
