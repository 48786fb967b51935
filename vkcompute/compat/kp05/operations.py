"""What sequences record, by the names that Kompute's functions have them by: `record_tensor_copy` has "tensor_copy"."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from vkcompute.compat import kp
from vkcompute.compat.kp05.shader import from_data, from_file
from vkcompute.compat.kp05.tensor import Tensor
from vkcompute.errors import KomputeError

Tensors = Sequence[Tensor]


def _memory(tensors: Any) -> list[kp.Tensor]:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(each, Tensor) for each in tensors):
        raise TypeError(f"an operation takes a list of kp.Tensor; got {tensors!r}")
    return [each.memory() for each in tensors]


def tensor_create(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Gives the tensors memory on the device, and copies their numbers there.

    Raises:
        KomputeError: one has some already.
    """
    if any(each.is_init() for each in tensors):
        raise KomputeError("a Tensor that is created has memory on a device already; use Manager.rebuild")
    for each in tensors:
        each.create(manager)
    return kp.OpSyncDevice(_memory(tensors))


def tensor_copy(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Copies the first tensor to all others, both sides of it."""
    return kp.OpCopy(_memory(tensors))


def tensor_sync_device(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Copies the tensors from the host's side to the device's."""
    return kp.OpSyncDevice(_memory(tensors))


def tensor_sync_local(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Copies the tensors from the device's side to the host's."""
    return kp.OpSyncLocal(_memory(tensors))


def algo_mult(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Multiplies the first tensor by the second into the third."""
    return kp.OpMult(_memory(tensors), manager.algorithm())


def algo_data(
    manager: kp.Manager,
    tensors: Tensors,
    data: Any,
    workgroup: Sequence[int] = (0, 0, 0),
    constants: Sequence[float] = (),
    *,
    work_group: Sequence[int] | None = None,
) -> kp.OpBase:
    """Runs a shader: SPIR-V as bytes, or the text of a GLSL shader.

    Args:
        tensors: the n-th is binding n of set 0.
        workgroup: workgroups along x, y and z; where x is 0 as many as the first tensor has elements.
        constants: specialization constants: the n-th is that of id n.
        work_group: `workgroup` under its earlier name.
    """
    return _dispatch(manager, tensors, from_data(data), work_group or workgroup, constants)


def algo_file(
    manager: kp.Manager,
    tensors: Tensors,
    file_path: str | os.PathLike[str],
    workgroup: Sequence[int] = (0, 0, 0),
    constants: Sequence[float] = (),
    *,
    work_group: Sequence[int] | None = None,
) -> kp.OpBase:
    """Runs a shader in a file: .spv, or GLSL in a .comp; the other arguments are those of `algo_data`."""
    return _dispatch(manager, tensors, from_file(file_path), work_group or workgroup, constants)


def _dispatch(
    manager: kp.Manager, tensors: Tensors, spirv: bytes, workgroup: Sequence[int], constants: Sequence[float]
) -> kp.OpBase:
    return kp.OpAlgoDispatch(manager.algorithm(_memory(tensors), spirv, workgroup, constants))


OPERATIONS: dict[str, Callable[..., kp.OpBase]] = {
    each.__name__: each
    for each in (
        tensor_create,
        tensor_copy,
        tensor_sync_device,
        tensor_sync_local,
        algo_mult,
        algo_file,
        algo_data,
    )
} | {"algo_str": algo_data}
