"""Runtimes to test on: one that writes to device memory where it can, one that stages every transfer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import vkcompute


@pytest.fixture(scope="session", params=[False, True], ids=["direct", "staging"])
def rt(request: pytest.FixtureRequest, _silence_at_the_end: None) -> Iterator[vkcompute.Runtime]:
    """A runtime, without and with staging."""
    from runtimes import open_runtime

    with closing(open_runtime(staging=request.param)) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def staged(_silence_at_the_end: None) -> Iterator[vkcompute.Runtime]:
    """A runtime that stages every transfer."""
    from runtimes import open_runtime

    with closing(open_runtime(staging=True)) as runtime:
        yield runtime
