"""Caches of specializations in memory and on disk, keyed by the compiler, the functions and the types of the arguments.

The globals that a function captures are known only after it has been compiled. So they are part of an entry, not of its
key: each with its owner, its name and the text of its value. They are looked up again when the entry is read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from vkcompute import deferred_calls, disk
from vkcompute.compiled import plain_data
from vkcompute.compiled.captured import CapturedGlobal
from vkcompute.compiled.specialization import Specialization
from vkcompute.errors import KernelError, hides_calls
from vkcompute.ir import KernelModule
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.slow_work import announced

logger = logging.getLogger(__name__)

_MAX_KEYS = 256
_MAX_PER_KEY = 16  # with different captured globals

__tracebackhide__ = hides_calls


class Origin(Protocol):
    """The source of a program: functions, expressions or a text."""

    @property
    def name(self) -> str:
        """The name for messages."""

    def text(self) -> str | None:
        """Returns a text that is equal in two processes only if the compiled programs are; None if that is unknown."""

    def stored(self, captured: Iterable[CapturedGlobal]) -> list[tuple[Any, ...]] | None:
        """Describes captured globals as plain data; None if another process cannot find or compare one."""

    def looked_up(self, stored: Iterable[tuple[Any, ...]]) -> tuple[CapturedGlobal, ...] | None:
        """Finds stored globals again; None if one has another value now."""


class Specializations:
    """The specializations of a program, of the newest keys in memory, and on disk.

    Args:
        common: texts of everything else on which all of them depend; None for one without a text.
        freezes: True if captured globals keep the value that they had at the first compilation for a key.
    """

    def __init__(self, origin: Origin, *common: str | None, freezes: bool = False) -> None:
        self._origin, self._common, self._freezes = origin, common, freezes
        self._known: BoundedCache[tuple[Any, ...], list[Specialization]] = BoundedCache(_MAX_KEYS)

    def find(self, key: tuple[Any, ...], make: Callable[..., Specialization]) -> Specialization:
        """Returns the specialization for a key, made by `make(*key)` if there is none for today's captured globals."""
        candidates = self._known.get(key) or []
        for candidate in candidates:
            if not candidate.captured or candidate.is_current:
                return candidate
        try:
            made = self._cached(key, make)
        except KernelError as error:
            # The message has the line; the compiler's calls say nothing.
            raise error.with_traceback(None) from error.__cause__
        if self._freezes:
            made = dataclasses.replace(made, captured=())
        self._known[key] = [made, *candidates[: _MAX_PER_KEY - 1]]
        return made

    def _cached(self, key: tuple[Any, ...], make: Callable[..., Specialization]) -> Specialization:
        """Returns a specialization from the disk; if there is none, makes and stores it."""
        entry = self._entry(key)
        specialization = None if entry is None else _load(entry, self._origin)
        if specialization is None:
            with announced(f"compiling {self._origin.name}"):
                specialization = make(*key)
            if entry is not None:
                _store(entry, self._origin, specialization)
        return specialization

    def _entry(self, key: tuple[Any, ...]) -> Path | None:
        """Returns the file of a specialization; None if something on which it depends has no text."""
        parts = self._origin.text(), *self._common
        if None in parts:
            return None
        digest = hashlib.sha256("\0".join(map(str, (*parts, *key))).encode()).hexdigest()
        return disk.cache_folder() / "python" / digest


def _load(entry: Path, origin: Origin) -> Specialization | None:
    """Returns a stored specialization if it is well-formed, and all of its captured globals are unchanged."""
    data = disk.read_cached(entry)
    if data is None:
        return None
    head, _, spirv = data.partition(b"\n")
    try:
        interface, fields, stored = plain_data.loads(head)
        captured = origin.looked_up(stored)
        return None if captured is None else Specialization(KernelModule(spirv, interface), captured, *fields)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        deferred_calls.call(partial(logger.debug, "discarding the malformed cache entry %s: %r", entry, error))
        return None


def _store(entry: Path, origin: Origin, specialization: Specialization) -> None:
    """Stores a specialization, unless a captured global cannot be found or compared in another process."""
    stored = origin.stored(specialization.captured)
    if stored is None:
        return
    # Behind the module and `captured`.
    fields = [getattr(specialization, field.name) for field in dataclasses.fields(specialization)[2:]]
    head = plain_data.dumps((specialization.module.interface, fields, stored))
    disk.keep_cached(entry, head.encode() + b"\n" + specialization.spirv)
