"""hatchling's build hook: before a wheel or an sdist is made, the shaders that are not fresh are compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShaderHook(BuildHookInterface[Any]):
    """Runs `build_shaders.py`, in a process of its own because that puts a bare package under the name vkcompute."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files; `version` is "editable" for an editable install."""
        script = str(Path(self.root) / "build_shaders.py")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        failure = f"the shaders of vkcompute could not be compiled: {done.stderr.strip()}"
        if version == "editable":  # whoever works on the sources may install a compiler later
            self.app.display_warning(f"{failure}\nThen run: python build_shaders.py")
        else:
            self.app.abort(failure)
