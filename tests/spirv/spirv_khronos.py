"""The Khronos tools, which are an independent reading of the same modules: compile, validate, optimise, disassemble."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hang_limit import hang_limit_s

ENVIRONMENTS = ("vulkan1.0", "vulkan1.1", "vulkan1.3")


def tool(name: str, package: str) -> str:
    """The path of a Khronos tool; a test that needs it fails without it."""
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"{name} is missing; these tests compare with it: apt-get install {package}", pytrace=False)
    return path


@functools.cache
def compile_source(source: str, *options: str) -> bytes:
    """The SPIR-V of a GLSL compute shader; `options` go to glslangValidator."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "source.comp"), Path(folder, "output.spv")
        path.write_text(source)
        command = [tool("glslangValidator", "glslang-tools"), "-V", *options, "-o", str(output), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=hang_limit_s(), check=False)
        if done.returncode:
            pytest.fail(f"{' '.join(command)}:\n{done.stdout}{done.stderr}\n{source}", pytrace=False)
        return output.read_bytes()


def spirv_tool(name: str, data: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run spirv-val, spirv-dis or spirv-opt over `data`."""
    command = [tool(name, "spirv-tools"), *options, "-"]
    return subprocess.run(command, input=data, capture_output=True, timeout=hang_limit_s(), check=False)


def optimise(data: bytes, *passes: str) -> bytes:
    """`data` after these passes of spirv-opt, whose warnings go where its output would."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "output.spv")
        done = spirv_tool("spirv-opt", data, *passes, "-o", str(path))
        if done.returncode:
            pytest.fail(done.stderr.decode(errors="replace"), pytrace=False)
        return path.read_bytes()


def disassemble(data: bytes, *options: str) -> str:
    """SPIR-V assembly of `data`."""
    done = spirv_tool("spirv-dis", data, *options)
    if done.returncode:
        pytest.fail(done.stderr.decode(errors="replace"), pytrace=False)
    return done.stdout.decode()


def assemble(text: str, version: str = "spv1.3") -> bytes:
    """SPIR-V assembly as a module of this version."""
    done = subprocess.run(
        [tool("spirv-as", "spirv-tools"), "--preserve-numeric-ids", "--target-env", version, "-", "-o", "-"],
        input=text.encode(),
        capture_output=True,
        timeout=hang_limit_s(),
        check=False,
    )
    if done.returncode:
        pytest.fail(done.stderr.decode(), pytrace=False)
    return done.stdout
