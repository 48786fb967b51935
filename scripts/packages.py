"""System packages through apt, as root or with sudo; without these, the command for an administrator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from report import SetupError, run_quietly, say

# Waits for the lock (seconds): new machines often run an upgrade at first boot.
APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0")
ATTEMPTS = 2


def admin_prefix() -> list[str] | None:
    """The prefix of commands that need an administrator.

    Empty for root; sudo, if it works without a password or can ask for one in a terminal; else None.
    """
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    if subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0:
        return [sudo, "-n"]
    return [sudo] if sys.stdin.isatty() else None


def has_apt() -> bool:
    """True on Debian, Ubuntu and similar systems."""
    return shutil.which("apt-get") is not None


def command_for(names: Sequence[str]) -> str:
    """The command for an administrator to install `names`."""
    return f"sudo apt-get update && sudo apt-get install -y {' '.join(names)}"


def _apt(prefix: Sequence[str], *words: str) -> str | None:
    """Run apt-get. Returns None on success, else its output."""
    return run_quietly([*prefix, "env", "DEBIAN_FRONTEND=noninteractive", *APT, *words])


def refresh() -> bool:
    """Update the package lists. Returns False if this user may not, or no mirror answers."""
    prefix = admin_prefix()
    return prefix is not None and _apt(prefix, "update") is None


def install(names: Sequence[str]) -> None:
    """Install the packages `names`, with a second attempt.

    Raises SetupError: with a remedy if apt or administrator rights are missing, with apt's output if apt fails.
    """
    if not has_apt():
        raise SetupError(
            f"missing, and there is no apt-get to install them: {', '.join(names)} (Debian's names);"
            " install your system's packages (see README.md), then run this again"
        )
    prefix = admin_prefix()
    if prefix is None:
        raise SetupError(
            "system packages are missing, and this user is neither root nor may use sudo."
            f" Ask an administrator to run the following command, then run this again:\n    {command_for(names)}"
        )
    say(f"installing {' '.join(names)} with {' '.join([*prefix, 'apt-get'])}")
    for attempt in range(ATTEMPTS):
        # `update` fails for a broken third-party list, although Debian's packages can still be installed.
        stale = _apt(prefix, "update")
        output = _apt(prefix, "install", "-y", "--no-install-recommends", *names)
        if output is None:
            return
        if attempt + 1 < ATTEMPTS:
            say("apt-get failed; trying again")
    raise SetupError(f"apt-get could not install {' '.join(names)}:\n" + "\n".join(filter(None, (stale, output))))
