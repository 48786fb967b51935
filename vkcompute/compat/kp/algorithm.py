"""An algorithm: a shader with the memory objects, constants and workgroups that it runs with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.compat.kp.constants import n_values, push_bytes, specialization
from vkcompute.compat.kp.image import Image
from vkcompute.compat.kp.memory import Command, Memory
from vkcompute.errors import KomputeError, SpirvError

if TYPE_CHECKING:
    from vkcompute.compat.kp.manager import Manager
    from vkcompute.runtime.kernel import Kernel
    from vkcompute.spirv.interface import Binding, Block, Interface


class Algorithm:
    """Made by `Manager.algorithm`, whose arguments these are.

    Attributes:
        manager: whose it is.
    """

    def __init__(
        self,
        manager: Manager,
        tensors: Sequence[Memory],
        spirv: bytes,
        workgroup: Sequence[int],
        spec_consts: Any,
        push_consts: Any,
    ) -> None:
        self.manager = manager
        self._memory: tuple[Memory, ...] = ()
        self._block: Block | None = None
        self._kernel: Callable[..., Any] | None = None  # a `Kernel`, or a `Multiplier`, which takes no grid
        self._grid: tuple[int, ...] | None = None
        if not isinstance(spirv, (bytes, bytearray, memoryview)):
            raise TypeError(f"spirv is SPIR-V as bytes; got {type(spirv).__name__}; compile GLSL with vkcompute.glsl")
        memory = own(manager, "an algorithm", tensors)
        if memory and len(spirv):
            interface = _interface(bytes(spirv))
            constants = specialization(interface.spec_constants, spec_consts)
            kernel = self._kernel_of(bytes(spirv), constants, any(map(_is_image, interface.bindings)))
            self._block = interface.push_constants
            if not isinstance(workgroup, Iterable):
                raise TypeError(f"workgroup is a list of workgroups along x, y and z; got {workgroup!r}")
            x, *others = (*workgroup,) or (0,)
            self._bind(kernel, memory, (x, *(n or 1 for n in others)) if x else self._one_per_element(memory[0]))
            self._push = push_bytes(self._block, push_consts) if np.size(push_consts) else None
            self._n_push = n_values(push_consts)
        manager.add(self)

    def _one_per_element(self, memory: Memory) -> tuple[int]:
        device = self.manager.opened().device
        most = device.physical.limits["maxComputeWorkGroupCount"][0]
        if memory.size() > most:
            raise KomputeError(
                f"without workgroup= there is one for each of {memory.size()} elements, and {device} launches at most "
                f"{most} along x; give the shader a local_size_x of 64, say, and workgroup=(elements / 64, 1, 1)"
            )
        return (memory.size(),)

    def _kernel_of(self, spirv: bytes, constants: dict[int | str, Any], has_images: bool) -> Kernel:
        runtime = self.manager.opened()
        if not has_images:
            return runtime.kernel(spirv, constants=constants, check_types=False)
        from vkcompute.compat.kp.texels import image_kernel

        return image_kernel(runtime, spirv, constants)

    def _bind(self, kernel: Kernel, memory: tuple[Memory, ...], grid: tuple[int, ...] | None) -> None:
        """Points the kernel's bindings at memory objects: binding n of set 0 is the n-th."""
        for binding in kernel.bindings:
            if binding.set or binding.binding >= len(memory):
                raise KomputeError(
                    f"the shader has binding {binding.binding} ({binding.name or 'unnamed'}) in set {binding.set}; "
                    f"{len(memory)} memory objects are bindings 0 to {len(memory) - 1} of set 0"
                )
            _require_kind(binding, memory[binding.binding])
        self._bound = [memory[binding.binding].primary for binding in kernel.bindings]
        try:
            kernel.bound(self._bound)
            self._grid = kernel.grid(self._bound, grid)
        except ValueError as error:
            raise KomputeError(str(error)) from error
        self._kernel, self._memory, self._push, self._n_push = kernel, memory, None, 0

    # -- Kompute's ----------------------------------------------------------------------------------------------------

    def get_mem_objects(self) -> list[Memory]:
        """The memory objects, in the order of their bindings."""
        return list(self._memory)

    get_tensors = get_mem_objects

    def is_init(self) -> bool:
        """Whether it can be dispatched: it has a shader, and neither it nor its manager has been destroyed."""
        return self._kernel is not None and not self.manager.runtime.closed

    def destroy(self) -> None:
        """Lets go of the shader and the memory objects; twice is once."""
        if self._kernel is not None:
            self.manager.n_destroyed += 1
        self._kernel, self._memory, self._bound = None, (), []

    @property
    def has_images(self) -> bool:
        """Whether an image is among its memory objects."""
        return any(isinstance(each, Image) for each in self._memory)

    # -- what operations do -------------------------------------------------------------------------------------------

    def require(self) -> None:
        """Raises KomputeError if it, or memory that it works on, is destroyed."""
        if not self.is_init():
            raise KomputeError("this Algorithm is destroyed, or was made without tensors or SPIR-V; make a new one")
        for each in self._memory:
            each.require()

    def dispatch(self, push_consts: Any) -> list[Command]:
        """A launch. Push constants that are given replace the algorithm's own, for later dispatches too, as in Kompute.

        Raises:
            KomputeError: they do not fit, or are more or fewer than those that the algorithm was made with, if any; or
                the shader has some and none have been given.
        """
        assert self._kernel is not None, "its sequence requires it"
        if np.size(push_consts):
            n = n_values(push_consts)
            if self._n_push not in (0, n):
                raise KomputeError(f"the algorithm was made with {self._n_push} push constants; got {n}; give as many")
            self._push = push_bytes(self._block, push_consts)
        if self._block is not None and self._push is None:
            raise KomputeError(
                f"the shader has {self._block.nbytes} bytes of push constants and none were given; give them to "
                "Manager.algorithm or to OpAlgoDispatch"
            )
        push = () if self._push is None else (self._push,)
        grid = {} if self._grid is None else {"grid": self._grid}
        launch: Command = partial(self._kernel, *self._bound, *push, **grid)
        before = [command for each in self._memory for command in each.enter()]
        return [*before, launch, *(command for each in self._memory for command in each.leave())]

    def state(self) -> tuple[Any, ...]:
        """What `dispatch` without push constants follows from."""
        return self._kernel, self._memory, self._push, self._grid

    def become_product(self, tensors: Sequence[Memory]) -> None:
        """Makes this the product of the first two of three float32 tensors into the third.

        Raises:
            KomputeError: they are not three, of float32 and of one size.
        """
        from vkcompute.pipelines.multiply import multiplier  # here, since it loads the driver's library

        memory = own(self.manager, "OpMult", tensors)
        kinds = {(each.primary.dtype.name, each.size()) for each in memory}
        if len(memory) != 3 or len(kinds) > 1 or next(iter(kinds))[0] != "float32":
            raise KomputeError(f"OpMult takes three tensors of float32 and of one size; got {list(memory)}")
        self._bound = [each.primary for each in memory]
        self._kernel = multiplier(self.manager.opened(), self._bound[0].dtype)
        self._memory, self._grid, self._block = memory, None, None
        self._push, self._n_push = None, 0


def _interface(spirv: bytes) -> Interface:
    from vkcompute.runtime.program import load

    try:
        return load(spirv).interface
    except SpirvError as error:
        raise KomputeError(str(error)) from error


def _is_image(binding: Binding) -> bool:
    return binding.kind == "storage_image"


def _require_kind(binding: Binding, memory: Memory) -> None:
    """Raises KomputeError if one of the two is an image and the other none, or one of another format."""
    has = memory.texel_format() if isinstance(memory, Image) else "a tensor"
    wants = binding.texel.format if binding.texel and _is_image(binding) else "a tensor"
    if has != wants and (wants != "Unknown" or has == "a tensor"):
        raise KomputeError(
            f"binding {binding.binding} ({binding.name or 'unnamed'}) of the shader is {wants}; got {has}"
        )


def own(manager: Manager, what: str, objects: Iterable[Any]) -> tuple[Memory, ...]:
    """The objects, all of them memory of this manager that is not destroyed."""
    memory = memory_only(what, objects)
    for each in memory:
        require_own(manager, each)
    return memory


def memory_only(what: str, objects: Iterable[Any]) -> tuple[Memory, ...]:
    """The objects, all of them memory."""
    if not isinstance(objects, Iterable):
        raise TypeError(f"{what} takes a list of tensors and images; got {objects!r} without a list; write [tensor]")
    memory = tuple(objects)
    for each in memory:
        if not isinstance(each, Memory):
            raise TypeError(f"{what} takes a list of tensors and images; got {each!r} in it")
    return memory


def require_own(manager: Manager, each: Memory | Algorithm) -> None:
    """Raises KomputeError if an object is another manager's, or destroyed."""
    if each.manager is not manager:
        raise KomputeError(f"this {type(each).__name__} belongs to another Manager; make one with the Manager in use")
    each.require()
