"""Random programs in which launches fail late: who is told is exactly who depends on them, whatever is known when."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc

N_ARRAYS, HALF = 4, 64


@vc.kernel(check_bounds=True)
def move(source, target, shift):
    i = vc.global_id(0)
    if i < target.size:
        target[i] = source[i + shift] + 1


@vc.kernel(check_bounds=True)
def bump(x, shift):
    i = vc.global_id(0)
    if i < x.size:
        x[i + shift] += 1


@vc.kernel
def quiet(source, target):
    i = vc.global_id(0)
    if i < target.size:
        target[i] = source[i] + 1


@vc.kernel
def loud(source, target):
    i = vc.global_id(0)
    if i == 0:
        print(source[i])
    if i < target.size:
        target[i] = source[i] + 1


ARRAY = st.integers(0, N_ARRAYS - 1)
PART = st.tuples(ARRAY, st.sampled_from([(0, 1), (1, 2), (0, 2)]))  # of an array, halves from and to
FAILS = st.sampled_from([0, 0, 1])
OPERATION = st.one_of(
    st.tuples(st.just("move"), PART, PART, FAILS),
    st.tuples(st.just("bump"), PART, FAILS),
    st.tuples(st.sampled_from(["quiet", "loud", "copy"]), PART, PART),
    st.tuples(st.sampled_from(["fill", "write"]), PART, st.integers(0, 9)),
    st.tuples(st.just("graph"), st.lists(st.tuples(st.just("move"), PART, PART, FAILS), min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["read", "result", "flush"]), ARRAY),
)


class Model:
    """What each half of each array holds, and whether what was to write it has failed."""

    def __init__(self) -> None:
        self.values = [[0, 0] for _ in range(N_ARRAYS)]
        self.bad = [[False, False] for _ in range(N_ARRAYS)]

    def set(self, part: Any, bad: bool, value: int | None = None) -> None:
        array, (start, stop) = part
        for half in range(start, stop):
            self.bad[array][half] = bad
            if value is not None:
                self.values[array][half] = value

    def is_bad(self, part: Any) -> bool:
        array, (start, stop) = part
        return any(self.bad[array][start:stop])

    def move(self, source: Any, target: Any, fails: bool, add: int) -> None:
        """From one part to another of the same length."""
        bad, array = self.is_bad(source) or fails, source[0]
        taken = self.values[array][slice(*source[1])]
        for half, value in zip(range(*target[1]), taken, strict=True):
            self.set((target[0], (half, half + 1)), bad, value + add)


def clashes(source: Any, target: Any) -> bool:
    """Whether a launch on these parts would race with itself, or they differ in length."""
    apart = source[1][1] <= target[1][0] or target[1][1] <= source[1][0]
    return np.diff(source[1])[0] != np.diff(target[1])[0] or (source[0] == target[0] and not apart)


class Program:
    """The operations on the device, and what the model says of them."""

    def __init__(self, runtime: vc.Runtime) -> None:
        self.runtime, self.model = runtime, Model()
        self.arrays = [runtime.zeros(2 * HALF, np.int32) for _ in range(N_ARRAYS)]
        self.futures: list[tuple[vc.Future, bool]] = []

    def view(self, part: Any) -> vc.Array:
        array, (start, stop) = part
        return self.arrays[array][start * HALF : stop * HALF]

    def launch(self, kernel: Any, *args: Any, fails: bool, reads: bool) -> None:
        """Launches what fails, or reads what is bad: that may be known already, or be found out later."""
        try:
            self.futures.append((kernel(*args), fails or reads))
        except vc.KernelError:
            assert reads

    def run(self, name: str, *args: Any) -> None:
        getattr(self, name)(*args)

    def move(self, source: Any, target: Any, shift: int) -> None:
        if clashes(source, target):
            return
        reads = self.model.is_bad(source)
        self.launch(move, self.view(source), self.view(target), shift, fails=shift > 0, reads=reads)
        self.model.move(source, target, shift > 0, 1)

    def bump(self, part: Any, shift: int) -> None:
        reads = self.model.is_bad(part)
        self.launch(bump, self.view(part), shift, fails=shift > 0, reads=reads)
        self.model.set(part, reads or shift > 0)
        for half in range(*part[1]):
            self.model.values[part[0]][half] += 1

    def quiet(self, source: Any, target: Any, kernel: Any = quiet, add: int = 1) -> None:
        if clashes(source, target):
            return
        reads = self.model.is_bad(source)
        self.launch(kernel, self.view(source), self.view(target), fails=False, reads=reads)
        self.model.move(source, target, False, add)

    def loud(self, source: Any, target: Any) -> None:
        self.quiet(source, target, loud)

    def copy(self, source: Any, target: Any) -> None:
        self.quiet(source, target, lambda one, other: other.copy_from(one), 0)

    def fill(self, part: Any, value: int) -> None:
        self.view(part).fill(value)
        self.model.set(part, False, value)

    def write(self, part: Any, value: int) -> None:
        view = self.view(part)
        view.write(np.full(view.shape, value, np.int32))
        self.model.set(part, False, value)

    def graph(self, steps: Any) -> None:
        """A run is one piece of work: what it reads first is bad, or one of its launches fails, and all of it has."""
        steps = [step for step in steps if not clashes(step[1], step[2])]
        written: set[tuple[int, int]] = set()
        reads = fails = False
        with self.runtime.record() as graph:
            for _, source, target, shift in steps:
                move(self.view(source), self.view(target), shift)
                halves = [(source[0], half) for half in range(*source[1])]
                reads |= any(self.model.bad[t][h] for t, h in halves if (t, h) not in written)
                fails |= shift > 0
                written |= {(target[0], half) for half in range(*target[1])}
        self.launch(graph.submit, fails=fails, reads=reads)
        for _, source, target, _ in steps:
            self.model.move(source, target, False, 1)
        for array, half in written:
            self.model.set((array, (half, half + 1)), reads or fails)

    def read(self, array: int) -> None:
        for half in range(2):
            part = array, (half, half + 1)
            if self.model.is_bad(part):
                with pytest.raises(vc.KernelError, match="is outside of"):
                    self.view(part).numpy()
            else:
                assert set(self.view(part).numpy()) == {self.model.values[array][half]}

    def result(self, which: int) -> None:
        if self.futures:
            future, bad = self.futures[which % len(self.futures)]
            assert isinstance(future.exception(), vc.KernelError) == bad

    def flush(self, _: int) -> None:
        self.runtime.scheduler.submit()

    def finish(self) -> None:
        for array in range(N_ARRAYS):
            self.read(array)
        for which in range(len(self.futures)):
            self.result(which)
        self.runtime.scheduler.finish()
        assert not self.runtime.scheduler.callbacks


@pytest.fixture(scope="module", params=[{}, {"timelines": (3, 1)}, {"staging": True, "timelines": 2}])
def runtime(request: pytest.FixtureRequest) -> Any:
    with open_runtime(**request.param) as runtime:
        yield runtime
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *_, **__: None)  # of failures that nobody asked for
            runtime.close()


@settings(max_examples=30)
@given(operations=st.lists(OPERATION, max_size=25))
def test_who_depends_on_what_failed_is_told_and_nobody_else(runtime: vc.Runtime, operations: Any) -> None:
    with redirect_stdout(io.StringIO()):
        program = Program(runtime)
        for operation in operations:
            program.run(*operation)
        program.finish()
