"""Lazy arrays: whatever is computed when, in whichever kernel, the values are those of numpy's order of operations."""

from __future__ import annotations

import gc
import operator
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.expressions import lazy, structure
from vkcompute.core.buffer import Buffer

N = 6
pytestmark = pytest.mark.device_only

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "number": lambda x, y: 3 - x * 2 + y,
    "maximum": lambda x, y: (np if isinstance(x, np.ndarray) else vnp).maximum(x, y),
    "where": lambda x, y: (np if isinstance(x, np.ndarray) else vnp).where(x < y, x, y - 1),
}
INPLACE: dict[str, Callable[[Any, Any], None]] = {
    "add": lambda x, y: x.__iadd__(y),
    "multiply": lambda x, y: x.__imul__(y),
    "assign": lambda x, y: x.__setitem__(..., y),
    "reverse": lambda x, y: x.__setitem__(slice(None, None, -1), y),
    "fill": lambda x, _: x.__setitem__(slice(1, 4), 7),
    "write": lambda x, _: x.__setitem__(slice(2), np.array([5, 6], np.int32)),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "reversed": lambda x: x[::-1],
    "whole": lambda x: x[:],
    "permuted": lambda x: (np if isinstance(x, np.ndarray) else vnp).reshape(x.reshape(2, 3).T, (-1,)),
    "sum": lambda x: x * 0 + x.sum(dtype=np.int32),
    "copy": lambda x: x.copy(),
}
index = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("binary"), st.sampled_from([*BINARY]), index, index, index),
    st.tuples(st.just("inplace"), st.sampled_from([*INPLACE]), index, index),
    st.tuples(st.just("view"), st.sampled_from([*VIEWS]), index, index),
    st.tuples(st.just("look"), index),
    st.tuples(st.just("kernel"), index, index),
    st.tuples(st.just("drop"), index),
)
bump = vc.elementwise("x * 3 + 1")


class Machine:
    """The same program on device arrays and on numpy arrays. Steps that numpy rejects are left out."""

    def __init__(self, gpu: vc.Runtime) -> None:
        self.hosts: list[Any] = [np.arange(N, dtype=np.int32) * (k + 1) for k in range(6)]
        self.arrays: list[Any] = [gpu.array(host) for host in self.hosts]

    def step(self, kind: str, *args: Any) -> None:
        getattr(self, kind)(*args)

    def both(self, work: Callable[[list[Any]], Any]) -> None:
        with np.errstate(all="ignore"):
            work(self.hosts)
        work(self.arrays)

    def binary(self, name: str, x: int, y: int, out: int) -> None:
        self.both(lambda them: them.__setitem__(out, BINARY[name](them[x], them[y])))

    def inplace(self, name: str, x: int, y: int) -> None:
        self.both(lambda them: INPLACE[name](them[x], them[y]))

    def view(self, name: str, x: int, out: int) -> None:
        self.both(lambda them: them.__setitem__(out, VIEWS[name](them[x])))

    def look(self, x: int) -> None:
        assert np.array_equal(self.arrays[x].numpy(), self.hosts[x])

    def kernel(self, x: int, out: int) -> None:
        bump(self.arrays[x], out=self.arrays[out])
        self.hosts[out][...] = self.hosts[x] * 3 + 1

    def drop(self, x: int) -> None:
        self.both(lambda them: them.__setitem__(x, them[x - 1] + 0))


def run(gpu: vc.Runtime, steps: list[Any]) -> None:
    machine = Machine(gpu)
    for step in steps:
        machine.step(*step)
    for number in range(6):
        machine.look(number)


@given(st.lists(STEPS, max_size=30))
def test_programs_have_numpys_results(gpu: vc.Runtime, steps: list[Any]) -> None:
    run(gpu, steps)


def test_an_operand_that_changes_is_computed_before(gpu: vc.Runtime) -> None:
    data = np.arange(8, dtype=np.float32)
    changes: list[Callable[[vc.Array], object]] = [
        lambda x: x.fill(0),
        lambda x: x.write(data * 0),
        lambda x: x.__iadd__(5),
        lambda x: x[2:].__imul__(3),
        lambda x: x.copy_from(gpu.zeros(8)),
        lambda x: bump(x, out=x),
        lambda x: vc.multiply(x, x, x),
        lambda x: x.close(),
    ]
    if gpu.device.memory.unified:
        changes.append(lambda x: np.from_dlpack(x).__setitem__(slice(None), -1))
    for change in changes:
        x = gpu.array(data)
        lazy_one, view = x * 2 + 1, x[4:] - 1
        nested = lazy_one * lazy_one
        assert lazy_one.is_pending
        change(x)
        assert np.array_equal(nested.numpy(), (data * 2 + 1) ** 2)
        assert np.array_equal(lazy_one.numpy(), data * 2 + 1)
        assert np.array_equal(view.numpy(), data[4:] - 1)


def launches(gpu: vc.Runtime, work: Callable[[], object]) -> int:
    """The number of tasks that `work` launches."""
    with gpu.profile() as profile:
        kept = work()
        gpu.wait()
        del kept
    return len(profile.tasks)


def test_an_expression_is_one_launch(unlimited: vc.Runtime) -> None:
    x, y = unlimited.array(np.ones(100, np.float32)), unlimited.array(np.ones(100, np.float32))
    assert launches(unlimited, lambda: ((x + y) * 2 - vnp.sin(x) / y).compute()) == 1
    assert launches(unlimited, lambda: vnp.sum((x + y) * 2 - y, axis=0).compute()) <= 2  # stages
    unlimited.wait()
    kept = [x + 1, x * 2]
    assert launches(unlimited, lambda: None) == 2  # wait() computes what is pending
    assert not any(array.is_pending for array in kept)


def test_what_costs_much_and_is_read_twice_is_computed_once(gpu: vc.Runtime) -> None:
    x = gpu.array(np.ones(100, np.float32))

    def expensive() -> object:
        shared = vnp.exp(vnp.sin(x))
        one, other = shared + 1, shared * 2
        one.compute()
        other.compute()
        assert not shared.is_pending
        return one, other

    def cheap() -> object:
        shared = x + 1
        one, other = shared + 1, shared * 2
        one.compute()
        other.compute()
        is_pending = shared.is_pending
        del shared
        assert is_pending
        return one, other

    assert launches(gpu, expensive) == 3
    assert launches(gpu, cheap) == 2


def test_long_chains_and_many_operands_are_divided(gpu: vc.Runtime) -> None:
    data = [np.full(50, k, np.int32) for k in range(40)]
    arrays = [gpu.array(host) for host in data]
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array * 2
    assert np.array_equal(total.numpy(), data[0] + 2 * sum(data[1:]))
    x = arrays[1]
    for _ in range(5 * structure.MOST_STEPS):
        x = x + 1
    assert np.array_equal(x.numpy(), data[1] + 5 * structure.MOST_STEPS)


def test_results_are_the_same_to_the_bit_unfused(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x, y = (gpu.array(rng.normal(size=(33, 65)).astype(np.float32)) for _ in range(2))

    def results() -> list[Any]:
        z = vnp.exp(x) * y - vnp.tanh(x / y) + (x - vnp.mean(x, axis=0)) ** 2
        return [array.numpy() for array in (z, vnp.sum(z), vnp.var(z, axis=1), vnp.where(z > 0, z, y * 1e8 + 1 - 1e8))]

    fused = results()
    monkeypatch.setattr(lazy, "fuses", False)
    assert not (x + y).is_pending
    for one, other in zip(fused, results(), strict=True):
        assert np.array_equal(one, other)


def test_many_shapes_compile_one_kernel(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    from vkcompute.jit.elementwise import program

    made = []
    build = program.ProgramSource.specialize
    monkeypatch.setattr(
        program.ProgramSource, "specialize", lambda self, *key: (made.append(key), build(self, *key))[1]
    )
    for n in range(1, 60):
        x = gpu.array(np.arange(n * 8, dtype=np.int32))
        assert np.array_equal((x * 5 - 3).numpy(), np.arange(n * 8) * 5 - 3)
        x = x.reshape(n, 8)
        assert np.array_equal((x * 5 - 3).numpy(), np.arange(n * 8).reshape(n, 8) * 5 - 3)
    assert len(made) <= 2


def test_a_recorded_graph_computes_its_expressions_in_each_run(gpu: vc.Runtime) -> None:
    data = np.arange(6, dtype=np.int32)
    before = gpu.array(data) + 100
    x, out, total = gpu.array(data), gpu.zeros(6, np.int32), gpu.zeros((), np.int32)
    with gpu.record(x=x) as graph:
        assert not before.is_pending  # not computed in each run
        inside = graph["x"] * 2 + 1
        out[...] = inside - before * 0
        total[...] = vnp.sum(inside, dtype=np.int32)
        graph["x"][...] = graph["x"] + 1
        left = inside * 3
    assert not left.is_pending
    for turn in range(3):
        graph.run()
        now = (data + turn) * 2 + 1
        assert np.array_equal(out.numpy(), now)
        assert total.item() == now.sum()
    graph.run(x=gpu.array(data * 0 - 1))
    assert np.array_equal(out.numpy(), data * 0 - 1)
    assert np.array_equal(before.numpy(), data + 100)


@vc.kernel
def overwrite(x: Any, values: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        x[i] = values[i]


WRITES: dict[str, Any] = {
    "by indices": lambda x, f, at: x.__setitem__(at, f),
    "by indices, a number": lambda x, f, at: x.__setitem__(at, 5),
    "by indices, in place": lambda x, f, at: x.__setitem__(at, x[at] + 3),
    "in place, by its sum": lambda x, f, at: x.__imul__(x.sum()),
    "a sum": lambda x, f, at: x.__setitem__(..., x.sum()),
    "out": lambda x, f, at: np.add(f, f.sum(), out=x),
    "ufunc.at": lambda x, f, at: np.add.at(x, at, 3),
    "put_along_axis": lambda x, f, at: vnp.put_along_axis(x, at, f, 0),
    "put": lambda x, f, at: vnp.put(x, at, 5),
    "a kernel": lambda x, f, at: overwrite(x, f * 1),
    "a copy": lambda x, f, at: x.copy_from(f),
    "a fill": lambda x, f, at: x.fill(5),
}


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("is_input", [False, True])
def test_a_recorded_expression_reads_what_its_operand_was(gpu: vc.Runtime, kind: str, *, is_input: bool) -> None:
    """Also where the write takes a temporary of the graph, whose launch has no memory yet."""
    values = np.arange(4, dtype=np.float32)
    x, f, at = gpu.array(values), gpu.array(values + 7), gpu.array(np.arange(4, dtype=np.int32))
    out, after, expected = gpu.zeros(4), gpu.zeros(4), gpu.array(values)
    WRITES[kind](expected, f, at)
    with gpu.record(x=x) if is_input else gpu.record() as graph:
        given = graph["x"] if is_input else x
        old = given * 2 + 1
        WRITES[kind](given, f, at)
        out[...] = old
        after[...] = given
    for _ in range(2):
        x.write(values)
        graph.run()
        np.testing.assert_array_equal(out.numpy(), values * 2 + 1)
        np.testing.assert_array_equal(after.numpy(), expected.numpy())


def test_errors_leave_nothing_half_made(gpu: vc.Runtime) -> None:
    x, y = gpu.array(np.ones(3, np.float32)), gpu.array(np.ones(4, np.float32))
    gc.collect()
    pending = len(gpu.pending)
    for work, kind, message in (
        (lambda: x + y, ValueError, r"add: .*broadcast; got shapes \(3,\), \(4,\)"),
        (lambda: vnp.add(x, {1}), TypeError, r"add takes arrays, numbers, and lists of these; got set"),
        (lambda: x + "a", TypeError, "unsupported operand"),
        (lambda: x & 1, TypeError, "bitwise_and takes integers and bools; got float32"),
        (lambda: gpu.array(np.uint32([1])) + -1, OverflowError, "uint32 holds 0 to 4294967295; got -1"),
        (lambda: -gpu.array([True]), TypeError, "negative takes numbers; got bools"),
        (lambda: bool(x > 0), ValueError, "only an array of one element"),
        (lambda: vnp.sum(x, axis=1), ValueError, "sum: an array of 1 axes"),
        (lambda: x.__iadd__(y), ValueError, "broadcast"),
        (lambda: gpu.array(np.int32([1])).__iadd__(1.5), TypeError, "the result is float32"),
    ):
        with pytest.raises(kind, match=message):  # type: ignore[arg-type]
            work()  # type: ignore[no-untyped-call]
    gc.collect()
    assert len(gpu.pending) == pending
    assert np.array_equal((x + 1).numpy(), [2, 2, 2])


def test_threads_share_expressions(gpu: vc.Runtime) -> None:
    data = np.arange(1000, dtype=np.int32)
    x = gpu.array(data)
    shared = x * 2
    start = threading.Barrier(4)

    def work(k: int) -> None:
        start.wait(hang_limit_s(60))
        for turn in range(20):
            mine = shared + k * turn
            assert np.array_equal(mine.numpy(), data * 2 + k * turn)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_nothing_is_kept_alive(gpu: vc.Runtime) -> None:
    x = gpu.array(np.ones(1000, np.float32))
    for _ in range(500):
        y = x * 2 + 1
        z = y - x
        z.compute()
    del y, z
    gc.collect()
    assert not gpu.pending
    assert len(x.buffer.readers or {}) < 200


def test_two_runtimes(gpu: vc.Runtime) -> None:
    with vc.Runtime() as other:
        x, y = gpu.zeros(3), other.zeros(3)
        for combine in (operator.add, operator.matmul):
            with pytest.raises(
                ValueError, match=r"of two runtimes, .*; make all on one with device=gpu or vc\.set_default"
            ):
                combine(x, y)
        kept = y + 1
    with pytest.raises(vc.ClosedError):
        kept.numpy()


def test_a_recording_leaves_the_expressions_of_other_threads_alone(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.arange(5, dtype=np.float32)), gpu.zeros(5)
    made: list[Any] = []
    with gpu.record() as graph:
        thread = threading.Thread(target=lambda: made.extend([x + 1, x * 2]))
        thread.start()
        thread.join()
        out.copy_from(x * 3)
        x.fill(1)  # the recorded fill would overwrite what the other thread's expressions read
    assert made[0].tolist() == [1, 2, 3, 4, 5]
    assert made[1].tolist() == [0, 2, 4, 6, 8]
    graph.run()
    assert out.tolist() == [0, 3, 6, 9, 12]
    graph.run()
    assert (out.tolist(), x.tolist()) == ([3] * 5, [1] * 5)


def test_a_reader_is_registered_once_with_memory_that_is_computed(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[object] = []
    add = Buffer.add_reader

    def note(buffer: Buffer, reader: Any) -> bool:
        registered.append(reader)
        return add(buffer, reader)

    monkeypatch.setattr(Buffer, "add_reader", note)
    x = gpu.array(np.arange(8, dtype=np.float32))
    y = x + 1
    z = y * 2
    registered.clear()
    y.compute()
    assert registered == [z.expression.reader]
    y.fill(0)
    assert z.numpy().tolist() == ((np.arange(8) + 1) * 2).tolist()
