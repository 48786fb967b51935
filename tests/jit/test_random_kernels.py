"""Random programs, formulas and files: device and simulator against what Python computes, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from host import SimulatedRuntime
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_checks import CHECKS, SAME, by_numba

import vkcompute as vc
from vkcompute.gpu_report.random_programs import warps


@pytest.fixture(scope="module")
def own(_silence_at_the_end: None) -> Iterator[vc.Runtime]:
    """A runtime for this module, so that a thousand kernels end with it."""
    with vc.Runtime() as runtime:
        yield runtime


def _few(n: int) -> settings:
    """This many examples, always the same; 100,000 new ones by `make fuzz`, and any number by `make programs`."""
    return settings(
        max_examples=100_000 if settings().max_examples >= 1000 else n,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


_RANDOM = st.randoms(use_true_random=True)


@pytest.mark.rotates
@_few(50)
@given(random=_RANDOM)
def test_random_programs(own: vc.Runtime, random: Random) -> None:
    assume(CHECKS["programs"](own, lambda kernel: kernel, random) == SAME)


@pytest.mark.rotates
@pytest.mark.parametrize("kind", ["integers", "groups", "warps", "formulas", "files"])
@_few(10)
@given(random=_RANDOM)
def test_random_programs_of_integers(own: vc.Runtime, kind: str, random: Random) -> None:
    assume(CHECKS[kind](own, lambda kernel: kernel, random) == SAME)


@pytest.mark.pure
@pytest.mark.parametrize("kind", ["programs", "groups", "warps", "integers", "files"])
@_few(4)
@given(random=_RANDOM)
def test_random_programs_simulated(kind: str, random: Random) -> None:
    assume(CHECKS[kind](SimulatedRuntime(), lambda kernel: kernel.simulate, random) == SAME)


@pytest.mark.rotates
@pytest.mark.pure
@pytest.mark.parametrize("seed", [421, 808, 944])
def test_random_programs_do_not_depend_on_the_order_of_workgroups(seed: int) -> None:
    """Of these seeds, programs once had `xor` and `or_` of one element."""
    random = Random(seed)
    text = warps.WarpProgram(random, halves=random.random() < 0.2).text()
    arguments = warps.data_of(np.random.default_rng(random.getrandbits(32)))
    first, last = (warps.run_by_keys(text, arguments, groups) for groups in ([0, 1], [1, 0]))
    for one, other in zip(first, last, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.rotates
@pytest.mark.pure
def test_the_expected_integers_are_numbas() -> None:
    """Numba takes about two seconds for each."""
    pytest.importorskip("numba")
    assert by_numba(None, None, Random(3)) == SAME
