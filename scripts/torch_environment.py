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
    packages = [*(other / "lib" / version).glob("site-packages"), *other.glob("Lib/site-packages")]
    lines = [str(ROOT), *(f"import site; site.addsitedir({str(folder)!r})" for folder in packages)]
    target = Path(sysconfig.get_path("purelib")) / "vkcompute.pth"
    target.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
