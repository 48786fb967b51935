"""A device on paper: the scheduler's real code records into lists, and a history of what it asked for is kept.

Nothing runs. How far each queue has come is the test's to say, within what the waits allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from happens_before import Access, Barrier, Event, Recorded, Replay, Seen, Submit, Wait

from vkcompute.core.command import BEGIN_REUSABLE
from vkcompute.core.interrupts import Guarded
from vkcompute.errors import VulkanError
from vkcompute.locks import Rank
from vkcompute.runtime.memory.transfers import Transfers
from vkcompute.runtime.scheduling import command_queue, recording, scheduler, task
from vkcompute.runtime.scheduling.cost import NOTHING
from vkcompute.runtime.scheduling.recording import Recording
from vkcompute.runtime.scheduling.scheduler import Scheduler
from vkcompute.runtime.scheduling.task import CopyPart, Task

_NOWHERE = 1 << 20  # an address that nobody follows


class PaperQueue:
    """Stands for core's Queue."""

    def __init__(self, device: PaperDevice, family: int, index: int, role: str) -> None:
        self.device, self.family, self.index, self.role = device, family, index, role
        self.last_value = self.completed = self.reached = 0
        self.recording = False
        self._waits: list[list[tuple[PaperQueue, int]]] = [[]]  # by value

    def submit(self, command_buffers: Sequence[Any], waits: Any = ()) -> int:
        if self.device.n_to_fail:
            self.device.n_to_fail -= 1
            raise VulkanError("VK_ERROR_OUT_OF_HOST_MEMORY", "vkQueueSubmit", str(self))
        self.last_value += 1
        self._waits.append(list(waits))
        commands = [item for buffer in command_buffers for item in ([Replay(buffer)] if buffer.reusable else buffer)]
        semaphores = [Wait(queue.index, value) for queue, value in self._waits[-1]]
        self.device.history.append(Submit(self.index, self.last_value, semaphores, commands))
        return self.last_value

    def run(self, value: int) -> None:
        """The device runs the queue up to `value`, and what that waits for."""
        while self.reached < value:
            for queue, needed in self._waits[self.reached + 1]:
                queue.run(needed)
            self.reached += 1

    def poll(self) -> int:
        self._see(self.reached)
        return self.completed

    def wait(self, value: int, timeout_s: float | None = None) -> bool:
        if value > self.completed:
            self.run(value)
            self._see(value, waited=True)
        return True

    def _see(self, value: int, waited: bool = False) -> None:
        if value > self.completed:
            self.completed = value
            self.device.history.append(Seen(self.index, value, waited))

    def __str__(self) -> str:
        return f"{self.role} queue {self.index} of {self.device}"


class PaperDevice(Guarded):
    """Stands for core's Device, with queues given as (family, role). The next `n_to_fail` submits fail."""

    def __init__(self, queues: Sequence[tuple[int, str]]) -> None:
        self.n_to_fail = 0
        self.history: list[Event] = []
        super().__init__(Rank.DEVICE)
        self.deletion_queue = SimpleNamespace(collect=lambda: None)
        self.retry = lambda call, *args: call(*args)
        self.memory = SimpleNamespace(reusable=SimpleNamespace())
        self.queues = [PaperQueue(self, family, i, role) for i, (family, role) in enumerate(queues)]

    def refuse_interruption(self, frame: Any) -> None:
        """Allows the tests' own tasks, which no file of the package defines."""

    def wait_idle(self) -> None:
        for queue in self.queues:
            queue.wait(queue.last_value)

    def __str__(self) -> str:
        return "a device on paper"


class PaperBuffer:
    """Stands for core's Buffer."""

    def __init__(self) -> None:
        self.history: Any = None
        self.readers = {}
        self.block = SimpleNamespace(handle=self)
        self.offset, self.address = 0, _NOWHERE


class PaperCommands(list[Access | Barrier]):
    """A command buffer."""

    reusable = False

    def __init__(self, family: int) -> None:
        self.family = family


class PaperPool:
    """Stands for core's CommandPool."""

    secondary = False

    def __init__(self, queue: PaperQueue) -> None:
        self.queue, self.device = queue, queue.device
        self.pending: list[tuple[int, PaperCommands]] = []

    def acquire(self) -> PaperCommands:
        return PaperCommands(self.queue.family)

    def discard(self, command_buffer: PaperCommands) -> None:
        pass


class PaperRecorder:
    """Stands for core's Recorder; a dispatch's command is its reads and writes, and so are a copy's regions."""

    def __init__(self, queue: PaperQueue, handle: PaperCommands, begin: Any = None) -> None:
        self.history, self.items = queue.device.history, handle
        self.handle, self.ended, handle.reusable = handle, False, begin is BEGIN_REUSABLE

    def dispatch(self, reads: Any, writes: Any) -> None:
        self._add(Access("launch", reads, writes))

    def copy(self, source: Any, target: Any, regions: Any, n_regions: int) -> None:
        self._add(Access("copy", *regions))

    def fill(self, target: Any, offset: int, nbytes: int, word: int) -> None:
        self._add(Access("fill", [], [(target, offset, offset + nbytes)]))

    def barrier(self) -> None:
        self.items.append(Barrier())

    def end(self) -> None:
        pass

    def _add(self, command: Access) -> None:
        self.items.append(command)
        if not self.items.reusable:
            self.history.append(Recorded(command))


class PaperTask(Task):
    """A launch in a recording."""

    def record(self, recorder: Any) -> None:
        recorder.dispatch(self.reads, self.writes)


class Paper:
    """A scheduler on such a device."""

    def __init__(self, queues: Sequence[tuple[int, str]], *, submits_early: bool = False) -> None:
        self.device = PaperDevice(queues)
        self.scheduler = Scheduler(self.device, None, submits_early=submits_early)  # type: ignore[arg-type]
        self.transfers = Transfers.__new__(Transfers)
        self.transfers._scheduler = self.scheduler

    def launch(self, writes: Any, reads: Any, queue: Any = None) -> Any:
        kernel: Any = SimpleNamespace(name="launch")
        return self.scheduler.dispatch((reads, writes), writes, reads, queue, (kernel, kernel, NOTHING))

    def copy(self, source: Any, target: Any, queue: Any = None) -> Any:
        return self.scheduler.copy([CopyPart(source, ([source], [target]), 1)], target, queue)

    def record(self, tasks: Sequence[tuple[Any, Any]]) -> Recording:
        queue: Any = self.scheduler.placement.recording_queue
        pool: Any = PaperPool(queue)
        return Recording(pool, [PaperTask(*ranges) for ranges in tasks], None)

    def replay(self, recording: Recording, times: int) -> Any:
        family = recording.handle.family
        return self.scheduler.replay(recording, family, times)

    def host(self, where: Any, write: bool) -> None:
        buffer, start, stop = where
        self.transfers.mapped(buffer, start, stop - start, write=write)
        touched: tuple[Any, Any] = ([], [where]) if write else ([where], [])
        self.device.history.append(Access("host", *touched))


@contextmanager
def on_paper(batch_tasks: int = 64) -> Iterator[None]:
    """Lets schedulers and recordings made in the block record on paper."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (command_queue, recording):
            patch.setattr(module, "Recorder", PaperRecorder)
        patch.setattr(command_queue, "CommandPool", PaperPool)
        patch.setattr(command_queue, "FEW_BATCHES", 512)  # waits for a queue with much work depend on times
        patch.setattr(scheduler, "BATCH_TASKS", batch_tasks)
        patch.setattr(task, "bytes_read", lambda parts, target: [part.source for part in parts])
        yield
