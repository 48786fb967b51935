"""Lets an environment with PyTorch import this checkout, and the packages of another environment: `.venv`."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Writes the folders to a .pth file of the environment that runs this."""
    other = Path(sys.argv[1]).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = [ROOT, *(other / "lib" / version).glob("site-packages"), *other.glob("Lib/site-packages")]
    target = Path(sysconfig.get_path("purelib")) / "vkcompute.pth"
    target.write_text("".join(f"{folder}\n" for folder in folders))


if __name__ == "__main__":
    main()
