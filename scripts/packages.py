"""System packages through apt: as root, through sudo, or not at all but with the exact command to pass on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from report import SetupError, run_quietly, say

# A fresh machine often runs its own upgrade at first boot: wait for its lock (seconds) before giving up.
APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0")
ATTEMPTS = 2


def admin_prefix() -> list[str] | None:
    """The words to put before a command that needs an administrator.

    Nothing for root, sudo where it works without asking or can ask in a terminal, None where neither is so.
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
    """Whether this is a Debian, Ubuntu or the like."""
    return shutil.which("apt-get") is not None


def command_for(names: Sequence[str]) -> str:
    """The command an administrator would type to install `names`."""
    return f"sudo apt-get update && sudo apt-get install -y {' '.join(names)}"


def _apt(prefix: Sequence[str], *words: str) -> str | None:
    """Run apt-get; returns None when it succeeded, else its output."""
    return run_quietly([*prefix, "env", "DEBIAN_FRONTEND=noninteractive", *APT, *words])


def refresh() -> bool:
    """Fetch the package lists anew; False where this user may not or no mirror answers."""
    prefix = admin_prefix()
    return prefix is not None and _apt(prefix, "update") is None


def install(names: Sequence[str]) -> None:
    """Install the packages `names`, trying twice.

    Raises SetupError with the remedy where there is no apt or no administrator, with apt's output where apt fails.
    """
    if not has_apt():
        raise SetupError(
            f"these are missing, and there is no apt-get here: {', '.join(names)} (Debian's names);"
            " install your system's packages for them (README.md lists some), then run this again"
        )
    prefix = admin_prefix()
    if prefix is None:
        raise SetupError(
            "system packages are missing, and this user is neither root nor may use sudo here."
            f" Have an administrator run this once, then run this again:\n    {command_for(names)}"
        )
    say(f"installing {' '.join(names)} with {' '.join([*prefix, 'apt-get'])}")
    for attempt in range(ATTEMPTS):
        # A broken third-party list fails `update` although Debian's own packages can still be installed: go on.
        stale = _apt(prefix, "update")
        output = _apt(prefix, "install", "-y", "--no-install-recommends", *names)
        if output is None:
            return
        if attempt + 1 < ATTEMPTS:
            say("apt-get failed; trying once more")
    raise SetupError(f"apt-get could not install {' '.join(names)}:\n" + "\n".join(filter(None, (stale, output))))
