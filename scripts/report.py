"""How the scripts talk: one line for each thing done, and one error that ends the run with its remedy."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class SetupError(Exception):
    """A step of the setup failed; the message says what to do about it."""


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    print(f"[setup] {text}", flush=True)


def run_quietly(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str | None:
    """Run `command` with its output held back.

    Returns None when it succeeded, else the whole output (stdout and stderr as they were mixed), to be shown.
    """
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        return None
    return done.stdout.decode(errors="replace").rstrip() or f"{command[0]} ended with status {done.returncode}"
