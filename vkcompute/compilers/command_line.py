"""Command-line tools: the compilers glslc and glslang (glslangValidator), and spirv-opt.

A compiler reads the text from standard input and writes SPIR-V to a file in a temporary folder: glslangValidator cannot
write a binary to standard output.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vkcompute import child_process
from vkcompute.child_process import Limits
from vkcompute.compilers import diagnostics
from vkcompute.compilers.compiler import CompileResult, fingerprint
from vkcompute.errors import CompileError

logger = logging.getLogger(__name__)

_TIME_LIMIT = "VKCOMPUTE_GLSLC_TIMEOUT_S"
_MAX_TIME_LIMIT_S = 1_000_000
_MAX_LOG_NBYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Glslc:
    """shaderc's command-line compiler."""

    path: str
    identity: str
    name = "glslc"

    def version(self) -> str:
        """E.g. "shaderc 2023.2, glslang 11.13.0"."""
        lines = run([self.path, "--version"])[1].splitlines()
        known = [line.strip() for line in lines if line.startswith(("shaderc ", "glslang "))]
        return ", ".join(known) or "unknown"

    def compile(self, text: str, target: str, optimize: bool) -> CompileResult:
        """Compiles for `target`, e.g. "vulkan1.2"."""
        level = "-O" if optimize else "-O0"
        return _compile([self.path, "-fshader-stage=comp", f"--target-env={target}", level, "-", "-o"], text)


@dataclass(frozen=True, slots=True)
class Glslang:
    """The reference compiler. It does not optimize; `spirv-opt` does so, where installed."""

    path: str
    identity: str
    name = "glslang"

    def version(self) -> str:
        """E.g. "glslang 11:12.0.0"."""
        match = re.search(r"Glslang Version: (\S+)", run([self.path, "--version"])[1])
        return f"glslang {match[1]}" if match else "unknown"

    def compile(self, text: str, target: str, optimize: bool) -> CompileResult:
        """Compiles for `target`, e.g. "vulkan1.2"."""
        command = [self.path, "--stdin", "-S", "comp", "-V", "--target-env", target]
        result = _compile([*command, "-o"], text)
        if result.spirv is None:
            return self._explained(command, text, result)
        return CompileResult(optimized(result.spirv, target), result.log) if optimize else result

    def _explained(self, command: list[str], text: str, first: CompileResult) -> CompileResult:
        """The same failure in more detail: -C continues after the first error, newer versions add columns.

        A version may lack an option, crash or hang with it. So the run with the most options that names an error wins.
        """
        for extra in (["-C", "--error-column"], ["-C"]):
            with contextlib.suppress(CompileError):
                again = _compile([*command, *extra, "-o"], text)
                if again.spirv is None and any(item.line for item in diagnostics.parse(again.log)):
                    return again
        return first


def optimized(spirv: bytes, target: str) -> bytes:
    """`spirv` after `spirv-opt -O`; unchanged if spirv-opt is not installed or fails."""
    tool = shutil.which("spirv-opt")
    if tool is None:
        logger.debug("spirv-opt is not installed: the SPIR-V stays as compiled")
        return spirv
    with tempfile.TemporaryDirectory(prefix="vkcompute-") as folder:
        before, after = Path(folder, "before.spv"), Path(folder, "after.spv")
        before.write_bytes(spirv)
        try:
            status, log = run([tool, "-O", f"--target-env={target}", str(before), "-o", str(after)])
        except CompileError as error:
            status, log = -1, str(error)
        if status == 0 and after.is_file():
            return after.read_bytes()
    logger.debug("spirv-opt failed: %s", log.strip())
    return spirv


def optimizer_identity() -> str:
    """Identifies the build of spirv-opt without running it; empty if it is not installed."""
    tool = shutil.which("spirv-opt")
    return fingerprint(tool) if tool is not None else ""


def run(command: Sequence[str], text: str = "") -> tuple[int, str]:
    """Exit status and whole output of a program with `text` as its standard input.

    Raises:
        CompileError: the program cannot be run, or exceeds the limit of time or output.
        ValueError: the time limit in the environment is invalid.
    """
    limits = Limits(_time_limit_s(), _MAX_LOG_NBYTES)
    try:
        done = child_process.run(command, limits, data=text.encode(), errors_in_output=True)
    except OSError as error:  # e.g. not the format of this machine's executables
        raise CompileError(f"{command[0]} cannot be run: {error.strerror}; use another compiler") from error
    if len(done.output) > _MAX_LOG_NBYTES:
        raise CompileError(
            f"{command[0]} wrote more than {_MAX_LOG_NBYTES >> 20} MiB of messages and was stopped; run it by hand, "
            "and correct what the first of them name"
        )
    if done.problem:
        raise CompileError(
            f"{command[0]} exceeded {limits.timeout_s:g} s and was stopped; {_TIME_LIMIT} sets the limit"
        )
    return done.status, done.output.decode("utf-8", "replace")


def _time_limit_s() -> float:
    text = os.environ.get(_TIME_LIMIT) or "300"
    try:
        limit_s = float(text)
    except ValueError:
        limit_s = 0
    if not 0 < limit_s <= _MAX_TIME_LIMIT_S:
        raise ValueError(f"{_TIME_LIMIT} is a number of seconds, above 0 and at most {_MAX_TIME_LIMIT_S}; got {text!r}")
    return limit_s


def _compile(command: list[str], text: str) -> CompileResult:
    """Runs `command` with the path of its output appended."""
    with tempfile.TemporaryDirectory(prefix="vkcompute-") as folder:
        output = Path(folder, "out.spv")
        status, log = run([*command, str(output)], text)
        if status == 0 and output.is_file():
            return CompileResult(output.read_bytes(), log)
    return CompileResult(None, log if status >= 0 else f"{log}\n{command[0]} {child_process.ending(status)}")
