"""Operations by the names in Kompute's methods: `record_tensor_copy` records "tensor_copy"."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vkcompute.compat import kp
from vkcompute.compat.kp.memory_objects import Command
from vkcompute.compat.kp05.tensor import Tensor
from vkcompute.errors import KomputeError
from vkcompute.spirv.enums import MAGIC

Tensors = Sequence[Tensor]
_ALIASES = {"work_group": "workgroup", "bytes": "data", "file_path": "data"}
"""Keywords of Kompute 0.6 -> those of its later versions"""


class _OpLhsRhsOut(kp.OpAlgoDispatch):
    """Dispatches an algorithm, then copies one tensor to the host side."""

    def __init__(self, algorithm: kp.Algorithm, output: kp.Tensor) -> None:
        super().__init__(algorithm)
        self._output = output

    def commands(self) -> list[Command]:
        return [*super().commands(), *self._output.to_host()]


def _memory(tensors: Any) -> list[kp.Tensor]:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise TypeError(f"an operation takes a list of kp.Tensor; got {tensors!r}")
    return [tensor.memory() for tensor in tensors]


def _spirv(data: Any) -> bytes:
    """Returns the SPIR-V of a shader given as SPIR-V or as GLSL: a str, its bytes, or a list of its characters.

    Raises:
        TypeError: the shader has another type.
    """
    if isinstance(data, (list, tuple)) and all(isinstance(text, str) for text in data):
        data = "".join(data)
    if isinstance(data, (bytes, bytearray, memoryview)):
        spirv = bytes(data)
        if MAGIC in (int.from_bytes(spirv[:4], "little"), int.from_bytes(spirv[:4], "big")):
            return spirv
        data = spirv.decode(errors="replace")
    if not isinstance(data, str):
        raise TypeError(f"a shader is SPIR-V as bytes, or the text of a GLSL shader; got {type(data).__name__}")
    return kp.Shader.compile_source(data)


def tensor_create(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Allocates device memory for tensors, and copies their data to it.

    Raises:
        KomputeError: a tensor has device memory already.
    """
    if any(tensor.is_init() for tensor in tensors):
        raise KomputeError("a Tensor that is created has memory on a device already; use Manager.rebuild")
    for tensor in tensors:
        tensor.create(manager)
    return kp.OpSyncDevice(_memory(tensors))


def tensor_copy(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Copies the first tensor, both its sides, to all others."""
    return kp.OpCopy(_memory(tensors))


def tensor_sync_device(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Copies tensors from the host side to the device side."""
    return kp.OpSyncDevice(_memory(tensors))


def tensor_sync_local(manager: kp.Manager, tensors: Tensors) -> kp.OpBase:
    """Copies tensors from the device side to the host side."""
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
) -> kp.OpBase:
    """Runs a shader, given as SPIR-V or as the text of a GLSL shader.

    Args:
        tensors: number n is binding n of set 0.
        data: the shader; `bytes` in Kompute 0.6.
        workgroup: numbers of workgroups along x, y and z; one per element of the first tensor if x is 0.
            `work_group` in Kompute 0.6.
        constants: specialization constants: number n has id n.
    """
    return kp.OpAlgoDispatch(manager.algorithm(_memory(tensors), _spirv(data), workgroup, constants))


def algo_file(
    manager: kp.Manager,
    tensors: Tensors,
    data: str | os.PathLike[str],
    workgroup: Sequence[int] = (0, 0, 0),
    constants: Sequence[float] = (),
) -> kp.OpBase:
    """Runs a shader in a file: SPIR-V in .spv, or GLSL in .comp.

    Args:
        data: the path; `file_path` in Kompute 0.6. The other arguments are those of `algo_data`.
    """
    from vkcompute.runtime.launching.program import load

    spirv = load(Path(data)).spirv
    return kp.OpAlgoDispatch(manager.algorithm(_memory(tensors), spirv, workgroup, constants))


def algo_lro(
    manager: kp.Manager,
    tensors: Tensors,
    data: Any = None,
    workgroup: Sequence[int] = (0, 0, 0),
    constants: Sequence[float] = (),
) -> kp.OpBase:
    """Runs a shader on a left, a right and an output tensor, then copies the output to the host side.

    Kompute's Python interface passes no shader to this operation, and raises a RuntimeError each time.

    Args:
        data, workgroup, constants: as for `algo_data`.

    Raises:
        KomputeError: there is no shader, or there are not three tensors of one size.
    """
    memory = _memory(tensors)
    sizes = [object_.size() for object_ in memory]
    if len(sizes) != 3 or len(set(sizes)) != 1:
        raise KomputeError(f"algo_lro takes three tensors of one size: left, right, output; got sizes {sizes}")
    if data is None:
        raise KomputeError("algo_lro has no shader; pass SPIR-V or GLSL after the tensors, as to algo_data")
    return _OpLhsRhsOut(manager.algorithm(memory, _spirv(data), workgroup, constants), memory[2])


_ALL = (tensor_create, tensor_copy, tensor_sync_device, tensor_sync_local, algo_mult, algo_file, algo_data, algo_lro)
OPERATIONS: dict[str, Callable[..., kp.OpBase]] = {operation.__name__: operation for operation in _ALL} | {
    "algo_str": algo_data
}
"""The operations by name; `Sequence` gets a `record_` method of each, and `Manager` four `eval_` methods."""


def operation(name: str, manager: kp.Manager, tensors: Any, *args: Any, **named: Any) -> kp.OpBase:
    """Returns the operation of this name with the arguments of a `record_` or `eval_` method."""
    named = {_ALIASES.get(key, key): value for key, value in named.items()}
    return OPERATIONS[name](manager, tensors, *args, **named)
