"""Makes an environment with PyTorch that imports this checkout, and the packages of `.venv`.

Usage: torch_environment.py PACKAGE ...

The packages are installed without what they depend on: a PyTorch that asks for CUDA's libraries does not get them, so
name a build for the CPU. The environment is build/torch/venv. Exits with an error if PyTorch cannot be imported there.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/torch/venv"
PYTHON = FOLDER / "bin/python"


def main() -> int:
    """Makes the environment, or completes it."""
    venv.create(FOLDER, with_pip=True, symlinks=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", *sys.argv[1:]], check=True)
    packages = next(FOLDER.glob("lib/python*/site-packages"))
    theirs = ROOT / ".venv" / packages.relative_to(FOLDER)
    (packages / "vkcompute.pth").write_text(f"{ROOT}\nimport site; site.addsitedir({str(theirs)!r})\n")
    return subprocess.run([PYTHON, "-c", "import torch; print('PyTorch', torch.__version__)"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
