"""The file of a report: JSON, replaced as a whole after each item, so that it is complete whenever the process dies.

A report is a dict:

    format        FORMAT
    date          of the start, in UTC
    state         "running" (also of a killed process), "stopped" (by Ctrl-C), "cut" (by the time, with parts that are
                  waiting or cut), "no device" (its driver crashed or hung) or "finished"
    seconds       from the start to the last change
    vkcompute     its version
    machine       system, processor, versions of Python and packages; no name of a user or a host
    device        name, kind and driver, once they are known; is_software is True for drivers that run on the CPU
    parts         a dict per part, in order

A part has a name, a title, a state (`structure.PART_STATES`), seconds, `items`, and `left`: the names of items that
have not run. An item has a name, an outcome (`structure.OUTCOMES`), seconds, a `text` for failures, and `figures` for
measurements.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from vkcompute import disk
from vkcompute._version import __version__
from vkcompute.errors import DataError
from vkcompute.gpu_report.anonymizer import Anonymizer
from vkcompute.gpu_report.parts import Part
from vkcompute.gpu_report.structure import require_structure

FORMAT = 1
_PACKAGES = "numpy", "vulkan", "cffi", "torch", "triton"


class Report:
    """A report that is written while it is made.

    Attributes:
        data: the dict, as in the file.
    """

    def __init__(self, path: Path, parts: Sequence[Part]) -> None:
        self.path, self._started, self._anonymous = path, time.monotonic(), Anonymizer()
        self.data: dict[str, Any] = {
            "format": FORMAT,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
            "state": "running",
            "seconds": 0.0,
            "vkcompute": __version__,
            "machine": machine(),
            "device": {},
            "parts": [
                {
                    "name": part.name,
                    "title": part.title,
                    "state": "waiting",
                    "seconds": 0.0,
                    "items": [],
                    "left": [],
                }
                for part in parts
            ],
        }

    def create(self) -> None:
        """Creates the file, which is complete at once: a process that is killed leaves a report without items.

        Raises:
            FileExistsError: it exists.
            OSError: it cannot be created, or the disk is full.
        """
        with open(self.path, "xb") as file:
            try:
                file.write(self._content())
                file.flush()
            except BaseException:
                self.path.unlink(missing_ok=True)
                raise

    def list_items(self, parts: Sequence[Part]) -> None:
        """Writes the names of all items, for which the modules of the parts are imported: that takes a second."""
        for part in parts:
            self.part(part.name)["left"] = part.item_names()
        self.save()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def part(self, name: str) -> dict[str, Any]:
        """Returns the dict of a part."""
        return next(part for part in self.data["parts"] if part["name"] == name)

    def save(self) -> None:
        """Writes the file, without paths and names of this machine.

        Raises:
            OSError: the folder cannot be written, or the disk is full.
        """
        self.data["seconds"] = round(self.seconds, 1)
        disk.write_atomic(self.path, self._content())

    def _content(self) -> bytes:
        return text(self._anonymous(self.data)).encode()


def text(data: dict[str, Any]) -> str:
    """Returns a report as JSON with a line per item, and per part without its items."""
    parts = []
    for part in data["parts"]:
        items = ",\n".join(f"    {json.dumps(item)}" for item in part["items"])
        others = json.dumps({name: value for name, value in part.items() if name != "items"})
        parts.append(f'  {others[:-1]}, "items": [{f"{chr(10)}{items}{chr(10)}  " * bool(items)}]}}')
    head = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in data.items() if name != "parts")
    return f'{{\n{head} "parts": [\n' + ",\n".join(parts) + "\n ]\n}\n"


def read(path: Path) -> dict[str, Any]:
    """Reads a report.

    Raises:
        DataError: the file is none, or of another format.
        OSError: it cannot be read.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict) and data.get("format") != FORMAT:
            raise DataError(f"{path} has the format {data.get('format')!a:.60}; this version reads {FORMAT}")
        require_structure(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no report of a GPU: {error}") from error
    return dict(data)


def machine() -> dict[str, Any]:
    """Describes this machine without names of its own: no user, host, folder or serial number."""
    release = re.match(r"[\d.]*", platform.release())  # a kernel of one's own may have a name
    return {
        "system": f"{platform.system()} {release[0] if release else ''}".strip(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: number for name in _PACKAGES if (number := _version(name))},
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    return model[1] if model else platform.processor()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
