"""A process that runs the items of a part, by `main`.

It reads a line of JSON from its standard input: a module, the device, and the names of items to skip. It ends when that
input is closed, so it does not outlive its parent. It answers by lines of JSON: the names of all items, then two lines
per item, before and after it.
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
from typing import Any, BinaryIO

import vkcompute as vc
from vkcompute.gpu_report.items import Item, Items, Session, Unavailable

_MAX_TEXT = 2000


class Channel:
    """Lines of JSON to the parent."""

    def __init__(self, answer: BinaryIO) -> None:
        self._answer = answer

    def send(self, **message: Any) -> None:
        """Sends a message."""
        self._answer.write(json.dumps(message).encode() + b"\n")
        self._answer.flush()


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


def main(answer: BinaryIO) -> None:
    """Runs the process."""
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    channel = Channel(answer)
    warnings.simplefilter("ignore")
    items = importlib.import_module(task["module"], "vkcompute.gpu_report").items()
    channel.send(items=[*items])
    run(items, Session(task["device"]), channel, {*task["skipped"]})
    channel.send(done=True)
    os._exit(0)  # a driver may crash at exit, when all results are known
