"""Build the wheel and check it as a user would get it: pure Python, with shaders, small, reproducible, working.

Usage: check_wheel.py [--keep FOLDER], with the project environment's Python (it has `build` and `twine`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from report import SetupError, run_quietly, say

ROOT = Path(__file__).resolve().parent.parent
KERAS = "vkcompute_keras.pth"
"""Sets Keras' variables where VKCOMPUTE_KERAS asks for it."""
MAX_NBYTES = 2_500_000  # of the wheel, of about 850 modules: more means that something got in by accident


def build(target: Path) -> Path:
    """Build the sdist, and the wheel out of the sdist, into `target`; returns the wheel's path."""
    output = run_quietly([sys.executable, "-m", "build", "--outdir", str(target), str(ROOT)])
    if output is not None:
        raise SetupError(f"the build failed:\n{output}")
    return next(target.glob("*.whl"))


def check_reproducible(folder: Path, again: Path) -> None:
    """Build once more into `again`, and compare the files. Raises SetupError if one differs."""
    build(again)
    for path in sorted(folder.iterdir()):
        if path.read_bytes() != (again / path.name).read_bytes():
            raise SetupError(f"{path.name} differs between two builds of the same files")
    say("a second build gives the same bytes")


def check_metadata(folder: Path) -> None:
    """Check the metadata, and that PyPI can show the long description."""
    output = run_quietly([sys.executable, "-m", "twine", "check", "--strict", *map(str, folder.iterdir())])
    if output is not None:
        raise SetupError(f"twine finds faults:\n{output}")


def faults(wheel: Path) -> list[str]:
    """The rules that the wheel, as a file, breaks."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    nbytes = wheel.stat().st_size
    shaders = [name for name in names if name.startswith("vkcompute/_spv/") and name.endswith(".spv")]
    strangers = {name.split("/")[0] for name in names if not name.startswith(("vkcompute/", "vkcompute-", KERAS))}
    checks = {
        f"its name says it is not pure Python: {wheel.name}": not wheel.name.endswith("-py3-none-any.whl"),
        f"it has {nbytes} bytes; the limit is {MAX_NBYTES}": nbytes > MAX_NBYTES,
        "it has no vkcompute/_spv/*.spv; run build_shaders.py before": not shaders,
        f"it installs more than vkcompute: {sorted(strangers)}": bool(strangers),
        "it has no py.typed": "vkcompute/py.typed" not in names,
    }
    if not any(checks.values()):
        say(f"{wheel.name}: {nbytes} bytes, {len(names)} files, {len(shaders)} of them shaders")
    return [fault for fault, result in checks.items() if result]


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
    run_demo(folder, python)


def run_demo(folder: Path, python: str) -> None:
    """Run the demo of the installed wheel, with no compiler on the PATH."""
    env = os.environ | {"PATH": str(Path(python).parent), "VKCOMPUTE_CACHE_DIR": str(folder / "cache")}
    command = [python, "-I", "-m", "vkcompute", "demo"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode or "equal to NumPy" not in done.stdout:
        raise SetupError(f"the demo of the installed wheel fails:\n{done.stdout}{done.stderr}")
    say("python -m vkcompute demo works without a compiler: " + " ".join(done.stdout.split()[-12:]))
    run_report(folder, python, env)


def run_report(folder: Path, python: str, env: dict[str, str]) -> None:
    """Make a short report of the first device with the installed wheel."""
    command = [python, "-I", "-m", "vkcompute.gpu_report", "--only", "shaders", "--out", "report.json"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode or "right" not in done.stdout:
        raise SetupError(f"the installed wheel makes no report of a GPU:\n{done.stdout}{done.stderr}")
    say(
        f"python -m vkcompute.gpu_report works: {next(line for line in done.stdout.splitlines() if 'shaders:' in line)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="folder for the wheel and the sdist, if they are sound")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            wheel = build(folder / "dist")
            result = faults(wheel)
            if result:
                raise SetupError("the wheel is faulty: " + "; ".join(result))
            check_metadata(wheel.parent)
            check_reproducible(wheel.parent, folder / "again")
            install(wheel, folder / "venv")
            if options.keep:
                shutil.copytree(wheel.parent, options.keep, dirs_exist_ok=True)
        except SetupError as error:
            print(f"wheel: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
