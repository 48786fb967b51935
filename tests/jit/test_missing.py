"""A kernel that needs a type which its device lacks says where."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import module

import vkcompute as vc
from vkcompute.dtypes import computes_float64
from vkcompute.errors import MissingFeature
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.missing_types import explained

TEXT = """
import numpy as np
import vkcompute as vc
HALF = np.float64(0.5)
def longer(v):
    return v + vc.int64(3)
def scaled(x, out):
    i = vc.global_id(0)
    out[i] = x[i] * 2.0 + HALF
def called(x, out):
    out[0] = longer(x[0])
def folded(x, out):
    n = np.int64(3) + 4
    out[0] = int(np.int32(n))
    out[1] = x[0] * 2
    out[2] = vc.int64(x[1]) // 3
def wide(x, out):
    out[0] = x[0]
"""
PLACES = {
    "scaled": ("Float64", "mine.py:9:27: this is float64\n        out[i] = x[i] * 2.0 + HALF\n" + 30 * " " + "^"),
    "called": ("Int64", "mine.py:6:16: this is int64"),
    "folded": ("Int64", "mine.py:16:14: this is int64"),
}


@pytest.mark.pure
@pytest.mark.parametrize("name", PLACES)
def test_the_place_of_what_is_missing(name: str) -> None:
    capability, place = PLACES[name]
    function = getattr(module(TEXT), name)
    missing = MissingFeature(f"it cannot run f: capability {capability} needs a feature")
    signature = ("i", 1), ("i", 1)
    result = str(explained(missing, definition_of(function), signature))
    assert result.startswith(f"{missing}; it is first used here:\n")
    assert place in result
    assert ("in this call of longer" in result) == (name == "called")


@pytest.mark.pure
def test_numbers_of_python_are_of_neither_type() -> None:
    text = "import vkcompute as vc\ndef f(out, x):\n    out[0] = vc.float64(x) / 3\n"
    function = module(text).f
    missing = MissingFeature("it cannot run f: capability Float64 needs a feature")
    result = str(explained(missing, definition_of(function), (("f", 1), float)))
    assert "mine.py:3:14: this is float64" in result


@pytest.mark.pure
def test_arguments_and_other_features_speak_for_themselves() -> None:
    function = module(TEXT).wide
    for message in ("capability Float64 needs shaderFloat64", "capability GroupNonUniform needs it"):
        missing = MissingFeature(message)
        assert explained(missing, definition_of(function), (("d", 1), ("i", 1))) is missing


def test_a_launch_says_it(gpu: vc.Runtime) -> None:
    kernel = vc.kernel(module(TEXT).scaled)
    x, out = gpu.array(np.arange(8, dtype=np.int32)), gpu.zeros(8)
    if computes_float64(gpu.device.features):
        kernel(x, out)
        assert np.array_equal(out.numpy(), np.arange(8) * 2 + 0.5)
    else:  # with VKCOMPUTE_FLOAT64=refuse
        with pytest.raises(MissingFeature, match=r"mine\.py:9:27: this is float64"):
            kernel(x, out)
