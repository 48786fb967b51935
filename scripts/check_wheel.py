"""Build the wheel and check it as a user would get it: pure Python, with shaders, small, importable.

Usage: check_wheel.py, with the project environment's Python (it has `build`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from report import SetupError, run_quietly, say

ROOT = Path(__file__).resolve().parent.parent
MAX_NBYTES = 2_000_000  # of the wheel: more means that something got in by accident


def build(target: Path) -> Path:
    """Build the sdist, and the wheel out of the sdist, into `target`; returns the wheel's path."""
    output = run_quietly([sys.executable, "-m", "build", "--outdir", str(target), str(ROOT)])
    if output is not None:
        raise SetupError(f"the build failed:\n{output}")
    return next(target.glob("*.whl"))


def faults(wheel: Path) -> list[str]:
    """The rules that the wheel, as a file, breaks."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    nbytes = wheel.stat().st_size
    shaders = [name for name in names if name.startswith("vkcompute/_spv/") and name.endswith(".spv")]
    strangers = {name.split("/")[0] for name in names if not name.startswith(("vkcompute/", "vkcompute-"))}
    checks = {
        f"its name says it is not pure Python: {wheel.name}": not wheel.name.endswith("-py3-none-any.whl"),
        f"it has {nbytes} bytes; the limit is {MAX_NBYTES}": nbytes > MAX_NBYTES,
        "it has no vkcompute/_spv/*.spv; run build_shaders.py before": not shaders,
        f"it installs more than vkcompute: {sorted(strangers)}": bool(strangers),
        "it has no py.typed": "vkcompute/py.typed" not in names,
    }
    if not any(checks.values()):
        say(f"{wheel.name}: {nbytes} bytes, {len(names)} files, {len(shaders)} of them shaders")
    return [fault for fault, found in checks.items() if found]


def install(wheel: Path, folder: Path) -> None:
    """Install the wheel into a fresh environment in `folder`, and import it outside of the project."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    output = run_quietly([python, "-m", "pip", "install", "--quiet", str(wheel)])
    if output is not None:
        raise SetupError(f"the wheel does not install:\n{output}")
    # -I ignores PYTHONPATH and the current folder, so that the import finds the installed package.
    command = [python, "-I", "-c", "import vkcompute; print(vkcompute.__version__)"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(f"the installed wheel does not import:\n{done.stderr}")
    say(f"installed into a fresh environment, import vkcompute: version {done.stdout.strip()}")


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            wheel = build(folder / "dist")
            found = faults(wheel)
            if found:
                raise SetupError("the wheel is faulty: " + "; ".join(found))
            install(wheel, folder / "venv")
        except SetupError as error:
            print(f"wheel: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
