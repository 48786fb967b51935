"""Runs a part in processes of its own: one that crashes or hangs costs an item, and a new one continues behind it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from vkcompute import child_process
from vkcompute.child_process import python_command
from vkcompute.gpu_report.child import main
from vkcompute.gpu_report.parts import Part

_POLL_S, _END_S = 0.2, 5.0
_MAX_TEXT = 1000
Progress = Callable[[str], None]
"""Is called with the name of an item that begins; an empty one, in between."""


class PartRun:
    """A run of a part, which fills the part's dict of a report.

    Args:
        part: the part.
        entry: its dict, which changes.
        device: of the session.
        save: is called after each change.
        env: the environment of the processes.
    """

    def __init__(
        self, part: Part, entry: dict[str, Any], device: str | None, save: Callable[[], None], env: Mapping[str, str]
    ) -> None:
        self._part, self._entry, self._save = part, entry, save
        self._device: int | str | None = int(device) if device and device.isdecimal() else device
        self._env = dict(env)
        self._current, self._since = "", 0.0

    def run(self, limit_s: float, progress: Progress = lambda name: None) -> None:
        """Runs the items that are left for at most this many seconds. The state of the entry says how it ended."""
        entry, start = self._entry, time.monotonic()
        entry["state"], before = "running", entry["seconds"]
        self._save()
        try:
            state = ""
            while not state:
                state = self._process(start + limit_s, progress)
            entry["state"] = state
        finally:
            progress("")
            entry["seconds"] = round(before + time.monotonic() - start, 1)
            self._save()

    def _process(self, stop: float, progress: Progress) -> str:
        """Runs a process. Returns the state of the part, or an empty text if the process died with items left.

        Each process ends an item at least, or else the part: no number of crashes keeps later items from running.
        """
        self._current, self._since = "", time.monotonic()
        with tempfile.TemporaryFile() as errors, _started(self._env, errors) as child:
            done = [item["name"] for item in self._entry["items"]]
            _send(child, {"module": self._part.module, "device": self._device, "skipped": done})
            for message in _messages(child):
                self._take(message, done, progress)
                if "done" in message:
                    return "done"
                if time.monotonic() > stop:
                    return "cut"
                if self._current and time.monotonic() - self._since > self._part.item_limit_s:
                    self._lost("hung", f"longer than {self._part.item_limit_s:g} s")
                    return ""
            text = _death(child, errors)
        if not self._current and len(self._entry["items"]) == len(done):  # it has not even begun an item
            self._current = "start of the process"
            self._lost("crashed", text)
            return "failed"
        if self._current:
            self._lost("crashed", text)
        return "" if self._entry["left"] else "done"

    def _take(self, message: dict[str, Any], done: Sequence[str], progress: Progress) -> None:
        """Takes a message of the process."""
        if "items" in message:
            self._entry["left"] = [name for name in message["items"] if name not in done]
        elif "start" in message:
            self._current, self._since = message["start"], time.monotonic()
            progress(self._current)
        elif "end" in message:
            self._current = ""
            self._add(message["end"])

    def _lost(self, outcome: str, text: str) -> None:
        """Adds the item that was running when the process ended."""
        seconds = round(time.monotonic() - self._since, 1)
        self._add({"name": self._current, "outcome": outcome, "seconds": seconds, "text": text})

    def _add(self, item: dict[str, Any]) -> None:
        self._entry["items"].append(item)
        if item["name"] in self._entry["left"]:
            self._entry["left"].remove(item["name"])
        self._save()


@contextlib.contextmanager
def _started(env: Mapping[str, str], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a child, which ends with the block."""
    child = None
    try:
        with child_process.started(python_command(main), env, stdin=subprocess.PIPE, stderr=errors) as child:
            yield child
    finally:  # the child has ended, so that no thread waits for its output
        for end in (child.stdin, child.stdout) if child else ():
            with contextlib.suppress(OSError, AttributeError):  # a child that did not read its input
                end.close()  # type: ignore[union-attr]


def _send(child: subprocess.Popen[bytes], task: dict[str, Any]) -> None:
    assert child.stdin is not None
    with contextlib.suppress(OSError):  # the process has ended
        child.stdin.write(json.dumps(task).encode() + b"\n")
        child.stdin.flush()


def _messages(child: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Yields the messages of a child until it ends, and an empty one after each interval without any."""
    lines: queue.Queue[bytes | None] = queue.Queue()

    def read() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_POLL_S)
        except queue.Empty:
            yield {}
            continue
        if line is None:
            return
        try:
            message = json.loads(line)
        except ValueError:  # the last line of a process that was killed
            continue
        yield message


def _death(child: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    """Describes the end of a process: its status or signal, and its last words."""
    try:
        status = child.wait(_END_S)
    except subprocess.TimeoutExpired:  # it has closed its output, but still runs
        child.kill()
        status = child.wait()
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - _MAX_TEXT))
    words = errors.read().decode(errors="replace").strip().splitlines()[-3:]
    return ": ".join([f"the process {child_process.ending(status)}", *[" | ".join(words)] * bool(words)])
