"""Output and errors of the scripts."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class SetupError(Exception):
    """A step of the setup failed; the message has the remedy."""


def say(text: str) -> None:
    """Print a line, and flush it."""
    print(f"[setup] {text}", flush=True)


def run_quietly(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str | None:
    """Run `command` without showing its output.

    Returns None on success, else the output (stdout and stderr in order).
    """
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        return None
    return done.stdout.decode(errors="replace").rstrip() or f"{command[0]} ended with status {done.returncode}"
