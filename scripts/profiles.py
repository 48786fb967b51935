"""Runs programs under each profile of a device, where all that is created and launched is checked against the profile.

The programs are the demo, the tutorials, a training step, Triton's tutorials, and functions of arrays of each dtype. A
result is kept, so that a command that was ended goes on. It is "right", what the profile refuses by name, or "failed".
"""

from __future__ import annotations

import argparse
import json
import linecache
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import drivers
from passed_tests import file_for

ROOT = drivers.ROOT
_LIMIT_S = 400
_REFUSED = "MissingFeature", "binds 4 at a time", "storage buffers;", "invocations;", "bindings of the device"
"""Parts of the errors for kernels whose own text asks for more than a device has."""


def programs() -> dict[str, list[str]]:
    """Returns name -> arguments of Python for each program."""
    made = {"functions of each dtype": ["tests/core/profiled_program.py"], "demo": ["-m", "vkcompute", "demo"]}
    made |= {f"tutorial {path.stem}": [__file__, "--page", str(path)] for path in sorted(_pages())}
    made["training step"] = ["examples/graphed_training.py", "3"]
    names = sorted((ROOT / "examples").glob("triton_*.py"))
    return made | {f"Triton {path.stem.removeprefix('triton_')}": [str(path)] for path in names}


def _pages() -> list[Path]:
    return [*(ROOT / "docs/tutorials").glob("*.md")]


def run_page(path: Path) -> None:
    """Runs the Python blocks of a page as one program."""
    pattern = r"```(?:python|\{code-cell\} ipython3(?:\n:tags: \[hide-input\])?)\n(.*?)```"
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(re.findall(pattern, path.read_text(encoding="utf-8"), re.DOTALL)):
        name = f"{path.name}[{number}]"
        linecache.cache[name] = len(block), None, block.splitlines(keepends=True), name
        exec(compile(block, name, "exec", dont_inherit=True), names)


def outcome(profile: str, arguments: list[str]) -> str:
    """Runs a program under a profile; returns "right", "refused: …" or "failed: …"."""
    environment = drivers.only(str(drivers.lavapipe())) | {
        "VKCOMPUTE_PROFILE": profile, "VKCOMPUTE_VALIDATION": "error", "VKCOMPUTE_DEVICE": "cpu",
        "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling the library's source takes half of a program's time
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", *[str(ROOT / a) if (ROOT / a).is_file() else a for a in arguments]]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"failed: not done in {_LIMIT_S} s"
    if not done.returncode:
        return "right"
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-12:]
    error = next((line for line in reversed(last) if "Error" in line or "Feature" in line), "".join(last[-1:]))
    return f"{'refused' if any(part in error for part in _REFUSED) else 'failed'}: {error.strip()[:300]}"


def main() -> int:
    """Runs the command."""
    from vkcompute.core.device_profile import names

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", help="names of profiles, with commas between")
    parser.add_argument("--page", type=Path, help="run the Python blocks of this page, and nothing else")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no program after this time")
    given = parser.parse_args()
    if given.page:
        run_page(given.page)
        return 0
    file, end = file_for("profiles", ROOT), time.monotonic() + 60 * given.minutes
    results: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    profiles = given.only.split(",") if given.only else names()
    for name, arguments in programs().items():
        for profile in profiles:
            key = f"{profile}: {name}"
            if key not in results and time.monotonic() < end:
                results[key] = outcome(profile, arguments)
                file.write_text(json.dumps(results, indent=1), encoding="utf-8")
                print(f"{key}: {results[key]}", flush=True)
    kinds = [result.partition(":")[0] for result in results.values()]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("right", "refused", "failed"))
    print(f"{len(results)} of {len(names()) * len(programs())} programs under profiles: {counts}")
    return int("failed" in kinds)


if __name__ == "__main__":
    sys.exit(main())
