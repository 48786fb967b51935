"""glslc and glslang (glslangValidator) as programs.

The text goes in through standard input and the SPIR-V comes out through a file of a temporary folder: glslangValidator
cannot write a binary to standard output.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vkcompute.compilers import diagnostics

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a compiler made of a text: SPIR-V, or None and the log that says why."""

    spirv: bytes | None
    log: str


def fingerprint(path: str) -> str:
    """Tells one build of a tool from the next without running it: the real path, size and time of the file."""
    real = os.path.realpath(path)
    info = os.stat(real)
    return f"{real}:{info.st_size}:{info.st_mtime_ns}"


@dataclass(frozen=True, slots=True)
class Glslc:
    """The command line front of shaderc."""

    path: str
    identity: str
    name = "glslc"

    def version(self) -> str:
        """E.g. "shaderc 2023.2, glslang 11.13.0"."""
        lines = run([self.path, "--version"])[1].splitlines()
        known = [line.strip() for line in lines if line.startswith(("shaderc ", "glslang "))]
        return ", ".join(known) or "unknown"

    def compile(self, text: str, target: str, optimize: bool) -> Outcome:
        """SPIR-V for `target`, e.g. "vulkan1.2"."""
        level = "-O" if optimize else "-O0"
        return _compiled([self.path, "-fshader-stage=comp", f"--target-env={target}", level, "-", "-o"], text)


@dataclass(frozen=True, slots=True)
class Glslang:
    """The reference compiler, by either of its names. It does not optimize; `spirv-opt` does, where it is installed."""

    path: str
    identity: str
    name = "glslang"

    def version(self) -> str:
        """E.g. "glslang 11:12.0.0"."""
        match = re.search(r"Glslang Version: (\S+)", run([self.path, "--version"])[1])
        return f"glslang {match[1]}" if match else "unknown"

    def compile(self, text: str, target: str, optimize: bool) -> Outcome:
        """SPIR-V for `target`, e.g. "vulkan1.2"."""
        command = [self.path, "--stdin", "-S", "comp", "-V", "--target-env", target]
        outcome = _compiled([*command, "-o"], text)
        if outcome.spirv is None:
            return self._explained(command, text, outcome)
        return Outcome(optimized(outcome.spirv, target), outcome.log) if optimize else outcome

    def _explained(self, command: list[str], text: str, first: Outcome) -> Outcome:
        """The same failure in more words: -C goes on after the first error, newer versions give columns.

        The more a run was asked for, the likelier it knows no such option or crashes, so the fullest that names an
        error is taken.
        """
        for extra in (["-C", "--error-column"], ["-C"]):
            again = _compiled([*command, *extra, "-o"], text)
            if again.spirv is None and any(item.line for item in diagnostics.parse(again.log)):
                return again
        return first


def optimized(spirv: bytes, target: str) -> bytes:
    """`spirv` after `spirv-opt -O`, or as it is where that is not installed or fails."""
    tool = shutil.which("spirv-opt")
    if tool is None:
        logger.debug("spirv-opt is not installed: the SPIR-V stays as the compiler made it")
        return spirv
    with tempfile.TemporaryDirectory(prefix="vkcompute-") as folder:
        before, after = Path(folder, "before.spv"), Path(folder, "after.spv")
        before.write_bytes(spirv)
        status, log = run([tool, "-O", f"--target-env={target}", str(before), "-o", str(after)])
        if status == 0 and after.is_file():
            return after.read_bytes()
    logger.debug("spirv-opt failed: %s", log.strip())
    return spirv


def optimizer_identity() -> str:
    """Differs between builds of spirv-opt, known without running it; empty where it is not installed."""
    tool = shutil.which("spirv-opt")
    return fingerprint(tool) if tool is not None else ""


def run(command: Sequence[str], text: str = "") -> tuple[int, str]:
    """Exit status and everything written, of a program that gets `text` as its standard input."""
    done = subprocess.run(
        command,
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        creationflags=getattr(
            subprocess, "CREATE_NO_WINDOW", 0
        ),  # Windows: no console flashes up in a program with windows
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _compiled(command: list[str], text: str) -> Outcome:
    """Run `command` with a path for its output at the end."""
    with tempfile.TemporaryDirectory(prefix="vkcompute-") as folder:
        output = Path(folder, "out.spv")
        status, log = run([*command, str(output)], text)
        if status == 0 and output.is_file():
            return Outcome(output.read_bytes(), log)
    return Outcome(None, log if status >= 0 else f"{log}\n{command[0]} was ended by signal {-status}")
