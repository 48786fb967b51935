"""Algorithms: a shader with its memory objects, constants and number of workgroups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.compat.kp.constants import count_values, pack_push_constants, python_values, specialization_constants
from vkcompute.compat.kp.context import Child, ManagerBase
from vkcompute.compat.kp.image import Image
from vkcompute.compat.kp.memory_objects import Command, Memory, own_memory_objects
from vkcompute.errors import KomputeError, SpirvError

if TYPE_CHECKING:
    from vkcompute.runtime.launching.kernel import Kernel
    from vkcompute.spirv.interface import Binding, Interface, InterfaceBlock


class Algorithm(Child):
    """A shader that is ready to be dispatched; made by `Manager.algorithm`, which describes the arguments.

    Attributes:
        manager: the manager that made it.
    """

    def __init__(
        self,
        manager: ManagerBase,
        tensors: Sequence[Memory],
        spirv: bytes,
        workgroup: Sequence[int],
        spec_consts: Any,
        push_consts: Any,
    ) -> None:
        self.manager = manager
        self._memory: tuple[Memory, ...] = ()
        self._block: InterfaceBlock | None = None
        self._kernel: Callable[..., Any] | None = None  # a `Kernel`, or a `Multiplier`, which takes no grid
        self._grid: tuple[int, ...] | None = None
        self._spec_consts: list[Any] = []
        if not isinstance(spirv, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"spirv is SPIR-V as bytes; got {type(spirv).__name__}; compile GLSL with kp.Shader.compile_source"
            )
        memory = own_memory_objects(manager, "an algorithm", tensors)
        if memory and len(spirv):
            interface = _interface(bytes(spirv))
            constants = specialization_constants(interface.spec_constants, spec_consts)
            kernel = self._kernel_of(bytes(spirv), constants, any(map(_is_image, interface.bindings)))
            self._block = interface.push_constants
            if not isinstance(workgroup, Iterable):
                raise TypeError(f"workgroup is a list of workgroups along x, y and z; got {workgroup!r}")
            x, *others = (*workgroup,) or (0,)
            grid = (x, *(n or 1 for n in others)) if x else self._one_per_element(memory[0])
            self._bind(kernel, memory, grid)
            self._push = pack_push_constants(self._block, push_consts) if np.size(push_consts) else None
            self._n_push = count_values(push_consts)
            self._spec_consts = python_values(spec_consts)
        manager.register(self)

    def _one_per_element(self, memory: Memory) -> tuple[int]:
        """Returns the grid with one workgroup per element."""
        device = self.manager.require_open().device
        limit = device.physical.limits["maxComputeWorkGroupCount"][0]
        if memory.size() > limit:
            raise KomputeError(
                f"without workgroup= there is one for each of {memory.size()} elements, and {device} launches at most "
                f"{limit} along x; give the shader a local_size_x of 64, say, and workgroup=(elements / 64, 1, 1)"
            )
        return (memory.size(),)

    def _kernel_of(self, spirv: bytes, constants: dict[int | str, Any], has_images: bool) -> Kernel:
        runtime = self.manager.require_open()
        if not has_images:
            return runtime.kernel(spirv, constants=constants, check_types=False)
        from vkcompute.compat.kp.device_image import image_kernel  # here, because it imports the vulkan package

        return image_kernel(runtime, spirv, constants)

    def _bind(self, kernel: Kernel, memory: tuple[Memory, ...], grid: tuple[int, ...] | None) -> None:
        """Binds memory objects to the kernel: object n is binding n of set 0."""
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

    # -- Kompute's interface ------------------------------------------------------------------------------------------

    def get_mem_objects(self) -> list[Memory]:
        """Returns the memory objects, in the order of their bindings."""
        return list(self._memory)

    get_tensors = get_mem_objects

    def get_spec_consts(self) -> list[Any]:
        """Returns the values of the specialization constants, in the order of their ids."""
        return list(self._spec_consts)

    def is_init(self) -> bool:
        """Returns True if it can be dispatched: it has a shader, and neither it nor its manager is destroyed."""
        return self._kernel is not None and not self.manager.runtime.closed

    def destroy(self) -> None:
        """Releases the shader and the memory objects. May be called twice."""
        if self._kernel is not None:
            self.manager.n_destroyed += 1
        self._kernel, self._memory, self._bound = None, (), []

    # -- for operations -----------------------------------------------------------------------------------------------

    @property
    def has_images(self) -> bool:
        """True if a memory object is an image."""
        return any(isinstance(memory, Image) for memory in self._memory)

    def require_init(self) -> None:
        """Raises KomputeError if the algorithm or one of its memory objects is destroyed."""
        if not self.is_init():
            raise KomputeError("this Algorithm is destroyed, or was made without tensors or SPIR-V; make a new one")
        for memory in self._memory:
            memory.require_init()

    def dispatch(self, push_consts: Any) -> list[Command]:
        """Returns the launch, with the copies that images need before and after.

        Push constants given here replace those of the algorithm, for later dispatches too, as in Kompute.

        Raises:
            KomputeError: push constants do not fit, differ in number from those of the algorithm, or are missing.
        """
        assert self._kernel is not None, "sequences call require_init before"
        if np.size(push_consts):
            n = count_values(push_consts)
            if self._n_push not in (0, n):
                raise KomputeError(f"the algorithm was made with {self._n_push} push constants; got {n}; give as many")
            self._push = pack_push_constants(self._block, push_consts)
        if self._block is not None and self._push is None:
            raise KomputeError(
                f"the shader has {self._block.nbytes} bytes of push constants and none were given; give them to "
                "Manager.algorithm or to OpAlgoDispatch"
            )
        push = () if self._push is None else (self._push,)
        grid = {} if self._grid is None else {"grid": self._grid}
        launch: Command = partial(self._kernel, *self._bound, *push, **grid)
        before = [command for memory in self._memory for command in memory.before_use()]
        return [*before, launch, *(command for memory in self._memory for command in memory.after_use())]

    def dispatch_key(self) -> tuple[Any, ...]:
        """Returns a key that is equal for two calls of `dispatch(())` with equal results."""
        return self._kernel, self._memory, self._push, self._grid

    def rebuild_as_product(self, tensors: Sequence[Memory]) -> None:
        """Replaces the shader by the elementwise product of the first two tensors, written to the third.

        Raises:
            KomputeError: there are not three tensors of float32 and of one size.
        """
        from vkcompute.pipelines.multiply import multiplier  # here, as it loads the driver's library

        memory = own_memory_objects(self.manager, "OpMult", tensors)
        kinds = {(object_.primary.dtype.name, object_.size()) for object_ in memory}
        if len(memory) != 3 or len(kinds) > 1 or next(iter(kinds))[0] != "float32":
            raise KomputeError(f"OpMult takes three tensors of float32 and of one size; got {list(memory)}")
        self._bound = [object_.primary for object_ in memory]
        self._kernel = multiplier(self.manager.require_open(), self._bound[0].dtype)
        self._memory, self._grid, self._block, self._spec_consts = memory, None, None, []
        self._push, self._n_push = None, 0


def _interface(spirv: bytes) -> Interface:
    from vkcompute.runtime.launching.program import load

    try:
        return load(spirv).interface
    except SpirvError as error:
        raise KomputeError(str(error)) from error


def _is_image(binding: Binding) -> bool:
    return binding.kind == "storage_image"


def _require_kind(binding: Binding, memory: Memory) -> None:
    """Raises KomputeError unless binding and memory object are both tensors, or images of one format."""
    given = memory.texel_format() if isinstance(memory, Image) else "a tensor"
    declared = binding.texel.format if binding.texel and _is_image(binding) else "a tensor"
    if given != declared and (declared != "Unknown" or given == "a tensor"):
        raise KomputeError(
            f"binding {binding.binding} ({binding.name or 'unnamed'}) of the shader is {declared}; got {given}"
        )
