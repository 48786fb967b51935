"""Kernels in Python for the texts of CuPy's kernels, without a device."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute.compat.cupy as cp
from vkcompute.c.scopes import Scope
from vkcompute.compat.cupy.cuda.compiler import CompileException
from vkcompute.compat.cupy.kernel_texts import compiled, constant_of, kernel_text, parameters_of

pytestmark = pytest.mark.pure


def body_of(text: str, dtype: str = "float32") -> list[str]:
    """The lines of the kernel for `T x, raw T w` and `T z`."""
    scope = Scope(typedefs={"T": np.dtype(dtype)})
    whole = kernel_text(text, parameters_of("T x, raw T w"), parameters_of("T z"), (1, 1), (dtype,) * 3, scope)
    assert whole.startswith("def kernel_of_text(p_z, p_x, p_w, _n):\n    i = _global_id(0)\n    if i < _n:\n")
    return [line[8:] for line in whole.splitlines()[3:]]


def test_names() -> None:
    assert body_of("z = w[_ind.size() - i - 1]") == ["p_z[i] = p_w[((np.int64(_n) - np.int64(i)) - np.int64(1))]"]
    assert body_of("T in = x; in += n") == ["v_in = p_x[i]", "v_in = (v_in + np.float32(np.int64(_n)))"]
    assert body_of("z = w.size()") == ["p_z[i] = np.float32(np.int64(p_w.size))"]
    assert body_of("") == ["pass"]


def test_parameters() -> None:
    assert [(p.type, p.name, p.raw, p.dtype) for p in parameters_of("raw T x, const float y,")] == [
        ("T", "x", True, None), ("float", "y", False, np.float64)
    ]  # fmt: skip
    for text in ("x", "raw x", "far T x"):
        with pytest.raises(ValueError, match="a parameter is a type and a name"):
            parameters_of(text)
    with pytest.raises(TypeError):
        parameters_of("wide x")


@pytest.mark.parametrize("text", ["z = *x", "z = w", "T *q = &z", "int a[2][3]", "z = w + 1"])
def test_more_than_statements_is_refused(text: str) -> None:
    with pytest.raises(NotImplementedError, match="pointers that are no parameters"):
        compiled(text, *_arguments())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q = x", "identifier 'q' is undefined; declare it"),
        ("z = q", "identifier 'q' is undefined"),
        ("x = 1", "x is constant"),
        ("w[i] = 1", "w is constant"),
        ("z = x % 2", "% takes integers; got float32"),
        ("z = 09", "digits are octal"),
        ("z = " + "(" * 2000 + "x" + ")" * 2000, "nested too deeply"),
        ("z = x" + " + x" * 300, "nested too deeply"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CompileException, match=message) as caught:
        compiled(text, *_arguments())
    assert f"the text is {text!r}" in str(caught.value) or "nested" in message


def _arguments() -> tuple:  # type: ignore[type-arg]
    ins, outs = tuple(parameters_of("T x, raw T w")), tuple(parameters_of("T z"))
    return ins, outs, (1, 1), ("float32",) * 3, (("T", "float32"),)


def test_arguments_of_kernels() -> None:
    for make in (
        lambda **named: cp.ElementwiseKernel("T x", "T z", "z = x", **named),
        lambda **named: cp.ReductionKernel("T x", "T z", "x", "a + b", "z = a", "0", **named),
    ):
        with pytest.raises(ValueError, match="Invalid kernel name"):
            make(name="1")
    with pytest.raises(NotImplementedError, match="no after_loop"):
        cp.ElementwiseKernel("T x", "T z", "z = x", after_loop="int k = 0")


def test_identities() -> None:
    float32 = np.dtype("float32")
    assert constant_of("-INFINITY", {}, float32) == -np.inf
    assert constant_of("T(INT_MAX) / 2", {"T": "int32"}, np.dtype("int64")) == 2**30 - 1
