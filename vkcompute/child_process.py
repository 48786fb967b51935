"""Child processes that run foreign code, with limits of time, output and memory.

`run` runs a program. `run_python` runs a function of this very package, whatever packages of the same name the working
folder or the environment have. The function gets a stream for its answer; what foreign code writes to standard output
goes to standard error. `started` is for a dialogue: it gives the process itself, which ends with the block.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_TICK_S = 0.05
_SILENT_S = 2.0  # of waiting, until it is announced
_GRACE_S = 1.0  # for output of a process that has ended, and for one that was killed
_CHUNK_NBYTES = 1 << 16
# sys.path has the working folder at its beginning for `python -c`, before the boot code replaces it.
_BOOT = """\
import sys
sys.path[:] = {path!r}
import os
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
answer = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
spec = spec_from_file_location("vkcompute", {package!r})
sys.modules["vkcompute"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["vkcompute"])
import_module("vkcompute.child_process").is_child = True
getattr(import_module({module!r}), {function!r})(answer, *sys.argv[1:])
answer.flush()
"""


is_child = False
"""True in a process of `run_python`. Its own children stay in its group, and are killed with it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a process.

    Attributes:
        output_nbytes: of each of its outputs.
        memory_nbytes: of its resident memory, on Linux; None for no limit.
        silent_s: of waiting, until it is announced; None for 2 s.
    """

    timeout_s: float
    output_nbytes: int
    memory_nbytes: int | None = None
    silent_s: float | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended.

    Attributes:
        status: the exit status; negative after a signal.
        problem: the limit that it exceeded, after which it was killed; empty if none.
    """

    status: int
    output: bytes
    errors: bytes
    problem: str = ""

    @property
    def ending(self) -> str:
        """Says how it ended, after "the process"."""
        return self.problem or ending(self.status)


def ending(status: int) -> str:
    """Says how a process ended, after "the process": by its status, or by a signal."""
    if status >= 0:
        return f"ended with status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was ended by {names.get(-status, f'signal {-status}')}"


def run(
    command: Sequence[str],
    limits: Limits,
    *,
    data: bytes = b"",
    environ: Mapping[str, str] | None = None,
    errors_in_output: bool = False,
    waiting: Callable[[], None] | None = None,
) -> Finished:
    """Runs a program to its end, or until it exceeds a limit.

    Args:
        data: its standard input.
        errors_in_output: merges standard error into the output.
        waiting: called once, if the process runs for more than 2 s.

    Raises:
        OSError: the program cannot be run.
    """
    stdin = subprocess.PIPE if data else subprocess.DEVNULL
    stderr = subprocess.STDOUT if errors_in_output else subprocess.PIPE
    with started(command, environ, stdin=stdin, stderr=stderr) as process:
        readers = [_Reader(stream, limits.output_nbytes) for stream in (process.stdout, process.stderr) if stream]
        if process.stdin is not None:
            threading.Thread(target=_feed, args=(process.stdin, data), daemon=True).start()
        problem = _wait(process, readers, limits, waiting)
    for reader in readers:
        reader.join(_TICK_S)
    output, errors = [*[bytes(reader.content) for reader in readers], b""][:2]
    return Finished(process.returncode if process.returncode is not None else -1, output, errors, problem)


@contextlib.contextmanager
def started(
    command: Sequence[str], environ: Mapping[str, str] | None = None, *, stdin: int, stderr: int | IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process whose output is a pipe; it is killed with its children at the end of the block.

    It has a group of its own: Ctrl-C reaches this process alone, which ends the other.

    Raises:
        OSError: the program cannot be run.
    """
    options: dict[str, Any] = {
        "env": environ,
        "start_new_session": not is_child,
        "creationflags": getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows: open no console window
    }
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, **options)
    try:
        yield process
    finally:
        _kill(process)


def run_python(
    function: Callable[..., None],
    *arguments: str,
    limits: Limits,
    data: bytes = b"",
    environ: Mapping[str, str] | None = None,
    waiting: Callable[[], None] | None = None,
) -> Finished:
    """Runs `function(answer, *arguments)` of this package in another Python; `output` is what it writes to `answer`.

    Raises:
        OSError: Python cannot be run.
    """
    return run(python_command(function, *arguments), limits, data=data, environ=environ, waiting=waiting)


def python_command(function: Callable[..., None], *arguments: str) -> list[str]:
    """Returns the command that runs `function(answer, *arguments)` of this package in another Python."""
    here = os.getcwd() if os.path.exists(os.curdir) else ""
    # Nothing that is installed or a part of Python comes from the working folder.
    named = [folder for folder in sys.path if folder]
    path = sorted(named, key=lambda folder: folder == here)
    package = str(Path(__file__).with_name("__init__.py").absolute())
    code = _BOOT.format(path=path, package=package, module=function.__module__, function=function.__name__)
    flags = {"-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site, "-I": sys.flags.isolated}
    return [sys.executable, *[flag for flag, given in flags.items() if given], "-c", code, *arguments]


class _Reader(threading.Thread):
    """Reads a stream to its end, or beyond a limit."""

    def __init__(self, stream: IO[bytes], limit_nbytes: int) -> None:
        super().__init__(daemon=True)
        self._stream, self._limit_nbytes = stream, limit_nbytes
        self.content = bytearray()
        self.start()

    @property
    def exceeds(self) -> bool:
        return len(self.content) > self._limit_nbytes

    def run(self) -> None:
        with self._stream, contextlib.suppress(OSError):
            while not self.exceeds and (chunk := os.read(self._stream.fileno(), _CHUNK_NBYTES)):
                self.content += chunk


def _feed(stream: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError), stream:
        stream.write(data)


def _wait(
    process: subprocess.Popen[bytes], readers: list[_Reader], limits: Limits, waiting: Callable[[], None] | None
) -> str:
    """Waits for the process's end; returns the limit that it exceeds, or an empty text."""
    start, ended = time.monotonic(), None
    while True:
        now = time.monotonic()
        if any(reader.exceeds for reader in readers):
            return f"it wrote more than {limits.output_nbytes >> 10:,} KiB"
        if limits.memory_nbytes is not None and _resident_nbytes(process.pid) > limits.memory_nbytes:
            return f"it took more than {limits.memory_nbytes >> 20:,} MiB of memory"
        if process.poll() is not None:
            ended = ended or now
            if now - ended >= _GRACE_S or not any(reader.is_alive() for reader in readers):
                return ""  # its own children may have its output open
        elif now - start >= limits.timeout_s:
            return f"no answer within {limits.timeout_s:g} s"
        if waiting is not None and now - start >= (limits.silent_s or _SILENT_S):
            waiting()
            waiting = None
        _pause(process, readers)


def _pause(process: subprocess.Popen[bytes], readers: list[_Reader]) -> None:
    """Waits until a stream or the process ends, at most for a tick."""
    running = next((reader for reader in readers if reader.is_alive()), None)
    if running is not None:
        running.join(_TICK_S)
    else:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TICK_S)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its children, and waits a moment: a driver may hang where nothing ends it."""
    if process.poll() is not None:
        return
    if sys.platform != "win32" and not is_child:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)


def _resident_nbytes(pid: int) -> int:
    """The resident memory of a process; 0 where the system does not tell it."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0
