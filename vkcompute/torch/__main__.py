"""Runs a program that says `cuda` on the device `vk`: python -m vkcompute.torch [-m] program [argument ...]."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

_USAGE = "usage: python -m vkcompute.torch [-m module | script.py] [argument ...]"


def main() -> None:
    """Runs the script or the module that the command line names.

    Raises:
        SystemExit: it names none.
    """
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    arguments = arguments[is_module:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"{__doc__.splitlines()[0]}\n{_USAGE}" if arguments else _USAGE, file=sys.stderr)
        raise SystemExit(0 if arguments else 2)
    import vkcompute.torch.as_cuda  # noqa: F401

    sys.argv = arguments
    if is_module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
