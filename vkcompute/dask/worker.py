"""A worker of Dask on a device: one thread that launches, the resource GPU, results on the device, metrics.

dask worker tcp://scheduler:8786 --preload vkcompute.dask
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from dask.utils import parse_bytes
from distributed import WorkerPlugin
from distributed.core import error_message
from distributed.threadpoolexecutor import ThreadPoolExecutor
from distributed.worker import Worker

from vkcompute.core.features import DISABLED
from vkcompute.dask.results import arrays_in, launch
from vkcompute.dask.store import DeviceStore
from vkcompute.dtypes import kernel_dtypes
from vkcompute.errors import DeviceLost, OutOfDeviceMemory, VkComputeError
from vkcompute.runtime.runtime import default_runtime

LIMIT = "VKCOMPUTE_DASK_DEVICE_MEMORY"
"""The environment variable with the most bytes of results on a worker's device: 2GiB, or a fraction of its memory."""
_DEFAULT_LIMIT = "0.6"
_log = logging.getLogger("distributed.vkcompute")


def finish(result: Any) -> None:
    """Computes the arrays in a result, and waits: durations and errors are those of their task."""
    launch(result)
    for runtime in {array.runtime for array in arrays_in(result)}:
        runtime.scheduler.wait()


def _error(message: Any) -> Any:
    """Returns the error in Dask's message about a task; None for a result."""
    return message.get("actual_exception") if type(message) is dict else None


def _failed(message: dict[str, Any], error: Exception) -> dict[str, Any]:
    """Returns Dask's message about a task that has failed, with the times of another message."""
    times = {name: message[name] for name in ("start", "stop", "thread")}
    return {**error_message(error), "op": "task-erred", "actual_exception": error, **times}


class LaunchThreadPoolExecutor(ThreadPoolExecutor):
    """Runs a worker's tasks on one thread, until their results are in device memory.

    A task that runs out of device memory runs once more, after all results of the worker went to the host. A worker
    whose device is lost ends, and its nanny starts another; Dask computes the lost results again.

    Attributes:
        busy_s: the time that tasks have taken.
        next_task: the key of the task that is submitted next, for its errors.
    """

    def __init__(self, worker: Any) -> None:
        super().__init__(1, thread_name_prefix="Dask-Launch")
        self._worker, self.busy_s = worker, 0.0
        self.next_task: Any = None

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Queues a call of Dask's function that runs a task."""
        return super().submit(self._run, lambda: call(*args, **named), self.next_task)

    def _run(self, call: Callable[[], Any], key: Any) -> Any:
        start = time.perf_counter()
        try:
            message = self._finished(call)
            if isinstance(_error(message), OutOfDeviceMemory):
                message = None  # it holds the frames of the task, and so its arrays
                gc.collect()
                self._spill()
                message = self._finished(call)
            error = _error(message)
            if isinstance(error, DeviceLost):
                self._lost(error)
            return message if error is None else self._named(message, error, key)
        finally:
            self.busy_s += time.perf_counter() - start

    def _finished(self, call: Callable[[], Any]) -> Any:
        """Runs a task, and waits for its result; an error of the wait is one of the task."""
        message = call()
        if type(message) is not dict or message.get("op") != "task-finished":
            return message
        try:
            finish(message["result"])
        except Exception as error:
            message = _failed(message, error)
        message["stop"] = time.time() + self._worker.scheduler_delay
        return message

    def _named(self, message: Any, error: Exception, key: Any) -> Any:
        """Returns the message with a note on its error: which task it was, and where."""
        if not hasattr(error, "add_note"):  # before Python 3.11
            return message
        error.add_note(f"in the task {key!r} of the worker {self._worker.address}, on {default_runtime().device}")
        noted = error_message(error)  # its traceback is that of an error being handled: here, of none
        return {**message, "exception": noted["exception"], "exception_text": noted["exception_text"]}

    def _spill(self) -> None:
        """Moves all results to the host, on the thread that owns the store."""
        done: Future[None] = Future()

        def spill() -> None:
            try:
                done.set_result(self._worker.data.spill())
            except BaseException as error:
                done.set_exception(error)

        self._worker.loop.add_callback(spill)
        done.result(timeout=600)

    def _lost(self, error: DeviceLost) -> None:
        if self._worker.nanny is None:
            return  # it may be a thread of the user's process; the tasks fail with this error
        _log.error("%s: the worker ends, and its nanny starts another", error)
        os._exit(1)


class AlikeDevices(WorkerPlugin):
    """Warns, before a worker joins others, if their devices have other dtypes: results would depend on the worker."""

    async def setup(self, worker: Any) -> None:
        """Compares the dtypes with those of the scheduler's workers."""
        own, others = worker.metrics["device_dtypes"](worker), await worker.scheduler.identity()
        for address, other in others["workers"].items():
            theirs = other["metrics"].get("device_dtypes", own)
            if theirs != own:
                _log.warning(
                    "results may depend on the worker: %s computes with %s, and %s with %s; set %s for all, as "
                    "shaderFloat64,shaderInt64", worker.metrics["device"](worker), own, address, theirs, DISABLED,
                )  # fmt: skip
                return


class TaskNames(WorkerPlugin):
    """Tells the executor which task runs next."""

    def __init__(self, executor: LaunchThreadPoolExecutor) -> None:
        self._executor = executor

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Notes the task that is about to be submitted."""
        if finish == "executing":
            self._executor.next_task = key


def memory_limit(given: str | None, device_bytes: int) -> int:
    """Returns a limit in bytes: of a text as "2GiB", or of a fraction of the device's memory.

    Raises:
        ValueError: it is neither.
    """
    text = given or _DEFAULT_LIMIT
    try:
        fraction = float(text)
    except ValueError:
        fraction = 2.0
    limit = int(fraction * device_bytes) if fraction <= 1 else parse_bytes(text)
    if limit <= 0:
        raise ValueError(f"{LIMIT} is a number of bytes, as 2GiB, or a fraction of the device's memory; got {given!r}")
    return int(limit)


def _used_bytes(runtime: Any) -> int:
    """Returns the bytes of a runtime's arrays. Under the lock, as another thread may be allocating."""
    with runtime.device.lock:
        return int(runtime.device.memory.used_bytes)


def dask_setup(worker: Any) -> None:
    """Makes a worker one of the default runtime's device: `--preload vkcompute.dask`; on a scheduler does nothing.

    Raises:
        SystemExit: there is no device, or none that `VKCOMPUTE_DEVICE` names, or the limit of its memory is wrong. Dask
            only logs other exceptions, and would start a worker without a device.
    """
    if not isinstance(worker, Worker):
        return
    try:
        _set_up(worker)
    except (VkComputeError, ValueError) as error:
        _log.error("the worker ends: %s", error)
        raise SystemExit(1) from error


def _set_up(worker: Any) -> None:
    runtime = default_runtime()
    memory = runtime.device.memory
    heap = runtime.device.physical.memory_heaps[memory.kinds["device"].heap]
    executor = LaunchThreadPoolExecutor(worker)
    limit, in_process = memory_limit(os.environ.get(LIMIT), heap.nbytes), runtime.device.physical.kind == "cpu"
    store = DeviceStore(worker.data, limit, in_process=in_process)
    worker.executors["default"].shutdown(wait=False)
    worker.executors["default"] = executor
    worker.memory_manager.data = worker.state.data = store
    worker.state.nthreads = 1
    for resources in (worker.state.total_resources, worker.state.available_resources):
        resources["GPU"] = 1.0
    worker._pending_plugins = (*worker._pending_plugins, TaskNames(executor), AlikeDevices())
    taken = ", ".join(kernel_dtypes(dict.fromkeys(runtime.device.features, True)))
    # The dashboard's table of workers has a column for each of them.
    worker.metrics["device"] = lambda _: runtime.device.name
    worker.metrics["device_dtypes"] = lambda _: taken
    worker.metrics["device_memory"] = lambda _: _used_bytes(runtime)
    worker.metrics["device_busy_s"] = lambda _: round(executor.busy_s, 3)
    worker.metrics["device_spilled"] = lambda _: store.n_spilled
