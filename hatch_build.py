"""hatchling's build hook: compiles stale shaders before it collects the files of a wheel or an sdist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShaderHook(BuildHookInterface[Any]):
    """Runs `build_shaders.py` in a process of its own, since that installs a bare package under the name vkcompute."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the shaders; `version` is "editable" for an editable install.

        A failure aborts the build. An editable install only warns: a compiler may be installed later.
        """
        script = str(Path(self.root) / "build_shaders.py")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        failure = f"the shaders of vkcompute could not be compiled: {done.stderr.strip()}"
        if version == "editable":
            self.app.display_warning(f"{failure}\nThen run: python build_shaders.py")
        else:
            self.app.abort(failure)
