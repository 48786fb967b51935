"""Operations, which sequences record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from vkcompute.compat.kp.algorithm import Algorithm
from vkcompute.compat.kp.image import Image
from vkcompute.compat.kp.memory_objects import Command, Memory, memory_objects
from vkcompute.errors import KomputeError


class OpBase:
    """An operation.

    Attributes:
        objects: memory objects or algorithms that it uses.
    """

    objects: tuple[Memory | Algorithm, ...] = ()

    @property
    def has_images(self) -> bool:
        """True if the operation uses an image."""
        return any(
            isinstance(operand, Image) or (isinstance(operand, Algorithm) and operand.has_images)
            for operand in self.objects
        )

    def commands(self) -> list[Command]:
        """Returns the copies and launches of the operation, for its objects in their present state.

        Raises:
            KomputeError: the objects do not fit each other.
        """
        raise NotImplementedError(f"{type(self).__name__} does nothing; record one of the operations derived from it")

    def commands_key(self) -> Any:
        """Returns a key that is equal for operations with equal commands; None if that is unknown."""
        return None


class _MemoryOp(OpBase):
    """An operation on a list of memory objects."""

    min_objects = 1

    def __init__(self, memory: Iterable[Memory]) -> None:
        self.objects = self._memory = memory_objects(type(self).__name__, memory)
        if len(self._memory) < self.min_objects:
            raise KomputeError(
                f"{type(self).__name__} takes at least {self.min_objects} memory objects; got {len(self._memory)}"
            )

    def commands_key(self) -> Any:
        return type(self), self._memory


class OpSyncDevice(_MemoryOp):
    """Copies memory objects from the host side to the device side."""

    def commands(self) -> list[Command]:
        return [command for memory in self._memory for command in memory.to_device()]


class OpSyncLocal(_MemoryOp):
    """Copies memory objects from the device side to the host side."""

    def commands(self) -> list[Command]:
        return [command for memory in self._memory for command in memory.to_host()]


class OpCopy(_MemoryOp):
    """Copies the first memory object, both its sides, to all others."""

    min_objects = 2

    def commands(self) -> list[Command]:
        first, *others = self._memory
        return [command for other in others for command in first.copy_to(other)]


class OpAlgoDispatch(OpBase):
    """Dispatches an algorithm, with its own push constants or with others of the same number."""

    def __init__(self, algorithm: Algorithm, push_consts: Any = ()) -> None:
        if not isinstance(algorithm, Algorithm):
            raise TypeError(f"{type(self).__name__} takes an Algorithm; got {type(algorithm).__name__}")
        self.objects, self._push_consts, self._algorithm = (algorithm,), push_consts, algorithm

    def commands(self) -> list[Command]:
        return self._algorithm.dispatch(self._push_consts)

    def commands_key(self) -> Any:
        return None if np.size(self._push_consts) else (type(self), self._algorithm, *self._algorithm.dispatch_key())


class OpMult(OpAlgoDispatch):
    """Multiplies the first tensor by the second into the third, elementwise. Replaces the shader of the algorithm."""

    def __init__(self, tensors: Iterable[Memory], algorithm: Algorithm) -> None:
        super().__init__(algorithm)
        algorithm.rebuild_as_product(list(tensors))
