"""The device for Inductor and Dynamo: its interface, and the writers of its programs; `enable` registers it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import torch
from torch._dynamo import device_interface
from torch._inductor import config, ir, scheduler, select_algorithm, utils
from torch._inductor.codecache import PyCodeCache
from torch._inductor.codegen import common
from torch._inductor.codegen.triton import TritonKernel, TritonScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.kernel.flex import flex_decoding
from torch._inductor.virtualized import V

from vkcompute.torch.kernels import DEVICE_NAME

_PROPERTIES = {"multi_processor_count": 32, "max_threads_per_multi_processor": 1024, "warp_size": 32}
"""Properties that texts of programs depend on: equal on all devices, as Inductor keeps programs on disk."""
_SOURCES, _REPLAYS = "vkcompute.torch.inductor.sources", "vkcompute.torch.inductor.replays"


class Interface(device_interface.DeviceInterface):  # type: ignore[misc]
    """The device for Dynamo: one, with one stream."""

    device = torch.vk.device
    Event, Stream = torch.Event, torch.Stream

    class Worker:
        """The device for processes that compile."""

        @staticmethod
        def set_device(device: int) -> None:
            """Does nothing: there is one device."""

        @staticmethod
        def current_device() -> int:
            """Returns the index of the device."""
            return 0

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            """Returns the properties of the device."""
            return SimpleNamespace(**vars(torch.vk.get_device_properties()) | _PROPERTIES)

    current_device = staticmethod(lambda: 0)
    set_device = staticmethod(lambda device: None)
    maybe_exchange_device = exchange_device = staticmethod(lambda device: 0)
    device_count = staticmethod(lambda: 1)
    is_available = staticmethod(lambda: True)
    current_stream = staticmethod(lambda: torch.vk.current_stream())
    get_raw_stream = staticmethod(lambda index: 0)
    synchronize = staticmethod(lambda device=None: torch.vk.synchronize())
    get_compute_capability = staticmethod(lambda device=None: 80)
    is_bf16_supported = staticmethod(lambda including_emulation=False: True)
    is_triton_capable = staticmethod(lambda device=None: True)
    raise_if_triton_unavailable = staticmethod(lambda device=None: None)
    memory_allocated = staticmethod(lambda device=None: torch.vk.memory_allocated())


class Overrides(common.DeviceOpOverrides):  # type: ignore[misc]
    """Texts of the functions of the device in the programs that Inductor writes for the host."""

    def import_get_raw_stream_as(self, name: str) -> str:
        """Returns a definition of the function that returns a stream's address."""
        return f"def {name}(_): return 0"

    def set_device(self, device_idx: int) -> str:
        """Returns a statement that chooses a device."""
        return "pass"

    def synchronize(self) -> str:
        """Returns a statement that waits for the device."""
        return f"torch.{DEVICE_NAME}.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        """Returns a context of a device."""
        return f"torch.{DEVICE_NAME}.device({device_idx})"


class Wrapper(PythonWrapperCodegen):  # type: ignore[misc]
    """Writes the program of the host, which launches those of the device."""

    def __init__(self) -> None:
        super().__init__()
        self._launches: dict[tuple[str, tuple[int, ...]], None] = {}  # name, and bytes of the tensors

    @staticmethod
    def create(is_subgraph: bool, *args: Any, **named: Any) -> Any:
        """Returns a writer of a graph, or of a part of one."""
        return PythonWrapperCodegen.create(is_subgraph, *args, **named) if is_subgraph else Wrapper()

    def write_header(self) -> None:
        """Writes the imports, with our loader of programs in the place of Inductor's."""
        super().write_header()
        self.header.writeline(f"from {_SOURCES} import AsyncCompile; async_compile = AsyncCompile()")

    def generate_kernel_call(self, kernel_name: str, call_args: Any, **named: Any) -> None:
        """Writes a launch, whose tensors' sizes are noted."""
        super().generate_kernel_call(kernel_name, call_args, **named)
        types = named.get("arg_types") or ()
        tensors = [arg for arg, kind in zip(call_args, types, strict=False) if isinstance(kind, torch.dtype)]
        self._launches[kernel_name, tuple(map(_nbytes, tensors))] = None

    def generate_after_suffix(self, result: Any) -> None:
        """Writes the end of the program: the check of its launches, and replays where CUDA graphs are asked for."""
        super().generate_after_suffix(result)
        launches = "".join([f"({name}, {sizes}), " for name, sizes in self._launches])
        result.writeline(f"from {_SOURCES} import check_launches; check_launches([{launches}])")
        if config.triton.cudagraphs and V.graph.device_types == {DEVICE_NAME}:
            result.writeline(f"from {_REPLAYS} import Replayed; call = Replayed(call)")

    def write_triton_header_once(self) -> None:
        """Writes the function of streams, which launches name, without an import of Triton."""
        self.write_get_raw_stream_header()


def _nbytes(name: str) -> int:
    """Returns the bytes of a tensor of the graph, by the lengths for which it is compiled; 0 if they are unknown."""
    tensor = V.graph.try_get_buffer(name)
    if not hasattr(tensor, "get_layout"):
        return 0
    layout, sizes = tensor.get_layout(), V.graph.sizevars
    hint = getattr(sizes, "optimization_hint", None) or sizes.size_hint
    return hint(layout.storage_size(), fallback=0) * layout.dtype.itemsize  # type: ignore[no-any-return]


class Scheduling(TritonScheduling):  # type: ignore[misc]
    """Divides graphs into programs of the device."""

    backend_features = TritonScheduling.backend_features - {common.BackendFeature.FOREACH}
    """Programs of many tensors choose pointers by branches, and have more buffers than a device binds."""


def enable(replaced: Any) -> None:
    """Registers the device with Dynamo and Inductor. Idempotent.

    Args:
        replaced: `Replacements`, which undo it.
    """
    if DEVICE_NAME in common.device_codegens:
        return
    tables = device_interface.device_interfaces, common.device_codegens, common.device_op_overrides_dict
    device_interface.register_interface_for_device(DEVICE_NAME, Interface)
    common.register_backend_for_device(DEVICE_NAME, Scheduling, Wrapper)
    common.register_device_op_overrides(DEVICE_NAME, Overrides())
    for table in tables:
        replaced.on_undo(lambda table=table: table.pop(DEVICE_NAME))
    utils.GPU_TYPES.append(DEVICE_NAME)
    replaced.on_undo(lambda: utils.GPU_TYPES.remove(DEVICE_NAME))
    replaced.replace(scheduler.Scheduler, "create_backend", _backend_maker(scheduler.Scheduler.create_backend))
    common_meta: Any = TritonKernel.__dict__["inductor_meta_common"]  # of the class, or static in PyTorch 2.10
    replaced.replace(TritonKernel, "inductor_meta_common", type(common_meta)(_without_triton(common_meta.__func__)))
    replaced.replace(select_algorithm, "PyCodeCache", _Templates)
    replaced.replace(flex_decoding, "get_split_k", _split_k(flex_decoding.get_split_k))
    replaced.replace(torch._dynamo, "reset", _resetter(torch._dynamo.reset))
    replaced.replace(ir.Scan, "num_splits", classmethod(_unsplit(ir.Scan.num_splits.__func__)))


def _backend_maker(original: Any) -> Any:
    """Returns Scheduler.create_backend, which refuses all devices but CPUs where Triton is not installed."""

    def create_backend(self: Any, device: Any) -> Any:
        if device.type != DEVICE_NAME:
            return original(self, device)
        V.graph.add_device_info(device)
        return common.get_scheduling_for_device(DEVICE_NAME)(self)

    return create_backend


def _is_ours() -> bool:
    """True if the programs of the graph are the device's, also where it copies tensors of the host."""
    return bool(V.graph.device_types - {"cpu"} == {DEVICE_NAME})


def _without_triton(original: Any) -> Any:
    """Returns TritonKernel.inductor_meta_common, which asks Triton for its compiler; for the device it does not."""

    def inductor_meta_common(*owner: Any) -> Any:
        if not _is_ours():
            return original(*owner)
        triton = torch.utils._triton
        triton_hash = triton.triton_hash_with_backend
        triton.triton_hash_with_backend = lambda: "VKCOMPUTE"
        try:
            return original(*owner)
        finally:
            triton.triton_hash_with_backend = triton_hash

    return inductor_meta_common


class _Templates(PyCodeCache):  # type: ignore[misc]
    """Texts of programs that Inductor makes of templates."""

    @classmethod
    def load(cls, source_code: str, extra: str = "", **named: Any) -> Any:
        """Loads a text as a module; for the device, `sources` loads it later, and this returns its path and key."""
        if not _is_ours():
            return PyCodeCache.load(source_code, extra, **named)
        key, path = PyCodeCache.write(source_code, extra)
        return SimpleNamespace(key=key, __file__=path)


def _resetter(original: Any) -> Any:
    """Returns torch._dynamo.reset, which also drops the recordings of replayed programs."""

    def reset() -> None:
        original()
        if (replays := sys.modules.get(_REPLAYS)) is not None:
            replays.forget_all()

    return reset


def _split_k(original: Any) -> Any:
    """Returns get_split_k, by Inductor's formula: the parts of the keys for few queries of FlexAttention."""

    def get_split_k(n_batches: int, n_heads: int, n_keys: int) -> int:
        if not _is_ours():
            return original(n_batches, n_heads, n_keys)  # type: ignore[no-any-return]
        return max(_PROPERTIES["multi_processor_count"] // max(n_batches * n_heads, 1) * 2, 1)

    return get_split_k


def _unsplit(original: Any) -> Any:
    """Returns Scan.num_splits, which splits no scan: its parts would wait for each other, which can hang in Vulkan."""

    def num_splits(cls: Any, device: Any, *args: Any, **named: Any) -> Any:
        hint, n = original(cls, device, *args, **named)
        return hint, 1 if device.type == DEVICE_NAME else n

    return num_splits
