"""What other threads do between two lines of a call: switches on purpose, and code of the user that takes locks."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import locks

ROOT = Path(__file__).resolve().parents[2]
PAIRS = (
    "recording+flush", "recording+recording", "assignment+flush", "in_place_of_a_view+empty_recording",
    "large_expression+shared_operand", "unpickled+download", "download+unpickled", "recording_of_unpickled+wait",
    "printing_kernel+user_of_the_stream", "user_of_the_stream+printing_kernel", "shared_update+shared_read",
)  # fmt: skip


@pytest.mark.rotates
def test_pairs_of_programs_give_the_results_of_one_order() -> None:
    """All pairs, and programs that are interrupted, are for `make switches`."""
    only = ",".join((*PAIRS, "interrupted_profile"))
    command = [sys.executable, ROOT / "benchmarks" / "switches.py", "--schedules", "4", "--only", only]
    done = subprocess.run(command, capture_output=True, text=True, timeout=hang_limit_s(300), env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{4 * len(PAIRS)} runs" in done.stdout


@contextlib.contextmanager
def switched_at(name: str, file: str, work: Callable[[], object]) -> Iterator[None]:
    """Runs work on another thread, to its end, at the first call of a function in the block."""

    def at(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == name and code.co_filename.endswith(file):
            sys.setprofile(None)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(hang_limit_s(20))
            assert not thread.is_alive()

    sys.setprofile(at)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("work", ["wait", "flush", "record"])
def test_other_threads_leave_an_array_to_its_recording(gpu: vc.Runtime, work: str) -> None:
    def use() -> None:
        if work != "record":
            getattr(gpu, work)()
            return
        with gpu.record():
            pass

    x, out = gpu.array(np.float32([1, 2, 3])), gpu.zeros(3)
    with gpu.record() as graph:
        x += 10
        with switched_at("recording", "scheduler.py", use):
            y = x * 2
        out[...] = y
    graph.run()
    assert out.numpy().tolist() == [22, 24, 26]
    graph.run()
    assert out.numpy().tolist() == [42, 44, 46]


@pytest.mark.parametrize("name", ["compute_into", "flattened", "of", "launch"])
def test_an_assigned_expression_is_computed_by_another_thread_meanwhile(gpu: vc.Runtime, name: str) -> None:
    host, a = np.arange(6, dtype=np.float32), gpu.array(np.arange(6, dtype=np.float32))
    taken: list[threading.Thread] = []

    def compute() -> None:  # waits where the lock is held
        taken.append(threading.Thread(target=gpu.flush))
        taken[0].start()
        taken[0].join(0.05)

    with switched_at(name, "lazy.py", compute):
        a[...] = a * 2 + 1
    taken[0].join()
    a[1:] += a[:-1]
    host = host * 2 + 1
    host[1:] += host[:-1]
    assert a.numpy().tolist() == host.tolist()


def test_an_operand_overwritten_between_flattening_and_launch(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.float32([1, 2])), gpu.zeros(2)
    inner = x * 3
    value = inner + 1

    def overwrite() -> None:
        inner.compute()
        x.fill(100)

    with switched_at("is_current", "lazy.py", lambda: None), switched_at("flattened_to_fit", "lazy.py", overwrite):
        out[...] = value
    assert out.numpy().tolist() == [4, 7]
    assert value.numpy().tolist() == [4, 7]


def test_readers_of_a_buffer_registered_by_two_threads(gpu: vc.Runtime) -> None:
    x = gpu.array(np.float32([1, 2]))
    other: list[vc.Array] = []
    with switched_at("add_reader", "buffer.py", lambda: other.append(x + 1)):
        mine = x * 2
    x.fill(50)
    assert (mine.numpy().tolist(), other[0].numpy().tolist()) == ([2, 4], [2, 3])


# -- arrays that were unpickled ----------------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Iterator[vc.Array]:
    """An array of 1 to 5 that was unpickled, on the default runtime."""
    yield pickle.loads(pickle.dumps(vnp.arange(1, 6, dtype=np.float32)))
    vc.default_runtime().close()


def test_unpickled_arrays_are_of_no_recording(fresh: vc.Array) -> None:
    gpu, host = vc.default_runtime(), np.arange(1, 6)
    out = gpu.zeros(5)
    with gpu.record() as graph:
        out[...] = fresh + 1
        view = fresh.reshape(5, 1)
    assert fresh.numpy().tolist() == view.numpy().reshape(-1).tolist() == host.tolist()
    graph.run()
    fresh += 10
    graph.run()
    assert fresh.numpy().tolist() == (host + 10).tolist()
    assert out.numpy().tolist() == (host + 11).tolist()


def test_updates_of_unpickled_arrays_add_up(fresh: vc.Array) -> None:
    with vc.default_runtime().record() as graph:
        fresh += 1
    graph.run(2)
    assert fresh.numpy().tolist() == [3, 4, 5, 6, 7]


def test_unpickled_arrays_that_nothing_recorded_needs(fresh: vc.Array) -> None:
    gpu = vc.default_runtime()
    with gpu.record():
        _ = fresh + 1
    with gpu.record() as other:
        fresh += 1
    other.run()
    assert fresh.numpy().tolist() == [2, 3, 4, 5, 6]


# -- code of the user --------------------------------------------------------------------------------------------------


class Unlocked(io.StringIO):
    """A stream that fails where a lock of the library is held."""

    def write(self, text: str) -> int:
        assert not locks.are_held()
        return super().write(text)


@vc.kernel
def shows(x: Any) -> None:
    """Prints an element."""
    if vc.global_id(0) == 0:
        print(f"x[0] = {x[0]}")


WAYS: dict[str, Callable[[vc.Runtime, vc.Array], object]] = {
    "result": lambda gpu, x: shows[1](x).result(),
    "wait": lambda gpu, x: (shows[1](x), gpu.wait()),
    "numpy": lambda gpu, x: (shows[1](x), x.numpy()),
    "launch": lambda gpu, x: (shows[1](x), gpu.device.wait_idle(), gpu.flush(), x.fill(1), x.numpy()),
    "lazy": lambda gpu, x: (shows[1](x), gpu.flush(), gpu.device.wait_idle(), (x + 1).compute(), x.numpy()),
    "in place": lambda gpu, x: (shows[1](x), gpu.flush(), gpu.device.wait_idle(), x.__iadd__(1), x.numpy()),
    "done": lambda gpu, x: (shows[1](x), gpu.wait(), shows[1](x).done(), gpu.wait()),
}


@pytest.mark.parametrize("way", WAYS)
def test_prints_run_without_locks(gpu: vc.Runtime, way: str) -> None:
    with contextlib.redirect_stdout(Unlocked()) as stream:
        WAYS[way](gpu, gpu.zeros(4))
    assert stream.getvalue().startswith("x[0] = 0")


def test_prints_of_a_graph_run_without_locks(gpu: vc.Runtime) -> None:
    x, host = gpu.zeros(4), np.zeros(4, np.float32)
    with gpu.record() as graph:
        x.write(host)
        shows[1](x)
        x.read(host)
    with contextlib.redirect_stdout(Unlocked()) as stream:
        for _ in range(3):
            graph.submit()
        gpu.wait()
    assert stream.getvalue() == "x[0] = 0.0\n" * 3


def test_warnings_run_without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []
    monkeypatch.setattr(warnings, "showwarning", lambda *_, **__: held.append(locks.are_held()))
    with open_runtime(memory_limit_bytes=4 << 20) as gpu, warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda *_, **__: held.append(locks.are_held()))
        kept = [gpu.full(1 << 17, 1.0) for _ in range(20)]
        assert kept[0][0].item() == 1
    assert held == [False]


def test_operands_are_converted_without_locks(gpu: vc.Runtime) -> None:
    held: list[bool] = []

    class Operand:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
            held.append(locks.are_held())
            return np.ones(3, np.float32)

    x = gpu.zeros(3)
    x[...] = Operand()  # type: ignore[call-overload]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x[...] = vnp.add(x, Operand())  # type: ignore[arg-type]
    assert x.numpy().tolist() == [2, 2, 2]
    assert held
    assert not any(held)
