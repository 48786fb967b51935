"""Chains of branches longer than the depth at which a driver ignores control flow, against the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracle import module

import vkcompute as vc

LENGTH = 85


def _chain(lines: str) -> str:
    """LENGTH branches; {k} is the number of each, {el} is empty for the first."""
    return "".join(lines.format(k=k, el="el" if k else "") for k in range(LENGTH))


def _operators(word: str, compared: str) -> str:
    return f" {word} ".join(f"x[(i + {k}) % 7] {compared} {k * 3}" for k in range(LENGTH))


BODIES = {
    "elif": _chain("    {el}if x[i] == {k}:\n        out[i] = {k} + 1\n") + "    else:\n        out[i] = -1\n",
    "early returns": _chain("    if x[i] == {k}:\n        out[i] = {k} + 1\n        return\n") + "    out[i] = -1\n",
    "a helper's returns": "    out[i] = helper(x[i], x)\n",
    "and": f"    out[i] = {_operators('and', '!=')}\n",
    "or": f"    out[i] = {_operators('or', '==')}\n",
    "conditional expressions": "    out[i] = " + _chain("x[{k} % 7] + {k} if x[i] == {k} else ") + "-1\n",
    "continue": "    for j in range(x[0] + 2):\n"
    + _chain("        if x[i] == {k} + j:\n            out[i] += {k} + 1\n            continue\n")
    + "        out[i] += 1000\n",
    "returns in a loop": "    for j in range(x[0] + 2):\n"
    + _chain("        if x[i] == {k} + j:\n            out[i] += {k} + 1\n            return\n")
    + "        out[i] += 1000\n",
    "values": "    a = 0\n    b = 1.5\n    c = True\n"
    + _chain(
        "    {el}if x[i] + b * {k} == {k} + a:\n        a = {k} + 1\n        b = x[{k} % 7] * 2\n        c = x[i] > 9\n"
    )
    + "    else:\n        b = a + 1\n    out[i] = a + b * 3 + c\n",
}
PREAMBLE = (
    "import vkcompute as vc\ndef helper(v, x):\n"
    + _chain("    if v == {k}:\n        return x[{k} % 7] + {k}\n")
    + "    return -1\n"
    + "def deep(x, out):\n    i = vc.global_id(0)\n    if i >= x.size:\n        return\n"
)


@pytest.fixture(scope="module")
def own(_silence_at_the_end: None) -> Iterator[vc.Runtime]:
    with vc.Runtime() as runtime:
        yield runtime


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_long_chains_are_as_python_has_them(own: vc.Runtime, body: str) -> None:
    kernel = vc.kernel(module(PREAMBLE + body).deep)
    x = np.array([0, 1, 2, 31, 32, 33, 63, 64, 65, 79, 80, 81, LENGTH - 1, LENGTH, LENGTH + 1], np.int32)
    out, expected = own.zeros(x.size, np.int32), np.zeros(x.size, np.int32)
    kernel[1, 16](own.array(x), out)
    kernel.simulate[1, 16](x, expected)
    np.testing.assert_array_equal(out.numpy(), expected)


def _nested(n: int, *, returns: bool = False) -> bytes:
    """A shader of `n` nested branches, or of `n` branches that return, one after the other."""
    opened = "".join(f"if (v > {k}) {{ o[i] += x[{k}];" for k in range(n)) + "}" * n
    text = "".join(f"if (v == {k}) {{ o[i] = {k}; return; }}" for k in range(n)) + "o[i] = -1;" if returns else opened
    return vc.glsl(
        "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer A { int x[]; };\n"
        "layout(binding = 1) buffer B { int o[]; };\n"
        f"void main() {{ uint i = gl_GlobalInvocationID.x; int v = x[i]; {text} }}"
    )


@pytest.mark.parametrize("returns", [False, True])
def test_a_shader_is_right_or_refused(gpu: vc.Runtime, returns: bool) -> None:
    """lavapipe ignores control flow deeper than 80."""
    x, refused = np.arange(128, dtype=np.int32), []
    for n in (78, 81):
        out: Any = gpu.zeros(128, np.int32)
        try:
            gpu.kernel(_nested(n, returns=returns))(gpu.array(x), out, grid=2)
        except ValueError as error:
            assert "nested deeper than 80" in str(error)  # noqa: PT017
            refused.append(n)
            continue
        sums = [min(v, n) * (min(v, n) - 1) // 2 for v in range(128)]
        np.testing.assert_array_equal(out.numpy(), np.where(x < n, x, -1) if returns else sums)
    assert refused == ([81] if "llvmpipe" in str(gpu.device) else [])
