"""Sequences: recording, evaluation, waiting, timestamps, misuse, and random programs against a model."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.compat import kp

Compile = Callable[..., bytes]
SLOW = "float x = v0[i]; for (uint k = 0; k < 30000; k++) x = x * 1.0000001 + 1; v0[i] = x;"


@pytest.fixture
def adding(mgr: kp.Manager, spirv: Compile) -> tuple[kp.Tensor, kp.OpAlgoDispatch]:
    """A tensor of two elements, and a dispatch that adds 1 to each."""
    tensor = mgr.tensor([0, 0])
    mgr.sequence().eval(kp.OpSyncDevice([tensor]))
    return tensor, kp.OpAlgoDispatch(mgr.algorithm([tensor], spirv("v0[i] += 1;", 1)))


def _value(mgr: kp.Manager, tensor: kp.Tensor) -> float:
    mgr.sequence().eval(kp.OpSyncLocal([tensor]))
    return float(tensor.data()[0])


def test_it_is_replayed_and_gives_itself(mgr: kp.Manager, adding: tuple[kp.Tensor, kp.OpAlgoDispatch]) -> None:
    tensor, add = adding
    sequence = mgr.sequence()
    assert sequence.is_init()
    assert sequence.record(add) is sequence
    assert sequence.eval() is sequence
    for _ in range(5):
        sequence.eval()
    assert _value(mgr, tensor) == 6


def test_dispatches_in_a_row_see_each_others_results(
    mgr: kp.Manager, adding: tuple[kp.Tensor, kp.OpAlgoDispatch]
) -> None:
    tensor, add = adding
    sequence = mgr.sequence()
    for _ in range(100):
        sequence.record(add)
    sequence.record(kp.OpSyncLocal([tensor])).eval()
    assert tensor.data().tolist() == [100, 100]
    sequence.eval()
    assert tensor.data().tolist() == [200, 200]


def test_recording_after_an_evaluation_begins_anew(
    mgr: kp.Manager, adding: tuple[kp.Tensor, kp.OpAlgoDispatch]
) -> None:
    tensor, add = adding
    sequence = mgr.sequence().record(add).record(add).eval()
    assert not sequence.is_recording()
    sequence.record(add)
    assert sequence.is_recording()
    sequence.eval()
    assert _value(mgr, tensor) == 3
    sequence.rerecord()
    assert sequence.is_recording()
    sequence.eval()
    assert _value(mgr, tensor) == 6


def test_evaluating_an_operation_takes_the_place_of_the_others(
    mgr: kp.Manager, adding: tuple[kp.Tensor, kp.OpAlgoDispatch]
) -> None:
    tensor, add = adding
    sequence = mgr.sequence().record(add).record(add)
    assert sequence.eval(add) is sequence
    assert _value(mgr, tensor) == 1
    sequence.rerecord()
    assert _value(mgr, tensor) == 1
    sequence.eval()
    assert _value(mgr, tensor) == 2


def test_clear_forgets(mgr: kp.Manager, adding: tuple[kp.Tensor, kp.OpAlgoDispatch]) -> None:
    tensor, add = adding
    sequence = mgr.sequence().record(add)
    sequence.clear()
    assert not sequence.is_recording()
    sequence.eval()
    sequence.rerecord()
    sequence.eval()
    assert _value(mgr, tensor) == 0
    sequence.record(add).eval_async()
    sequence.clear()
    assert sequence.is_running()
    sequence.eval_await()
    assert _value(mgr, tensor) == 1


def test_rerecording_takes_what_the_objects_are_now(mgr: kp.Manager, spirv: Compile) -> None:
    tensor = mgr.tensor([0])
    shader = spirv("v0[i] = x;", 1, "layout(push_constant) uniform P { float x; };")
    algorithm = mgr.algorithm([tensor], shader, (1,), [], [1])
    sequence = mgr.sequence().record(kp.OpAlgoDispatch(algorithm)).eval()
    mgr.sequence().record(kp.OpAlgoDispatch(algorithm, [5]))
    sequence.eval()
    assert _value(mgr, tensor) == 1
    sequence.rerecord()
    sequence.eval()
    assert _value(mgr, tensor) == 5


def test_async_returns_before_the_work_is_done(
    mgr: kp.Manager, spirv: Compile, caplog: pytest.LogCaptureFixture
) -> None:
    n = 1 << 9
    tensor = mgr.tensor(np.zeros(n))
    slow = kp.OpAlgoDispatch(mgr.algorithm([tensor], spirv(SLOW, 1), (n,)))
    sequence = mgr.sequence().record(kp.OpSyncDevice([tensor])).record(slow).record(kp.OpSyncLocal([tensor]))
    for _ in range(2):  # eagerly, then as a graph
        assert sequence.eval_async() is sequence
        assert sequence.is_running()
        assert not tensor.data().any()
        assert sequence.eval_await(1000) is sequence
        assert sequence.is_running()
        assert (
            caplog.records.pop().getMessage() == "eval_await: not finished after 1000 ns; the sequence is still running"
        )
        for misuse in (sequence.eval, sequence.eval_async, sequence.rerecord, lambda: sequence.record(slow)):
            with pytest.raises(RuntimeError, match=r"running; call eval_await\(\)"):
                misuse()
        assert sequence.eval_await() is sequence
        assert not sequence.is_running()
        assert tensor.data().all()
        tensor.data()[:] = 0


def test_waiting_for_nothing_is_noted(mgr: kp.Manager, caplog: pytest.LogCaptureFixture) -> None:
    sequence = mgr.sequence()
    with caplog.at_level(logging.WARNING, "kp"):
        assert sequence.eval_await() is sequence
        assert sequence.eval_await(5) is sequence
    assert [record.name for record in caplog.records] == ["kp", "kp"]
    with pytest.raises(RuntimeError, match="got -1"):
        sequence.eval_await(-1)
    with pytest.raises(RuntimeError, match="got -2"):
        mgr.sequence(0, -2)
    assert sequence.eval() is sequence
    assert not sequence.is_running()


def test_timestamps(mgr: kp.Manager, adding: tuple[kp.Tensor, kp.OpAlgoDispatch]) -> None:
    tensor, add = adding
    sequence = mgr.sequence(total_timestamps=3)
    for operation in (add, kp.OpSyncLocal([tensor])):
        with pytest.raises(RuntimeError, match="not been evaluated"):
            sequence.get_timestamps()
        sequence.record(operation)
    with pytest.raises(RuntimeError, match="not been evaluated"):
        sequence.get_timestamps()
    seen = []
    for _ in range(3):
        ticks, ns = sequence.eval().get_timestamps(), sequence.get_timestamps_ns()
        assert len(ticks) == len(ns) == 3
        assert ticks == sorted(ticks)
        assert ns[0] == 0
        period = mgr.runtime.device.physical.limits["timestampPeriod"]
        assert ns == pytest.approx([(tick - ticks[0]) * period for tick in ticks])
        seen += ticks
    assert seen == sorted(seen)
    assert tensor.data()[0] == 3
    sequence.record(add)  # begins a new recording
    with pytest.raises(RuntimeError, match="not been evaluated since it was recorded"):
        sequence.get_timestamps()
    assert len(sequence.eval().get_timestamps()) == 2
    sequence.record(add).record(add).record(add)
    with pytest.raises(RuntimeError, match="3 operations"):
        sequence.record(add)
    with pytest.raises(RuntimeError, match="no timestamps"):
        mgr.sequence().get_timestamps()


def test_what_cannot_be_recorded(mgr: kp.Manager, adding: tuple[kp.Tensor, kp.OpAlgoDispatch]) -> None:
    tensor, _ = adding
    sequence = mgr.sequence()
    with pytest.raises(TypeError, match="OpAlgoDispatch"):
        sequence.record("add")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes an Algorithm"):
        kp.OpAlgoDispatch(tensor)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tensors and images"):
        kp.OpSyncLocal([1])  # type: ignore[list-item]
    for op in (kp.OpSyncDevice, kp.OpSyncLocal, kp.OpCopy):
        with pytest.raises(TypeError, match=r"takes a list .* got .* without a list; write \[tensor\]"):
            op(tensor)  # type: ignore[arg-type]
    for wrong in (lambda: kp.OpSyncDevice([]), lambda: kp.OpSyncLocal([]), lambda: kp.OpCopy([tensor])):
        with pytest.raises(RuntimeError, match="at least"):
            wrong()
    for other in (mgr.tensor([1, 2, 3]), mgr.tensor_t(np.zeros(2, np.int32))):
        with pytest.raises(RuntimeError, match="one size and type"):
            sequence.record(kp.OpCopy([tensor, other]))
    with pytest.raises(RuntimeError, match="without tensors"):
        sequence.record(kp.OpAlgoDispatch(mgr.algorithm()))
    with pytest.raises(NotImplementedError):
        sequence.record(kp.OpBase())
    assert not sequence.is_recording()


@pytest.mark.parametrize("which", ["algorithm", "tensor"])
@pytest.mark.parametrize("replayed", [False, True])
def test_what_is_destroyed_is_not_evaluated(mgr: kp.Manager, spirv: Compile, which: str, replayed: bool) -> None:
    tensor = mgr.tensor([1])
    algorithm = mgr.algorithm([tensor], spirv("v0[i] += 1;", 1))
    sequence = mgr.sequence().record(kp.OpSyncDevice([tensor])).record(kp.OpAlgoDispatch(algorithm))
    if replayed:
        sequence.eval().eval()
    (algorithm if which == "algorithm" else tensor).destroy()
    for attempt in (sequence.eval, sequence.rerecord, sequence.eval_async):
        with pytest.raises(RuntimeError, match="destroyed"):
            attempt()
    assert not sequence.is_running()
    with pytest.raises(RuntimeError, match="destroyed"):
        mgr.sequence().record(kp.OpAlgoDispatch(algorithm))
    algorithm.destroy()
    assert not algorithm.is_init()


def test_a_destroyed_sequence(mgr: kp.Manager, adding: tuple[kp.Tensor, kp.OpAlgoDispatch]) -> None:
    tensor, add = adding
    sequence = mgr.sequence(0, 2).record(add).eval()
    sequence.eval_async()
    sequence.destroy()
    sequence.destroy()
    assert (sequence.is_init(), sequence.is_running(), sequence.is_recording()) == (False, False, False)
    uses: list[Callable[[], Any]] = [
        sequence.eval, sequence.eval_await, sequence.clear, sequence.rerecord, sequence.get_timestamps,
        lambda: sequence.record(add),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(RuntimeError, match="destroyed"):
            use()
    assert _value(mgr, tensor) == 2


@pytest.mark.usefixtures("clean_handles")
def test_nothing_is_left_of_sequences() -> None:
    manager = kp.Manager()
    tensors = [manager.tensor([1]), manager.tensor([2]), manager.tensor([0])]
    for total in (0, 2):
        sequence = manager.sequence(0, total)
        sequence.record(kp.OpMult(tensors, manager.algorithm())).record(kp.OpSyncLocal(tensors[2:])).eval().eval()
        sequence.eval_async()
        del sequence
    gc.collect()
    manager.sequence().record(kp.OpCopy(tensors)).eval_async()
    manager.destroy()


KINDS = (kp.device, kp.device, kp.host, kp.storage)
TOUCH = st.tuples(st.sampled_from(["up", "down"]), st.sets(st.integers(0, 3), min_size=1).map(sorted))
COPY = st.tuples(st.just("copy"), st.permutations(range(4)).flatmap(lambda p: st.integers(2, 4).map(lambda n: p[:n])))
ADD = st.tuples(st.just("add"), st.permutations(range(4)).map(lambda p: p[:2]))
WRITE = st.tuples(st.just("write"), st.tuples(st.integers(0, 2), st.integers(-99, 99)))


class Model:
    """Both sides of four tensors, in numpy."""

    def __init__(self) -> None:
        self.sides = [[np.full(3, n, np.float32), np.full(3, n, np.float32)] for n in range(4)]
        self.sides[2][1] = self.sides[2][0]  # one side

    def do(self, what: str, where: Any) -> None:
        """Applies an operation; tensor 3 is storage, without a host side."""
        if what == "add":
            self.sides[where[1]][1] += self.sides[where[0]][1]
        elif what == "copy":
            for target in where[1:]:
                self.sides[target][1][:] = self.sides[where[0]][1]
                if where[0] != 3 and target not in (2, 3):
                    self.sides[target][0][:] = self.sides[where[0]][0]
        elif what in ("up", "down"):
            for number in set(where) & {0, 1}:
                host, device = self.sides[number]
                (device if what == "up" else host)[:] = host if what == "up" else device


@given(st.lists(st.lists(TOUCH | COPY | ADD, min_size=1, max_size=6), min_size=1, max_size=4), st.lists(WRITE))
def test_random_programs(
    any_mgr: kp.Manager, spirv: Compile, programs: list[list[tuple[str, Any]]], writes: list[tuple[str, Any]]
) -> None:
    """Each sequence is evaluated three times: once eagerly, twice as a graph."""
    tensors, model = [any_mgr.tensor([n] * 3, kind) for n, kind in enumerate(KINDS)], Model()
    any_mgr.sequence().eval(kp.OpSyncDevice(tensors))
    shader = spirv("v1[i] += v0[i];", 2)
    make: dict[str, Callable[..., kp.OpBase]] = {
        "up": kp.OpSyncDevice, "down": kp.OpSyncLocal, "copy": kp.OpCopy,
        "add": lambda pair: kp.OpAlgoDispatch(any_mgr.algorithm(pair, shader)),
    }  # fmt: skip
    sequences = [any_mgr.sequence() for _ in programs]
    for sequence, program in zip(sequences, programs, strict=True):
        for what, where in program:
            sequence.record(make[what]([tensors[n] for n in where]))
    for turn in range(3):
        for _, (n, value) in writes[turn::3]:
            tensors[n].data()[:] = model.sides[n][0][:] = value
        for sequence, program in zip(sequences, programs, strict=True):
            sequence.eval_async()
            for what, where in program:
                model.do(what, where)
        for sequence in sequences:
            sequence.eval_await()
        for n in range(3):
            assert np.array_equal(tensors[n].data(), model.sides[n][0]), (turn, n)
    for tensor, (_, device) in zip(tensors, model.sides, strict=True):
        assert np.array_equal(tensor.primary.numpy(), device)


def test_one_operation_again_and_again_takes_what_it_uses_as_it_is_now(any_mgr: kp.Manager, spirv: Compile) -> None:
    """Push constants, data and the algorithm change in between; the operation is the same or an equal one."""
    declared = "layout(push_constant) uniform P { float p; };"
    one, other, total = tensors = [any_mgr.tensor([k, 2 * k]) for k in (1, 10, 0)]
    add = any_mgr.algorithm(tensors, spirv("v2[i] += p * v0[i];", 3, declared), push_consts=[1])
    sequence, elsewhere, same = any_mgr.sequence(), any_mgr.sequence(), kp.OpAlgoDispatch(add)
    expected = np.zeros(2)
    for p in (1, 7, 2, 4):
        one.data()[0] = p
        for _ in range(p):
            elsewhere.eval(kp.OpSyncDevice(tensors))
        elsewhere.eval(kp.OpAlgoDispatch(add, [p]))
        for again in range(5):
            sequence.eval(same if again % 2 else kp.OpAlgoDispatch(add))
        expected += 6 * p * one.data()
        for _ in range(p):
            elsewhere.eval(kp.OpSyncLocal([total]))
        assert total.data().tolist() == expected.tolist()
    kp.OpMult(tensors, add)
    sequence.eval(same)
    elsewhere.eval(kp.OpSyncLocal([total]))
    assert total.data().tolist() == (one.data() * other.data()).tolist()
    add.destroy()
    with pytest.raises(kp.KomputeError, match="destroyed"):
        sequence.eval(same)


def test_one_operation_again_and_again_is_timed_each_time(mgr: kp.Manager, product: bytes) -> None:
    tensors = [mgr.tensor([2]) for _ in range(3)]
    dispatch, sequence = kp.OpAlgoDispatch(mgr.algorithm(tensors, product)), mgr.sequence(total_timestamps=1)
    starts = []
    for _ in range(6):
        start, end = sequence.eval(dispatch).get_timestamps()
        assert start <= end
        starts.append(start)
    assert sorted(set(starts)) == starts


def test_an_operation_of_ones_own_is_asked_each_time(mgr: kp.Manager) -> None:
    asked = []

    class Own(kp.OpBase):
        def commands(self) -> list[Any]:
            asked.append(self)
            return []

    operation, sequence = Own(), mgr.sequence()
    for _ in range(5):
        sequence.eval(operation)
    assert asked == [operation] * 5
