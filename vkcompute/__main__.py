"""The command `vkcompute` as `python -m vkcompute`."""

from __future__ import annotations

import sys

from vkcompute.cli import main

if __name__ == "__main__":
    sys.exit(main())
