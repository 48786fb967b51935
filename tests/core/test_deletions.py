"""Deletions run once each, whatever interrupts them and whatever the validation layer says of them."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from contextlib import suppress

import pytest
from faults import interrupted

from vkcompute.core import validation
from vkcompute.core.lifetime import Deletion, run_deletions
from vkcompute.errors import ValidationError


class Interruption(Exception):
    """Of a signal's handler, which may raise anything."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, Interruption])
@pytest.mark.parametrize("objects", [False, True], ids=["", "objections"])
def test_each_deletion_runs_once(error: type[BaseException], objects: bool) -> None:
    calls: Counter[str] = Counter()

    def destroy(name: str) -> None:
        calls[name] += 1
        if objects:
            message = validation.Message("VUID-vkDestroyBuffer-buffer-00922", name, "here:1", threading.get_ident())
            validation._pending.append(message)

    function = validation.raise_objections("vkDestroyBuffer", destroy)
    for after in itertools.count():
        calls.clear()
        inner: list[Deletion] = [(function, "a"), (function, "b")]
        deletions: list[Deletion] = [(function, "c"), (run_deletions, inner), (function, "d")]
        with interrupted(after, error) as come:
            while deletions:
                with suppress(ValidationError):
                    run_deletions(deletions)
        while deletions:
            with suppress(ValidationError):
                run_deletions(deletions)
        validation._pending.clear()
        assert calls == dict.fromkeys("abcd", 1), after
        if not come:
            break
    assert after > 5
