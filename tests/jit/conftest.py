"""Every module that these tests compile is verified before it is lowered, and validated after."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from vkcompute import ir


@pytest.fixture(autouse=True)
def _checked_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    lower, validator = ir.lower, shutil.which("spirv-val")

    def checked(function: ir.Function) -> bytes:
        ir.verify(function)
        spirv = lower(function)
        if validator:
            command = [validator, "--target-env", "vulkan1.2", "-"]
            done = subprocess.run(command, input=spirv, capture_output=True, check=False)
            assert done.returncode == 0, done.stdout.decode() + done.stderr.decode() + str(function)
        return spirv

    monkeypatch.setattr(ir, "lower", checked)
