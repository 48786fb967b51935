"""A few of the random block programs of `make blocks`."""

from __future__ import annotations

import runpy
from pathlib import Path
from random import Random

import numpy as np
import pytest
from random_block_programs import HEAD, OUTCOMES, blocks

import vkcompute


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("runtime", ["gpu", "like_a_gpu"])
def test_a_device_computes_what_the_interpreter_does(request: pytest.FixtureRequest, runtime: str, number: int) -> None:
    gpu = request.getfixturevalue(runtime)
    assert blocks(gpu, None, Random(f"suite {number}")) in OUTCOMES


def test_more_arrays_than_a_device_binds(gpu: vkcompute.Runtime, tmp_path: Path) -> None:
    names = [f"x{n}" for n in range(36)]
    lines = [f"    tl.store({name} + at, tl.load({name} + at) + {n})" for n, name in enumerate(names)]
    text = HEAD + f"@triton.jit\ndef many({', '.join(names)}):\n    at = tl.arange(0, 16)\n" + "\n".join(lines) + "\n"
    (tmp_path / "many.py").write_text(text)
    program = runpy.run_path(str(tmp_path / "many.py"))["many"]
    arrays = [gpu.zeros(16, np.float32) for _ in names]
    program[(1,)](*arrays)
    for n, array in enumerate(arrays):
        np.testing.assert_array_equal(array.numpy(), n)
