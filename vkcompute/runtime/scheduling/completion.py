"""Completion: how the host learns that tasks have finished or failed."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.core.device import Device
from vkcompute.runtime.scheduling.callbacks import CompletionCallbacks
from vkcompute.runtime.scheduling.command_queue import CommandQueue
from vkcompute.runtime.scheduling.failure import Failure
from vkcompute.runtime.scheduling.watcher import Watcher


class CompletionTracker:
    """Tracks the completion of one device's tasks, for their futures.

    Attributes:
        failures: of all queues, in the order in which they occurred.
        callbacks: those of launches that report to the host.
        watcher: waits on behalf of futures.
    """

    def __init__(self, device: Device, queues: Sequence[CommandQueue], failures: list[Failure], owner: object) -> None:
        self._owner = owner  # futures keep the runtime alive
        self.device, self.failures = device, failures
        self.callbacks = CompletionCallbacks(device, queues)
        self.watcher = Watcher()

    def run_callbacks(self) -> None:
        """Runs the callbacks of launches that have finished."""
        if self.callbacks:
            self.callbacks.run()
