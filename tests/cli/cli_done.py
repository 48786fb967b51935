"""The outcome of a command."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """Exit status, and what was written to stdout and stderr."""

    status: int
    out: str
    err: str

    def error(self) -> str:
        """The error message: the single line on stderr after `vkcompute: error: `. The exit status must be 2.

        On a loaded machine, a line before it may say what takes long.
        """
        assert self.status == 2, self
        assert self.err.endswith("\n"), self
        waits = "waiting for the list of devices, for at most "
        [line] = [line for line in self.err.splitlines() if not line.startswith(waits)]
        assert line.startswith("vkcompute: error: "), self
        return line.removeprefix("vkcompute: error: ")
