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
        """The error message: the single line on stderr after `vkcompute: error: `. The exit status must be 2."""
        assert self.status == 2, self
        assert self.err.startswith("vkcompute: error: "), self
        assert self.err.endswith("\n"), self
        assert self.err.count("\n") == 1, self
        return self.err.removeprefix("vkcompute: error: ").rstrip("\n")
