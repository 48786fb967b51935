"""Bounded caches: capacity, order of eviction, and use by several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from vkcompute.runtime.bounded_cache import BoundedCache

pytestmark = pytest.mark.pure


def test_the_oldest_entry_is_dropped() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)
    for n, key in enumerate("abcd"):
        cache[key] = n
    assert dict(cache) == {"b": 1, "c": 2, "d": 3}


def test_an_assignment_renews_an_entry_and_a_read_does_not() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache["a"], cache["b"] = 1, 2
    cache["a"] = 3
    assert cache.get("b") == 2
    cache["c"] = 4
    assert dict(cache) == {"a": 3, "c": 4}


def test_a_dropped_value_may_use_the_cache_in_its_finalizer() -> None:
    cache: BoundedCache[object, object] = BoundedCache(2)

    class Value:
        def __del__(self) -> None:
            cache["finalized"] = None

    for n in range(5):
        cache[n] = Value()
    assert len(cache) == 2
    cache.clear()


def test_threads_assign_at_the_same_time() -> None:
    cache: BoundedCache[int, int] = BoundedCache(16)

    def work(first: int) -> None:
        for n in range(first, 40_000, 8):
            cache[n] = -n
            assert cache.get(n, -n) == -n

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert 8 <= len(cache) <= 16
    assert all(value == -key for key, value in cache.items())
