"""The virtual environment .venv: created once, updated after changes of pyproject.toml."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from report import SetupError, run_quietly, say

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "vkcompute-installed.json"


def can_create() -> bool:
    """True if this Python can create an environment with pip (Debian packages `ensurepip` separately)."""
    return _has("venv") and (_has("ensurepip") or _has("pip"))


def packages() -> tuple[str, ...]:
    """The Debian package that enables this Python to create environments."""
    return (f"python3.{sys.version_info.minor}-venv",)


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def ensure(extras: Iterable[str]) -> None:
    """Create .venv if it is missing, and install vkcompute there, editable, with `extras`.

    Does nothing if the stamp is that of this pyproject.toml, with all extras.
    Raises SetupError with pip's output if a step fails.
    """
    wanted = set(extras)
    done = _stamped()
    if done is not None and wanted <= done and _works():
        return
    if not _works():
        _create()
    names = ",".join(sorted(wanted | (done or set())))
    say(f"installing vkcompute[{names}] into .venv")
    _pip("install", "--editable", f"{ROOT}[{names}]")
    STAMP.write_text(json.dumps({"key": _key(), "extras": names.split(",")}))


def _key() -> str:
    """A hash that changes if a new installation may be needed."""
    pyproject = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(pyproject + str(ROOT).encode()).hexdigest()


def _stamped() -> set[str] | None:
    """The extras installed for this pyproject.toml, or None."""
    try:
        stamp = json.loads(STAMP.read_text())
        return set(stamp["extras"]) if stamp["key"] == _key() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _works() -> bool:
    """True if .venv has a working Python and pip, which an incomplete or moved environment has not.

    With PYTHON=..., its version must be that Python's.
    """
    wrong = f"!= {sys.version_info[:2]}" if os.environ.get("PYTHON") else "< (3, 10)"
    check = f"import sys, pip; sys.exit(sys.version_info[:2] {wrong})"
    return PYTHON.exists() and run_quietly([str(PYTHON), "-c", check]) is None


def _create() -> None:
    """Create .venv anew, by ensurepip, or by this Python's pip if ensurepip is missing."""
    version = ".".join(map(str, sys.version_info[:3]))
    say(f"creating .venv with Python {version} ({sys.executable})")
    shutil.rmtree(VENV, ignore_errors=True)
    without = [] if _has("ensurepip") else ["--without-pip"]
    output = run_quietly([sys.executable, "-m", "venv", *without, str(VENV)])
    if output is None and without:
        output = run_quietly([sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "-q", "pip"])
    if output is not None:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(f"creating .venv with {sys.executable} failed:\n{output}")


def _pip(*words: str) -> None:
    """Run the environment's pip without output. Raises SetupError with its output if it fails."""
    # With PIP_USER=1 in a user's settings, pip would not install into an environment.
    env = os.environ | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    output = run_quietly([str(PYTHON), "-m", "pip", "--no-input", *words], cwd=ROOT, env=env)
    if output is not None:
        raise SetupError(f"pip {' '.join(words)} failed:\n{output}")


def run(*words: str) -> None:
    """Run the environment's Python in the project's root, with its output. Raises SetupError if it fails."""
    if subprocess.run([str(PYTHON), *words], cwd=ROOT, check=False).returncode != 0:
        raise SetupError(f"python {' '.join(words)} failed; its output is above")
