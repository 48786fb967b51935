"""Collective operations on tensors of the device: those of the host's backend, as gloo, on copies.

So `torch.distributed.init_process_group("gloo")` serves tensors of the device, and what is built on it does:
DistributedDataParallel, functional collectives, object collectives. An operation has completed when its call returns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from vkcompute.torch.kernels import is_on_device

_WRITING = (
    "_allgather_base_", "_reduce_scatter_base_", "allgather_", "allgather_coalesced_",
    "allgather_into_tensor_coalesced_", "allreduce_", "allreduce_coalesced_", "alltoall_", "alltoall_base_",
    "broadcast_", "gather_", "recv_", "recv_any_source_", "reduce_", "reduce_scatter_",
    "reduce_scatter_tensor_coalesced_", "scatter_",
)  # fmt: skip
"""Operations that write to the tensors of their first argument."""
_READING = "barrier", "send"


def add_kernels() -> Any:
    """Registers the operations for the device; returns the library, whose `_destroy` undoes it."""
    library = torch.library.Library("c10d", "IMPL")
    packets = torch.ops.c10d
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own kernels ask the process group for a backend of the device
        for name in (*_WRITING, *_READING):
            if hasattr(packets, name):
                library.impl(name, _by_host(getattr(packets, name).default, name in _WRITING), "PrivateUse1")
    return library


def _by_host(operation: Any, is_writing: bool) -> Callable[..., Any]:
    """Returns an operation on copies of its tensors in host memory."""

    def run(first: Any, *args: Any) -> Any:
        on_host = _map(lambda tensor: tensor.cpu(), first)
        result = operation(on_host, *[_map(lambda tensor: tensor.cpu(), arg) for arg in args])
        work = result[1] if isinstance(result, tuple) else result
        torch.distributed.Work.unbox(work).wait()
        if is_writing:
            for target, source in zip(_leaves(first), _leaves(on_host), strict=True):
                target.copy_(source)
        return (first, _done(first)) if isinstance(result, tuple) else _done(first)

    return run


def _done(tensors: Any) -> Any:
    """Returns the handle of an operation that has completed: to wait twice for one of gloo's may hang."""
    future: Any = torch.futures.Future()
    future.set_result(_leaves(tensors))
    return torch._C._distributed_c10d._create_work_from_future(future).boxed()


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    """Returns a value with a function of each tensor of the device in it."""
    if isinstance(value, list):
        return [_map(function, item) for item in value]
    return function(value) if is_on_device(value) else value


def _leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list) else [value]
