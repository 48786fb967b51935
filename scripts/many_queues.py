"""The driver of tests/many_queues/driver.c, which emulates a GPU with many queues on lavapipe.

Run as a program, it runs another program on that driver:

    many_queues.py --pace 1000,2000 python benchmarks/run.py --only overlap --peers none
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import drivers

SOURCE = drivers.ROOT / "tests/many_queues/driver.c"
OPTIONS = "-std=gnu11 -O1 -shared -fPIC -fvisibility=hidden -pthread".split()


def build(inner: Path | None) -> dict[str, str] | str:
    """Compile the driver, around the one with the manifest `inner`, into .drivers/.

    Returns an environment with it as the only driver, or the reason for a failure.
    """
    compiler, binding = shutil.which("cc"), find_spec("vulkan")
    if inner is None:
        return "it needs lavapipe"
    if compiler is None or binding is None or binding.origin is None:
        return f"it needs {'a C compiler (cc)' if compiler is None else 'the package vulkan'}"
    drivers.DRIVERS.mkdir(exist_ok=True)
    library, manifest = drivers.DRIVERS / "libmany_queues.so", drivers.DRIVERS / "many_queues_icd.json"
    command = [compiler, *OPTIONS, "-I", str(Path(binding.origin).parent), str(SOURCE), "-o", str(library), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"it does not compile: {' '.join(done.stderr.split())[-300:]}"
    icd = {"library_path": str(library), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}), encoding="utf-8")
    wrapped = json.loads(inner.read_text(encoding="utf-8"))["ICD"]["library_path"]
    return drivers.only(str(manifest)) | {"MANY_QUEUES_DRIVER": wrapped}


def _pace(text: str) -> str:
    try:
        copy, group = map(float, text.split(","))
        if 0 <= copy < math.inf and 0 <= group < math.inf:
            return f"{copy},{group}"
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not two numbers of at least 0, separated by a comma")


def main() -> int:
    """Run a command on the driver. Returns 2 if the driver or the command is missing."""
    parser = argparse.ArgumentParser(description="Run a command on an emulated GPU with many queues.")
    rule = "emulate concurrent engines with this speed: ns per KiB copied, and per workgroup"
    parser.add_argument("--pace", type=_pace, metavar="NS_PER_KIB,NS_PER_GROUP", help=rule)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a program and its arguments")
    options = parser.parse_args()
    made = build(drivers.lavapipe())
    if isinstance(made, str) or not options.command:
        print(f"many_queues.py: {made if isinstance(made, str) else 'a command is needed'}", file=sys.stderr)
        return 2
    if shutil.which(options.command[0]) is None:
        print(f"many_queues.py: no such program: {options.command[0]}", file=sys.stderr)
        return 2
    pace = {"MANY_QUEUES_PACE": options.pace} if options.pace else {}
    return subprocess.run(options.command, env=made | pace, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
