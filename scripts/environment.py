"""The project's own virtual environment, .venv: made once, installed into once for each change of pyproject.toml."""

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


def can_make() -> bool:
    """Whether this Python can make an environment with pip in it (Debian ships `ensurepip` in a package of its own)."""
    return _has("venv") and (_has("ensurepip") or _has("pip"))


def packages() -> tuple[str, ...]:
    """The Debian package that lets this very Python make environments."""
    return (f"python3.{sys.version_info.minor}-venv",)


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def ensure(extras: Iterable[str]) -> None:
    """Make .venv where there is none, and install vkcompute there, editable, with `extras`.

    Does nothing where the stamp says that it was done for this pyproject.toml and this Python.
    Raises SetupError with pip's output where a step fails.
    """
    wanted = set(extras)
    done = _stamped()
    if done is not None and wanted <= done and _works():
        return
    if not _works():
        _make()
    names = ",".join(sorted(wanted | (done or set())))
    say(f"installing vkcompute[{names}] into .venv")
    _pip("install", "--editable", f"{ROOT}[{names}]")
    STAMP.write_text(json.dumps({"key": _key(), "extras": names.split(",")}))


def _key() -> str:
    """Changes whenever what is installed might have to."""
    pyproject = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(pyproject + str(ROOT).encode()).hexdigest()


def _stamped() -> set[str] | None:
    """The extras that are installed for the present pyproject.toml, or None."""
    try:
        stamp = json.loads(STAMP.read_text())
        return set(stamp["extras"]) if stamp["key"] == _key() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _works() -> bool:
    """Whether .venv has a Python that runs and a pip; an interrupted or a moved one has not.

    Where the user named a Python by PYTHON=..., it has to be of that version.
    """
    wrong = f"!= {sys.version_info[:2]}" if os.environ.get("PYTHON") else "< (3, 10)"
    check = f"import sys, pip; sys.exit(sys.version_info[:2] {wrong})"
    return PYTHON.exists() and run_quietly([str(PYTHON), "-c", check]) is None


def _make() -> None:
    """Make .venv anew, from ensurepip or, where Debian has split that off, with the pip of this Python."""
    version = ".".join(map(str, sys.version_info[:3]))
    say(f"making .venv with Python {version} ({sys.executable})")
    shutil.rmtree(VENV, ignore_errors=True)
    without = [] if _has("ensurepip") else ["--without-pip"]
    output = run_quietly([sys.executable, "-m", "venv", *without, str(VENV)])
    if output is None and without:
        output = run_quietly([sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "-q", "pip"])
    if output is not None:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(f"making .venv with {sys.executable} failed:\n{output}")


def _pip(*words: str) -> None:
    """Run the environment's pip, quietly; its output is the error where it fails."""
    # PIP_USER=1 in a user's settings would make pip refuse to install into an environment.
    env = os.environ | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    output = run_quietly([str(PYTHON), "-m", "pip", "--no-input", *words], cwd=ROOT, env=env)
    if output is not None:
        raise SetupError(f"pip {' '.join(words)} failed:\n{output}")


def run(*words: str) -> None:
    """Run the environment's Python in the project's root, its output shown; raises SetupError where it fails."""
    if subprocess.run([str(PYTHON), *words], cwd=ROOT, check=False).returncode != 0:
        raise SetupError(f"python {' '.join(words)} failed; its output is above")
