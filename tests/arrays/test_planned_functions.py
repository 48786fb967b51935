"""Which public functions of arrays have call plans: all but those in EXCEPTIONS launch by plans when called again."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.expressions.call_plan import CallPlan, planned
from vkcompute.arrays.expressions.compute_plan import ComputePlan
from vkcompute.compiled import call_plans
from vkcompute.compiled.plan import Plan
from vkcompute.jit.elementwise.element_launcher import ElementLauncher
from vkcompute.runtime.scheduling.scheduler import Scheduler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))

import arguments
from argument_calls import ARRAYS, CALLS
from runtimes import most_buffers

pytestmark = pytest.mark.device_only

SHARE = 3  # every third call of a function; 1 takes half a minute
N_CALLS = 5
"""The fifth call repeats a plan: the first two may be traced, and a key is traced when it is seen the second time."""
LENGTHS = (
    "the length of a result is that of a mask's true elements, of distinct values, or the largest value",
    """
    argwhere bincount compress extract flatnonzero intersect1d mask_indices nonzero setdiff1d setxor1d trim_zeros
    union1d unique unique_all unique_counts unique_inverse unique_values
    """,
)
CHECKS = "an error depends on elements: weights below 0, edges in no order", "cov digitize quantile"
REPEATS = (
    "elements tell how often launches repeat: values that a mask takes, convergence",
    "place linalg.eig linalg.eigvals",
)
GIVEN = "an argument is a function, which may do anything", "apply_along_axis"
SEVERAL = "two lazy results, each computed by a launch of its own plan when it is needed", "frexp modf"
EXCEPTIONS = {name: reason for reason, names in (LENGTHS, CHECKS, REPEATS, GIVEN, SEVERAL) for name in names.split()}
"""Functions whose launches are no plan of the call. Draws are others: each takes another place in the sequence."""
REFUSED = "geomspace("  # takes no axis, which its call has
PACKED = "add(v, w, out=out, where=b)"
"""Four arrays, of which a device that binds four buffers, one of them for loops, copies some, outside of plans."""
TEXTS = [
    text for text in CALLS.strip().splitlines() if "(" in text and "np." not in text and not text.startswith(REFUSED)
]


def name_of(text: str) -> str:
    return text.replace("default_rng(0).", "").partition("(")[0]


def compute(result: Any) -> None:
    for part in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(part, vc.Array):
            part.compute()


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Notes the tasks outside of plans of calls and of lazy arrays: True for one by a launch's own plan."""
    noted: list[bool] = []
    end = Scheduler._end
    repeats = {function.__code__ for function in (CallPlan.run, ComputePlan.run, ElementLauncher.computed)}

    def note(*args: Any, **named: Any) -> Any:
        codes, frame = set[CodeType](), sys._getframe(1)
        while frame is not None:
            codes.add(frame.f_code)
            frame = frame.f_back
        if repeats.isdisjoint(codes):
            noted.append(Plan.enqueue.__code__ in codes)
        return end(*args, **named)

    monkeypatch.setattr(call_plans, "are_used", True)
    monkeypatch.setattr(Scheduler, "_end", note)
    return noted


@pytest.fixture
def names(gpu: vc.Runtime, launches: list[bool]) -> arguments.Names:
    """Returns the arrays of the calls, which are made before."""
    arrays = arguments.Names(vnp)
    for line in ARRAYS.strip().splitlines():
        arrays[line.partition(" ")[0]]  # makes it
    return arrays


def is_unplanned(text: str, names: Any, launches: list[bool]) -> bool:
    """True if a call that is repeated launches outside of plans."""
    call = compile(f"xp.{text}", "<call>", "eval")
    for _ in range(N_CALLS):
        launches.clear()
        compute(eval(call, {}, names))
    return launches not in ([], [True])


@pytest.mark.rotates
def test_functions_launch_by_plans(gpu: vc.Runtime, names: arguments.Names, launches: list[bool]) -> None:
    planned_ones = [text for text in TEXTS if name_of(text) not in EXCEPTIONS and not text.startswith("random.")]
    unplanned = [text for text in planned_ones[::SHARE] if is_unplanned(text, names, launches)]
    assert {*unplanned} <= ({PACKED} if most_buffers(gpu) < 5 else {*()})


@pytest.mark.rotates
def test_exceptions_are_functions_that_launch_without_plans(names: arguments.Names, launches: list[bool]) -> None:
    texts: dict[str, list[str]] = {name: [] for name in EXCEPTIONS}
    for text in TEXTS:
        texts.get(name_of(text), []).append(text)
    planned_ones = [
        name for name, calls in texts.items() if not any(is_unplanned(text, names, launches) for text in calls)
    ]
    assert not planned_ones


def test_functions_of_arrays_of_the_host_launch_by_plans(gpu: vc.Runtime, launches: list[bool]) -> None:
    x, knots, values = gpu.array(np.linspace(0, 5, 40, dtype=np.float32)), np.float32([0, 1, 4]), np.float32([5, 6, 7])
    functions: list[Callable[[Any, Any], Any]] = [
        lambda xp, x: xp.interp(x, knots, values), lambda xp, x: xp.searchsorted(knots, x),
        lambda xp, x: xp.convolve(x, values),
    ]  # fmt: skip
    for function in functions:
        for number in range(N_CALLS):
            knots[1], values[:] = 1 + number / 4, np.float32([number, 6, 7])
            launches.clear()
            result = function(vnp, x)
            compute(result)
            assert np.allclose(result.numpy(), function(np, x.numpy()), rtol=1e-5)
        assert launches == []


def put(xp: Any, x: Any, values: Any) -> Any:
    xp.putmask(x, x > 0, values)
    return x


def combined(xp: Any, x: Any, index: Any) -> Any:
    xp.multiply.at(x, index, 3)
    xp.negative.at(x, index)
    return x


UPDATES: tuple[Callable[[Any, Any], Any], ...] = (
    lambda xp, x: put(xp, x, xp.full_like(x[0, :1], 1.5)), lambda xp, x: put(xp, x, xp.full_like(x[:0], 1)),
    lambda xp, x: put(xp, x, x[0, :3] - 1), lambda xp, x: put(xp, x, x[::-1]),
    lambda xp, x: put(xp, x.T, x.T * 2), lambda xp, x: combined(xp, x, 1), lambda xp, x: combined(xp, x, ...),
    lambda xp, x: combined(xp, x, (slice(None, None, 2), None, -1)), lambda xp, x: combined(xp, x[0, 0, ...], ()),
    lambda xp, x: xp.histogram(x, 5, (-2, 3))[0], lambda xp, x: xp.histogram2d(x[0], x[1], 3, [(-2, 3), (-1, 1)])[0],
    lambda xp, x: xp.histogram(x[:0], 3, (0, 1))[0],
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(UPDATES)))
def test_updates_that_wait_for_no_element(gpu: vc.Runtime, launches: list[bool], number: int) -> None:
    for seed in range(N_CALLS):
        host = np.random.default_rng(seed).normal(size=(5, 4)).astype(np.float32)
        x = gpu.array(host)
        launches.clear()
        result = UPDATES[number](vnp, x)
        compute(result)
        outside = [*launches]
        expected = UPDATES[number](np, host)
        assert result.numpy().tobytes() == np.ascontiguousarray(expected, result.dtype).tobytes()
        assert x.numpy().tobytes() == host.tobytes()
    assert outside in ([], [True])  # one lazy argument of a call, by the plan of its launch


def test_a_draw_is_a_launch_of_its_own_plan(gpu: vc.Runtime, launches: list[bool]) -> None:
    rng = vnp.random.default_rng(0)
    for draw in (rng.random, lambda: rng.normal(size=3), lambda: rng.integers(0, 9, 3), lambda: rng.poisson(2.0, 3)):
        for _ in range(N_CALLS):
            launches.clear()
            compute(draw())
        assert launches == [True], draw


def test_created_arrays_are_each_calls_own(gpu: vc.Runtime, launches: list[bool]) -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda xp: xp.zeros((3, 4), np.float32), lambda xp: xp.full((2, 3), 2.5, np.float32),
        lambda xp: xp.arange(5), lambda xp: xp.linspace(0, 1, 7, dtype=np.float32), lambda xp: xp.eye(3),
        lambda xp: xp.ones((2, 3), np.int8, order="F"), lambda xp: xp.zeros((0, 2), np.float32),
    ]  # fmt: skip
    for function in functions:
        kept = []
        for _ in range(N_CALLS):
            launches.clear()
            made = function(vnp)
            outside = [*launches]
            assert made.shape == function(np).shape
            assert np.array_equal(made.numpy(), function(np))
            made.fill(9)
            kept.append(made)  # else its memory could be the next one's
        assert not outside


def test_files_are_read_anew(gpu: vc.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_plans, "are_used", True)
    binary, text = str(tmp_path / "x.npy"), str(tmp_path / "x.txt")
    for number in range(N_CALLS):
        np.save(binary, np.full(3, number, np.float32))
        np.savetxt(text, np.full(3, number, np.float32))
        assert vnp.load(binary).numpy().tolist() == vnp.loadtxt(text).numpy().tolist() == [number] * 3


def test_fill_values_of_equal_bits_have_plans_of_their_own(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_plans, "are_used", True)
    records = [np.array((1, 2), [(one, "i4"), (two, "f4")])[()] for one, two in (("a", "b"), ("x", "y"))]
    for record in records:
        for _ in range(N_CALLS):
            assert vnp.full(2, record).dtype == record.dtype
    for number in (math.nan, -math.nan, 0.0, -0.0, complex(0.0, -0.0), complex(0.0, 0.0)):
        for _ in range(N_CALLS):
            assert vnp.full(2, number).numpy().tobytes() == np.full(2, number, vnp.full(2, number).dtype).tobytes()


def test_what_numpy_reports_is_reported_by_each_call(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_plans, "are_used", True)
    calls: list[Callable[[], Any]] = [
        lambda: vnp.full(3, np.float32(1e20), "int32"), lambda: vnp.full(3, 1j, "float32"),
        lambda: vnp.linspace(0, 1e39, 5, dtype="float32"),
    ]  # fmt: skip
    for call in calls:
        for _ in range(N_CALLS):
            with pytest.warns(Warning, match=r"invalid|imaginary|overflow"):
                call()
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        calls[0]()


def test_a_created_array_is_computed_once_by_each_call(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def eye(n: int) -> vc.Array:
        calls.append(n)
        return gpu.array(np.eye(n, dtype=np.float32))

    monkeypatch.setattr(call_plans, "are_used", True)
    planned_eye = planned(eye)
    for number in range(1, N_CALLS):
        assert np.array_equal(planned_eye(3).numpy(), np.eye(3))
        assert len(calls) <= number
