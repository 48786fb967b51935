"""`python -m vkcompute.gpu_report`."""

from __future__ import annotations

import sys

from vkcompute.gpu_report.command import main

if __name__ == "__main__":
    sys.exit(main())
