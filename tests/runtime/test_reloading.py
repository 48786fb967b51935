"""Kernels that are compiled again when their file, or one that it includes, changes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import vkcompute as vc

SHADER = """
#include "factor.glsl"
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { float x[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < x.length()) x[i] = FACTOR * (x[i] + 1.0); }
"""


def change(path: Path, text: str) -> None:
    """Writes a file, with another time than it had, as an editor does."""
    after = path.stat().st_mtime_ns + 10**9 if path.exists() else None
    path.write_text(text)
    if after:
        os.utime(path, ns=(after, after))


def test_changes_of_the_file_and_of_its_include_are_seen(gpu: vc.Runtime, tmp_path: Path) -> None:
    path, factor = tmp_path / "k.comp", tmp_path / "factor.glsl"
    change(factor, "#define FACTOR 2.0")
    change(path, SHADER)
    kernel = gpu.kernel(path, reload=True)
    plain = gpu.kernel(path)
    x = gpu.zeros(5)
    kernel(x)
    assert x.numpy().tolist() == [2] * 5
    first = kernel.kernel
    assert first is kernel.kernel
    change(factor, "#define FACTOR 3.0")
    kernel(x)
    assert x.numpy().tolist() == [9] * 5
    change(path, SHADER.replace("1.0", "0.0"))
    kernel[1, 64](x)
    assert x.numpy().tolist() == [27] * 5
    plain(x)
    assert x.numpy().tolist() == [56] * 5
    assert kernel.local_size == (64, 1, 1)
    assert "k.comp" in repr(kernel)


def test_an_error_is_raised_until_it_is_corrected(gpu: vc.Runtime, tmp_path: Path) -> None:
    path = tmp_path / "k.comp"
    change(path, SHADER.replace('#include "factor.glsl"', "#define FACTOR 2.0"))
    kernel, x = gpu.kernel(str(path), reload=True), gpu.zeros(3)
    change(path, "void main() { wrong }")
    for _ in range(2):
        with pytest.raises(vc.CompileError, match=r"k\.comp"):
            kernel(x)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        kernel(x)
    change(path, SHADER.replace('#include "factor.glsl"', "#define FACTOR 4.0"))
    kernel(x).result()
    assert np.array_equal(x.numpy(), [4, 4, 4])


def test_only_files_are_reloaded(gpu: vc.Runtime) -> None:
    for source in ("multiply_float32", b"1234"):
        with pytest.raises(ValueError, match=r"reload=True is for a path to a \.comp or \.spv file"):
            gpu.kernel(source, reload=True)
