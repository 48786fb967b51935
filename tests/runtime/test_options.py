"""What Python would take and misunderstand is refused, with what is meant."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s

import vkcompute as vc
from shaders import MULTIPLY


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"features": "shaderFloat64"}, TypeError, r"pass \['shaderFloat64'\]"),
        ({"memory_limit_bytes": -1}, ValueError, "positive int or None; got -1"),
        ({"spill_limit_bytes": -1}, ValueError, "spill_limit_bytes is a number of bytes, 0 or more; got -1"),
        ({"spill_limit_bytes": True}, ValueError, "got True"),
        ({"memory_limit_bytes": 1.5}, ValueError, "positive int or None; got 1.5"),
        ({"device": True}, TypeError, "index"),
    ],
)
def test_options_of_a_runtime(options: dict[str, Any], error: type[Exception], words: str, clean_handles: None) -> None:
    with pytest.raises(error, match=words):
        vc.Runtime(**options)


def test_constants_and_entry_points_of_a_kernel(gpu: vc.Runtime) -> None:
    with pytest.raises(TypeError, match="constants is a dict of names or ids to values; got list"):
        gpu.kernel("multiply_float32", constants=[64])  # type: ignore[arg-type]
    with pytest.raises(vc.SpirvError, match="nope"):
        gpu.kernel("multiply_float32", entry_point="nope")


def test_names_of_kernels_are_in_messages_and_profiles(gpu: vc.Runtime) -> None:
    source = vc.glsl(
        "layout(local_size_x = 8) in; layout(binding = 0) buffer X { float x[]; };"
        "void main() { if (gl_GlobalInvocationID.x < x.length()) x[gl_GlobalInvocationID.x] += 1.0; }"
    )
    first, second = gpu.kernel(source, name="add one"), gpu.kernel(source)
    other = gpu.kernel(vc.glsl("layout(local_size_x = 8) in; void main() {}"))
    assert first.name == "add one"
    assert second.name != other.name
    assert re.fullmatch("<spirv [0-9a-f]{8}>", second.name)
    assert second is gpu.kernel(bytearray(source))
    with pytest.raises(TypeError, match=r"binding 0 .* of add one holds float32"):
        first(gpu.zeros(8, np.int32))
    with gpu.profile() as profile:
        first(gpu.zeros(8))
    assert "add one" in profile.table()


@pytest.mark.parametrize("times", [0, -1, 2.5, "3", 10**12])
def test_times_of_a_graph(gpu: vc.Runtime, times: Any) -> None:
    with gpu.record() as graph:
        gpu.zeros(4)
    with pytest.raises(ValueError, match="a graph runs 1 to"):
        graph.run(times)


def test_a_graph_that_is_not_being_recorded(gpu: vc.Runtime) -> None:
    with pytest.raises(ValueError, match="not being recorded"):
        gpu.record().__exit__(None, None, None)


def test_a_misspelt_name_is_answered_with_the_right_one() -> None:
    with pytest.raises(AttributeError) as error:
        vc.Runtme  # type: ignore[attr-defined]  # noqa: B018
    assert error.value.name == "Runtme"
    assert error.value.obj is vc


def test_the_standard_librarys_name_of_a_timeout(gpu: vc.Runtime) -> None:
    future = gpu.kernel(MULTIPLY)(gpu.zeros(8), gpu.zeros(8), gpu.zeros(8))
    assert future.result(timeout=hang_limit_s()) is None
    assert future.exception(timeout=hang_limit_s()) is None
