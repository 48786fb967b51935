"""hatchling's build hook: the shaders are compiled before a wheel or an sdist is made, unless they are fresh already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShaderHook(BuildHookInterface[Any]):
    """Runs `build_shaders.py`, in a process of its own because it makes a bare package of the name vkcompute."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        script = str(Path(self.root) / "build_shaders.py")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.app.abort(f"the shaders of vkcompute could not be compiled: {done.stderr.strip()}")
