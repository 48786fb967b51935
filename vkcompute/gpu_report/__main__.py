"""`python -m vkcompute.gpu_report`."""

from __future__ import annotations

import sys

from vkcompute.cli import stderr

if __name__ == "__main__":
    try:
        from vkcompute.gpu_report.command import main  # after the block has begun: Ctrl-C ends with one line

        status = main()
    except KeyboardInterrupt as error:
        status = stderr.report(error)
    sys.exit(status)
