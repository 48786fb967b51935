"""spirv-val on the modules that no device compiled: for those that one does, the validation layer runs it itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest

_VALIDATOR = shutil.which("spirv-val")
_waiting: dict[bytes, str] = {}  # modules that no device has compiled -> the tests that made them
_layered: set[int] = set()  # hashes of those that one has


def expect(spirv: bytes) -> None:
    """Has `objections` validate a module, unless a device compiles it before."""
    if hash(spirv) not in _layered:
        _waiting.setdefault(spirv, os.environ.get("PYTEST_CURRENT_TEST", "another process"))


def watch_devices(patch: pytest.MonkeyPatch) -> None:
    """Notes what devices compile, where the validation layer is on."""
    if os.environ.get("VKCOMPUTE_VALIDATION") != "error":
        return
    from vkcompute.runtime.launching import compiled_program

    rewritten = compiled_program.rewritten

    def noted(program: Any, *args: Any) -> bytes:
        _layered.add(hash(program.spirv))
        _waiting.pop(program.spirv, None)
        return rewritten(program, *args)

    patch.setattr(compiled_program, "rewritten", noted)


def objections() -> list[str]:
    """What spirv-val has against the waiting modules; nothing where it is missing, or older than a capability."""
    said = [f"{made}: {_objection(spirv)}" for spirv, made in _waiting.items()] if _VALIDATOR else []
    _waiting.clear()
    return [line for line in said if not line.endswith(": ")]


def _objection(spirv: bytes) -> str:
    command = [str(_VALIDATOR), "--target-env", "vulkan1.2", "-"]
    done = subprocess.run(command, input=spirv, capture_output=True, check=False)
    said = done.stdout.decode() + done.stderr.decode()
    return "" if done.returncode == 0 or "Invalid capability operand" in said else said
