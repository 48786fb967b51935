"""hatchling's hooks: shaders that are not fresh are compiled before a wheel or an sdist is made; the description."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

try:
    from zopfli import zlib as zopfli
except ImportError:
    zopfli = None


_LEFT_OUT = "## Two commands", "## Containers", "## What else", "## Settings", "## Limits", "## Working"


class DescriptionHook(MetadataHookInterface):
    """The package's description: of the README what it is, how it is installed, and a first program."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling for what pyproject.toml calls dynamic."""
        sections = re.split("^(?=## )", (Path(self.root) / "README.md").read_text("utf-8"), flags=re.MULTILINE)
        text = "".join(section for section in sections if not section.startswith(_LEFT_OUT))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


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
        """Called with what was built: a wheel is packed again as tightly as deflate can, to stay under 300 kB."""
        if not artifact_path.endswith(".whl") or version == "editable":
            return
        packed = Path(artifact_path).with_suffix(".packed")
        with zipfile.ZipFile(artifact_path) as loose, open(packed, "w+b") as file, zipfile.ZipFile(file, "w") as tight:
            for entry in loose.infolist():
                _add_deflated(tight, file, entry, loose.read(entry))
        packed.replace(artifact_path)


def _add_deflated(archive: zipfile.ZipFile, file: BinaryIO, entry: zipfile.ZipInfo, data: bytes) -> None:
    """Add `data` to `archive`, which is written to `file`, under the name and with the attributes of `entry`.

    zipfile takes no stream that is deflated already: it goes in as if stored, and the header then says what it is.
    """
    archive.writestr(entry, _deflated(data), zipfile.ZIP_STORED)
    entry.compress_type, entry.CRC, entry.file_size = zipfile.ZIP_DEFLATED, zlib.crc32(data), len(data)
    file.seek(entry.header_offset)
    file.write(entry.FileHeader())
    file.seek(0, io.SEEK_END)


def _deflated(data: bytes) -> bytes:
    """A raw deflate stream: zopfli's, 3 % smaller than the best of zlib, where that is installed."""
    container = zlib.compress(data, 9) if zopfli is None else zopfli.compress(data, numiterations=50)
    return container[2:-4]  # without zlib's header and checksum
