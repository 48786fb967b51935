"""The outcome of a command."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """Exit status, and what was written to stdout and stderr."""

    status: int
    out: str
    err: str

    def error(self) -> str:
        """The error message: the single line on stderr after `vkcompute: error: `. The exit status must be 2."""
        assert self.status == 2, self
        assert self.err.endswith("\n"), self
        [line] = self.err.splitlines()
        assert line.startswith("vkcompute: error: "), self
        return line.removeprefix("vkcompute: error: ")


def without_waits(err: str) -> str:
    """What a command wrote to stderr, without the lines that say what takes long on a loaded machine."""
    return re.sub(r"^(vkcompute: warning: )?waiting for .*, for at most .* s\n", "", err, flags=re.MULTILINE)
