"""A process that runs the items of a part: `python -m vkcompute.gpu_report.child`.

It reads a line of JSON from its standard input: a module, the device, and the names of items to skip. It ends when that
input is closed, so it does not outlive its parent. It writes lines of JSON to its standard output: the names of all
items, then two lines per item, before and after it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
import traceback
import warnings
from typing import Any

import vkcompute as vc
from vkcompute import child_process
from vkcompute.gpu_report.items import Item, Items, Session, Unavailable

_MAX_TEXT = 2000


class Channel:
    """Lines of JSON to the parent. Whatever else is written to standard output goes to standard error."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def send(self, **message: Any) -> None:
        """Sends a message."""
        self._file.write(f"{json.dumps(message)}\n")
        self._file.flush()


def outcome_of(item: Item, session: Session) -> dict[str, Any]:
    """Runs an item; returns its outcome with a text or figures."""
    try:
        figures = item(session)
    except AssertionError as error:
        return {"outcome": "wrong", "text": _text(error)}
    except (Unavailable, vc.MissingFeature, vc.NoCompiler, ImportError) as error:
        return {"outcome": "missing", "text": _text(error)}
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return {"outcome": "failed", "text": f"{type(error).__name__}: {_text(error)} ({where})"}
    return {"outcome": "right", **({"figures": figures} if figures else {})}


def _text(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} …"


def run(items: Items, session: Session, channel: Channel, skipped: set[str]) -> None:
    """Runs items in order. Ends the process after a loss of the device, which no later item survives."""
    for name, item in items.items():
        if name in skipped:
            continue
        channel.send(start=name)
        start = time.perf_counter()
        outcome = outcome_of(item, session)
        channel.send(end={"name": name, **outcome, "seconds": round(time.perf_counter() - start, 3)})
        if "DeviceLost" in outcome.get("text", ""):
            os._exit(1)


def _end_with_the_parent() -> None:
    """Ends the process when standard input is closed."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Runs the process."""
    child_process.is_child = True  # compilers stay in the group, which the parent kills
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    channel = Channel()
    warnings.simplefilter("ignore")
    items = importlib.import_module(task["module"], "vkcompute.gpu_report").items()
    channel.send(items=[*items])
    run(items, Session(task["device"]), channel, {*task["skipped"]})
    channel.send(done=True)
    os._exit(0)  # a driver may crash at exit, when all results are known


if __name__ == "__main__":
    main()
