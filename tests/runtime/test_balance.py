"""The division of rows among devices of known speeds, none of them real."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.runtime.groups.balance import learned, normalized, split_rows

pytestmark = pytest.mark.pure

WEIGHTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=6).filter(lambda weights: sum(weights) > 1e-3)


@given(st.integers(0, 1 << 40), WEIGHTS)
def test_rows_are_divided_in_order_and_without_rest(n: int, weights: list[float]) -> None:
    shares = normalized(weights, len(weights))
    result = split_rows(n, shares)
    assert [rows.start for rows in result] == [0, *(rows.stop for rows in result[:-1])]
    assert result[-1].stop == n
    for rows, share in zip(result, shares, strict=True):
        assert abs(len(rows) - n * share) <= 1 + 1e-9 * n


@given(st.integers(0, 1 << 30), st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=1, max_size=6))
def test_who_has_no_share_gets_no_row(n: int, weights: list[float]) -> None:
    weights.append(1.0)
    result = split_rows(n, normalized(weights, len(weights)))
    assert [rows for rows, weight in zip(result, weights, strict=True) if rows and not weight] == []


@pytest.mark.parametrize("wrong", [(1,), (1, 1, 1), (0, 0), (1, -1), (1, math.nan), (1, math.inf), (1e308, 1e308), ()])
def test_shares_that_are_none(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights are 2 finite numbers from 0 on, one above 0; got"):
        normalized(wrong, 2)


class Machine:
    """Devices that take a fixed time for a launch, and then so many rows per second."""

    def __init__(self, speeds: Sequence[float], overheads_s: Sequence[float]) -> None:
        self.speeds, self.overheads_s = speeds, overheads_s

    def seconds(self, rows: Sequence[int]) -> list[float]:
        """What each device takes for so many rows."""
        return [
            n / speed + overhead if n else 0.0
            for n, speed, overhead in zip(rows, self.speeds, self.overheads_s, strict=True)
        ]

    def balanced(self, n: int, rounds: int, disturbed: Sequence[float] = ()) -> tuple[int, ...]:
        """The rows of each device after so many measurements; the first ones are off by factors."""
        shares = normalized([1.0] * len(self.speeds), len(self.speeds))
        for number in range(rounds):
            rows = [len(row) for row in split_rows(n, shares)]
            seconds = self.seconds(rows)
            if number < len(disturbed):
                seconds[0] *= disturbed[number]
            shares = learned(shares, rows, seconds, number)
            assert math.isclose(sum(shares), 1.0)
        return tuple(len(row) for row in split_rows(n, shares))


SPEEDS = st.lists(st.floats(1e3, 1e9), min_size=2, max_size=5)


@given(SPEEDS, st.integers(1000, 1 << 24))
def test_one_measurement_finds_the_best_split_of_linear_devices(speeds: list[float], n: int) -> None:
    machine = Machine(speeds, [0.0] * len(speeds))
    result = max(machine.seconds(machine.balanced(n, 1)))
    # No split is faster than all devices busy to the end; whole rows cost one of the slowest that takes part.
    best = n / sum(speeds)
    slowest = min(speed for speed, rows in zip(speeds, machine.balanced(n, 1), strict=True) if rows)
    assert result <= best + 1 / slowest + 1e-9 * best


@given(st.floats(1, 300), st.floats(0, 0.05), st.floats(0, 0.05))
def test_two_devices_with_overheads_come_within_5_percent_of_the_best_fixed_split(
    ratio: float, first_s: float, second_s: float
) -> None:
    n = 1 << 20
    machine = Machine([n / 1.0, n / ratio], [first_s, second_s])
    fixed = [max(machine.seconds([n - k, k])) for k in range(0, n + 1, n >> 10)]
    assert max(machine.seconds(machine.balanced(n, 16))) <= 1.05 * min(fixed)


@given(st.floats(0.2, 5), st.floats(1, 10), st.floats(0.1, 10))
def test_disturbed_measurements_are_forgotten(ratio: float, first: float, second: float) -> None:
    n = 1 << 20
    machine = Machine([1e6, ratio * 1e6], [0.0, 0.0])
    result = max(machine.seconds(machine.balanced(n, 16, [first, second])))
    assert result <= 1.05 * n / (1e6 + ratio * 1e6)


def test_who_is_not_measured_keeps_its_share() -> None:
    assert learned((0.5, 0.5, 0.0), [50, 50, 0], [1.0, 4.0, 0.0], 0) == (0.8, 0.2, 0.0)
    assert learned((0.25, 0.25, 0.5), [50, 50, 100], [1.0, 4.0, 0.0], 0) == (0.4, 0.1, 0.5)
    assert learned((0.5, 0.5), [0, 0], [0.0, 0.0], 0) == (0.5, 0.5)


def test_rows_are_not_negative() -> None:
    for rows in ([-50, 50], [50, float("nan")], [float("inf"), 1]):
        with pytest.raises(ValueError, match="0 rows or more"):
            learned((0.5, 0.5), rows, [1.0, 1.0], 0)  # type: ignore[arg-type]
