"""How a command ended, as the tests look at it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """Exit status, and what was written to stdout and stderr."""

    status: int
    out: str
    err: str

    def error(self) -> str:
        """What the one line on stderr says after `vkcompute: error: `; the command must have refused its input."""
        assert self.status == 2, self
        assert self.err.startswith("vkcompute: error: "), self
        assert self.err.endswith("\n"), self
        assert self.err.count("\n") == 1, self
        return self.err.removeprefix("vkcompute: error: ").rstrip("\n")
