"""Random programs of all types and statements: device and simulator against the text run by Python, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from host import SimulatedRuntime
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracle import check, module
from random_kernels import N, Program

import vkcompute as vc


@pytest.fixture(scope="module")
def own(_silence_at_the_end: None) -> Iterator[vc.Runtime]:
    """A runtime for this module, so that a thousand kernels end with it."""
    with vc.Runtime() as runtime:
        yield runtime


# 100 on each driver in the normal run, always the same; 100,000 new ones by `make fuzz`.
_PROGRAMS = settings(
    max_examples=100_000 if settings().max_examples >= 1000 else 100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def _checked(runtime: Any, random: Random, seed: int, launcher: Callable[[Any], Any]) -> None:
    """Compares a random program, launched by `launcher(kernel)`, with its text run by Python."""
    kernel = vc.kernel(module(Program(random).text()).kernel)
    data = np.random.default_rng(seed)
    x = np.where(data.random(N) < 0.6, data.integers(-20, 20, N), data.integers(-(2**31) + 1, 2**31, N)).astype(
        np.int32
    )
    y = np.where(data.random(N) < 0.6, data.integers(0, 20, N), data.integers(0, 2**32, N)).astype(np.uint32)
    z = (data.integers(-32, 33, N) * 0.25).astype(np.float32)
    out = np.full((N, 6), -7, np.int32), np.full(N, 7, np.uint32), np.full((N, 4), -7, np.float32)
    try:
        check(runtime, launcher(kernel), x, y, z, *out, local_size=(N, 1, 1), rtol=0, atol=0)
    except (OverflowError, pytest.skip.Exception):  # a Python int is beyond int32; 64 bits where there are none
        assume(False)


@_PROGRAMS
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 1000))
def test_random_programs(own: vc.Runtime, random: Random, seed: int) -> None:
    _checked(own, random, seed, lambda kernel: kernel)


@pytest.mark.pure
@_PROGRAMS
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 1000))
def test_random_programs_simulated(random: Random, seed: int) -> None:
    _checked(SimulatedRuntime(), random, seed, lambda kernel: kernel.simulate)
