"""Managers: devices, queues, and objects destroyed in any order, twice, or never."""

from __future__ import annotations

import itertools
import logging
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.compat import kp

PROPERTIES = {
    "device_name", "max_work_group_count", "max_work_group_invocations", "max_work_group_size",
    "max_push_constants_size", "timestamps_supported",
}  # fmt: skip


def test_devices_are_listed(mgr: kp.Manager) -> None:
    mine, everyone = mgr.get_device_properties(), mgr.list_devices()
    assert mine.keys() == PROPERTIES
    assert everyone[0] == mine
    assert mine["device_name"] == mgr.runtime.device.name
    assert len(mine["max_work_group_size"]) == len(mine["max_work_group_count"]) == 3
    assert mine["timestamps_supported"] is True


def test_a_device_is_chosen_by_index_or_name(mgr: kp.Manager) -> None:
    for chosen in (0, mgr.runtime.device.name[:5]):
        manager = kp.Manager(chosen)
        assert manager.get_device_properties() == mgr.get_device_properties()
        manager.destroy()
    with pytest.raises(kp.KomputeError, match="no device fits 99") as raised:
        kp.Manager(99)
    assert isinstance(raised.value.__cause__, vc.NoDevice)


def test_the_environment_names_a_device_where_the_program_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_DEVICE", "of another world")
    with pytest.raises(kp.KomputeError, match="of another world', from VKCOMPUTE_DEVICE"):
        kp.Manager()
    kp.Manager(0).destroy()


def test_queues_and_extensions(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kp"):
        manager = kp.Manager(0, [0, 7], ["VK_KHR_timeline_semaphore", "VK_of_another_world"])
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "no queue family 7" in said
    assert "no extension VK_of_another_world" in said
    assert manager.sequence(queue_index=1).is_init()
    for wrong in (-1, 2):
        with pytest.raises(RuntimeError, match="the manager's queues, 0 to 1; got"):
            manager.sequence(wrong)
    manager.destroy()


def test_a_destroyed_manager_makes_nothing() -> None:
    manager = kp.Manager()
    tensor, algorithm, sequence = manager.tensor([1]), manager.algorithm(), manager.sequence()
    product = kp.OpMult([tensor] * 2 + [manager.tensor([0])], algorithm)
    sequence.record(product).eval_async()
    manager.destroy()
    assert (sequence.is_running(), algorithm.get_tensors()) == (False, [])
    assert not any(item.is_init() for item in (tensor, algorithm, sequence))
    makers: list[Callable[[], object]] = [
        lambda: manager.tensor([1]), lambda: manager.tensor_t([1]), manager.sequence, manager.list_devices,
        manager.get_device_properties, lambda: manager.algorithm([tensor], b"x"), sequence.eval,
    ]  # fmt: skip
    for make in makers:
        with pytest.raises(RuntimeError, match="destroyed"):
            make()
    assert "destroyed" in repr(manager)


@pytest.mark.usefixtures("clean_handles")
@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_any_order_of_destruction(product: bytes, order: tuple[int, ...]) -> None:
    manager = kp.Manager()
    tensors = [manager.tensor([3]) for _ in range(3)]
    algorithm = manager.algorithm(tensors, product)
    sequence = manager.sequence().record(kp.OpSyncDevice(tensors)).record(kp.OpAlgoDispatch(algorithm)).eval()
    sequence.eval_async()
    destroy: list[Callable[[], None]] = [
        manager.destroy, algorithm.destroy, sequence.destroy, lambda: [tensor.destroy() for tensor in tensors].clear()
    ]  # fmt: skip
    for which in order * 2:
        destroy[which]()


def test_threads_share_a_manager(mgr: kp.Manager, spirv: Callable[..., bytes]) -> None:
    """Each thread makes and replays its own tensors and sequences, on one common input."""
    common, shader = mgr.tensor(np.arange(100)), spirv("v1[i] += v0[i];", 2)
    mgr.sequence().eval(kp.OpSyncDevice([common]))

    def work(n: int) -> bool:
        own = mgr.tensor(np.full(100, n))
        add = kp.OpAlgoDispatch(mgr.algorithm([common, own], shader))
        mgr.sequence().eval(kp.OpSyncDevice([own]))
        sequence = mgr.sequence().record(add).record(add)
        for _ in range(10):
            sequence.eval()
        mgr.sequence().eval(kp.OpSyncLocal([own]))
        return bool(np.array_equal(own.data(), n + 20 * np.arange(100)))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))


def test_sequences_are_profiled(mgr: kp.Manager, product: bytes) -> None:
    tensors = [mgr.tensor([3, 4]) for _ in range(3)]
    sequence = mgr.sequence(total_timestamps=3).record(kp.OpSyncDevice(tensors))
    sequence.record(kp.OpAlgoDispatch(mgr.algorithm(tensors, product))).record(kp.OpSyncLocal(tensors[2:]))
    with mgr.runtime.profile() as profile:
        sequence.eval().eval()
    assert tensors[2].data().tolist() == [9, 16]
    names = [task.name.split()[0] for task in profile.tasks]
    assert (names.count("copy"), names.count("timestamp"), names.count("<spirv")) == (8, 8, 2)
    ticks = sequence.get_timestamps()
    assert ticks == sorted(ticks)


@pytest.mark.usefixtures("clean_handles")
def test_objects_outlive_the_last_name_of_their_manager() -> None:
    tensor = kp.Manager().tensor([1, 2])
    tensor.manager.sequence().record(kp.OpSyncDevice([tensor])).record(kp.OpSyncLocal([tensor])).eval()
    assert tensor.data().tolist() == [1, 2]


AT_THE_END = """
import vkcompute.compat.kp as kp
manager = kp.Manager()
a, b, c = (manager.tensor([1.0] * 50) for _ in range(3))
view = c.data()
sequence = manager.sequence().record(kp.OpMult([a, b, c], manager.algorithm()))
sequence.eval_async()
print("done")
"""


def test_a_program_may_end_with_everything_alive(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(AT_THE_END, env=dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


IMPORT = """
import sys
import vkcompute.compat.kp
print([name for name in ("vulkan",) if name in sys.modules])
"""


def test_importing_loads_no_driver(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert run_python(IMPORT, env=dict(os.environ)).stdout == "[]\n"


def test_what_is_of_another_type_is_said(mgr: kp.Manager, product: bytes) -> None:
    tensors = [mgr.tensor([2, 3]) for _ in range(3)]
    sequence = mgr.sequence().eval(kp.OpSyncDevice(tensors))
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("records operations such as", lambda: sequence.eval(kp.OpSyncLocal)),  # type: ignore[arg-type]
        ("list of tensors and images; got None", lambda: mgr.algorithm(None, product)),  # type: ignore[arg-type]
        ("list of workgroups along x, y and z; got 2", lambda: mgr.algorithm(tensors, product, 2)),  # type: ignore[arg-type]
        ("an integer", lambda: mgr.sequence(0.5)),  # type: ignore[arg-type]
        ("an integer", lambda: mgr.sequence(0, 1.5)),  # type: ignore[arg-type]
        ("an integer", lambda: mgr.image([1], 1.0, 1, 1)),  # type: ignore[arg-type]
        ("one of kp.ImageTilings; got 'linear'", lambda: mgr.image([1], 1, 1, 1, kp.device, "linear")),  # type: ignore[arg-type]
        ("list of names; got 'VK_KHR_x'", lambda: kp.Manager(0, [], "VK_KHR_x")),
    ]
    for says, call in wrong:
        with pytest.raises(TypeError, match=says):
            call()
    with pytest.raises(kp.KomputeError, match="at least one texel along each axis; got -1 x -1"):
        mgr.image([1], -1, -1, 1)
    sequence.eval(kp.OpAlgoDispatch(mgr.algorithm(tensors, product, np.array([2, 1, 1]))))
    sequence.eval(kp.OpSyncLocal(tensors))
    assert tensors[2].data().tolist() == [4, 9]
