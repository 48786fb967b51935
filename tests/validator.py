"""spirv-val on modules that the library makes."""

from __future__ import annotations

import functools
import shutil
import subprocess

_VALIDATOR = shutil.which("spirv-val")


@functools.cache
def objection(spirv: bytes) -> str:
    """What spirv-val has against a module; nothing where it is not installed, or older than a capability of it."""
    if _VALIDATOR is None:
        return ""
    command = [_VALIDATOR, "--target-env", "vulkan1.2", "-"]
    done = subprocess.run(command, input=spirv, capture_output=True, check=False)
    said = done.stdout.decode() + done.stderr.decode()
    return "" if done.returncode == 0 or "Invalid capability operand" in said else said
