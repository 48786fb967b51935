"""The driver of tests/many_queues/driver.c: lavapipe as a GPU of many queues, for the tests of the scheduler."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import drivers

SOURCE = drivers.ROOT / "tests/many_queues/driver.c"
OPTIONS = "-std=gnu11 -O1 -shared -fPIC -fvisibility=hidden -pthread".split()


def build(inner: Path | None) -> dict[str, str] | str:
    """Compile it into .drivers/; returns an environment that has it alone, around `inner`, or why there is none."""
    compiler, binding = shutil.which("cc"), find_spec("vulkan")
    if inner is None:
        return "it takes lavapipe"
    if compiler is None or binding is None or binding.origin is None:
        return f"it takes {'a C compiler (cc)' if compiler is None else 'the package vulkan'}"
    drivers.DRIVERS.mkdir(exist_ok=True)
    library, manifest = drivers.DRIVERS / "libmany_queues.so", drivers.DRIVERS / "many_queues_icd.json"
    command = [compiler, *OPTIONS, "-I", str(Path(binding.origin).parent), str(SOURCE), "-o", str(library), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"it does not compile here: {' '.join(done.stderr.split())[-300:]}"
    icd = {"library_path": str(library), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}), encoding="utf-8")
    within = json.loads(inner.read_text(encoding="utf-8"))["ICD"]["library_path"]
    return drivers.only(str(manifest)) | {"MANY_QUEUES_DRIVER": within}
