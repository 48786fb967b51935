"""How the host learns that tasks have finished or failed."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.core.device import Device
from vkcompute.runtime.scheduling.callbacks import CompletionCallbacks
from vkcompute.runtime.scheduling.command_queue import Failure, Lane
from vkcompute.runtime.scheduling.watcher import Watcher


class CompletionTracker:
    """Completion of the tasks of one device, for the futures of these tasks.

    Attributes:
        failures: the tasks that have failed, in the order in which they did; shared by all queues.
        callbacks: what is called when launches have finished.
        watcher: waits on behalf of others.
    """

    def __init__(self, device: Device, lanes: Sequence[Lane], failures: list[Failure], owner: object) -> None:
        self._owner = owner  # futures keep the runtime alive
        self.device, self.failures = device, failures
        self.callbacks = CompletionCallbacks(device, lanes)
        self.watcher = Watcher()

    def run_callbacks(self) -> None:
        """Calls the completion callbacks of finished launches."""
        if self.callbacks:
            self.callbacks.run()
