"""Compiles and runs PyShader's shaders in tests: validates each module, and runs it on the driver under test."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute.compat.pyshader import ShaderModule, python2shader

VALIDATOR = shutil.which("spirv-val")


def validated(shader: Any) -> ShaderModule:
    """Compiles a shader; spirv-val accepts the module."""
    module = shader if isinstance(shader, ShaderModule) else python2shader(shader)
    if VALIDATOR:
        command = [VALIDATOR, "--target-env", "vulkan1.2", "-"]
        done = subprocess.run(command, input=module.to_spirv(), capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return module


def run(gpu: vc.Runtime, shader: Any, *arrays: np.ndarray[Any, Any], grid: Any) -> list[np.ndarray[Any, Any]]:
    """Runs a shader on a grid; returns the arrays as they are afterwards."""
    tensors = [gpu.array(array) for array in arrays]
    gpu.kernel(validated(shader).to_spirv())(*tensors, grid=grid)
    return [tensor.numpy() for tensor in tensors]
