"""hatchling's build hook: before a wheel or an sdist is made, the shaders that are not fresh are compiled."""

from __future__ import annotations

import subprocess
import sys
import zipfile
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

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called with what was built: a wheel is packed again as tightly as zlib can, to stay under 300 kB."""
        if not artifact_path.endswith(".whl") or version == "editable":
            return
        packed = Path(artifact_path).with_suffix(".packed")
        with zipfile.ZipFile(artifact_path) as loose, zipfile.ZipFile(packed, "w") as tight:
            for entry in loose.infolist():
                tight.writestr(entry, loose.read(entry), zipfile.ZIP_DEFLATED, compresslevel=9)
        packed.replace(artifact_path)
