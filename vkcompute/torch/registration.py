"""Registers the device `vk` with PyTorch, and undoes it."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_map_only

from vkcompute.errors import DtypeError, MissingFeature, OutOfDeviceMemory
from vkcompute.torch import collectives, patches
from vkcompute.torch.device_guard import DeviceGuard
from vkcompute.torch.device_module import DeviceModule
from vkcompute.torch.kernels import DEVICE_NAME, KERNELS, Kernel, exists, operator
from vkcompute.torch.self_check import require, version

OLDEST = 2, 10
_KERAS = "VKCOMPUTE_KERAS"
_OPERATORS = (
    "copies", "tensors", "elements", "special", "activations", "reductions", "scans", "products", "convolutions",
    "normalization", "scatters", "indexing", "searches", "embedding_bags", "distances", "shapes", "padding", "random",
    "pooling", "adaptive_pooling", "interpolation", "losses", "attention", "recurrent", "optimizers", "decompositions",
    "gradients", "ctc", "fractional_pooling", "sampled_volumes", "orthogonal_polynomials", "transformers",
    "histograms", "distributions", "fake_quantization",
)  # fmt: skip
_libraries: list[Any] = []
_loaded: list[Any] = []
_loading = threading.RLock()
_dtype_errors: dict[tuple[Any, ...], tuple[type[Exception], str] | None] = {}
_OF_DTYPES = re.compile(
    "out tensor to have dtype|desired output type|out tensor with dtype|Found dtype .* but expected"
)
_EXACT = re.compile(r"to have dtype torch\.(\w+) but got torch\.(\w+)")


def register() -> None:
    """Makes the device known to PyTorch; warns, and does nothing else, where PyTorch is too old. Idempotent."""
    if version() < OLDEST:
        warnings.warn(
            f"vkcompute's device {DEVICE_NAME} needs PyTorch {OLDEST[0]}.{OLDEST[1]} or later; this is "
            f"{torch.__version__}; install a newer one, as by pip install -U torch",
            stacklevel=2,
        )
        return
    if _libraries:
        return
    if not hasattr(torch, DEVICE_NAME):
        backend_registration._setup_privateuseone_for_python_backend(
            DEVICE_NAME, backend_module=DeviceModule(), device_guard=DeviceGuard()
        )
    library, others = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    others.fallback(_without_kernel, "PrivateUse1")
    others.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for key in ("Conjugate", "Negative"):  # a copy resolves them itself; else resolve_conj calls itself without an end
        library.impl("_copy_from", torch.library.fallthrough_kernel, key)
    _libraries.extend((library, others))
    if torch.distributed.is_available():
        _libraries.append(collectives.add_kernels())
    patches.apply(library)
    if os.environ.get(_KERAS, "0") not in ("", "0"):
        _serve_keras()


def _serve_keras() -> None:
    """Makes Keras take the device, unless its variables say otherwise, and says which one it is.

    Where Keras is imported before PyTorch, `vkcompute_keras.pth` has set the same variables at Python's start.
    """
    backend = os.environ.setdefault("KERAS_BACKEND", "torch")
    if backend == "torch" and os.environ.setdefault("KERAS_TORCH_DEVICE", DEVICE_NAME) == DEVICE_NAME:
        print(f"Using vkcompute: {torch.vk.get_device_name()}", file=sys.stderr)


def _without_kernel(called: Any, *args: Any, **named: Any) -> Any:
    """Computes an operator without a kernel; at first use, none has one, and all are added.

    So `import torch` takes no time for a device that is not used.
    """
    if _loaded:
        return _loaded[0](called, *args, **named)
    with _loading:
        if not _loaded:
            _add_kernels(_libraries[0])
            try:
                require()
            except RuntimeError:
                unregister()
                raise
    return called(*args, **named)


def _add_kernels(library: Any) -> None:
    for name in _OPERATORS:
        importlib.import_module(f"vkcompute.torch.operators.{name}")
    for name, function in KERNELS.items():
        if exists(name):
            library.impl(name, _guarded(name, _resizing(name, function)), "PrivateUse1")
    importlib.import_module("vkcompute.torch.autocast").add_kernels(library)
    _loaded.append(importlib.import_module("vkcompute.torch.fallback").fall_back)


def _resizing(name: str, function: Kernel) -> Kernel:
    """Returns a kernel that gives empty tensors for results their shapes, and refuses dtypes that PyTorch does."""
    outs = [argument.name for argument in operator(name)._schema.arguments if argument.is_out]
    if not outs:
        return function

    def run(*args: Any, **named: Any) -> Any:
        out = named.get(outs[0])  # not resized if it is an operand: PyTorch raises an error for another shape
        if isinstance(out, torch.Tensor) and not out.numel() and not any(out is value for value in args):
            _resize(name, args, named, outs)
        if isinstance(out, torch.Tensor) and args and out.dtype is not getattr(args[0], "dtype", None):
            _require_dtypes(name, args, named, outs)
        return function(*args, **named)

    return run


def _require_dtypes(name: str, args: Sequence[Any], named: Mapping[str, Any], outs: Sequence[str]) -> None:
    """Raises PyTorch's error, if it has one, for tensors for results of these dtypes."""
    key = name, *map(_type_of, (*args, *named.values()))
    if key not in _dtype_errors:
        _dtype_errors[key] = _dtype_error(name, args, named, outs)
    error = _dtype_errors[key]
    if error is not None:
        raise error[0](error[1])


def _type_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, not value.dim()
    if isinstance(value, (torch.dtype, bool)):
        return value
    return tuple(map(_type_of, value)) if isinstance(value, (list, tuple)) else type(value)


def _dtype_error(
    name: str, args: Sequence[Any], named: Mapping[str, Any], outs: Sequence[str]
) -> tuple[type[Exception], str] | None:
    """Returns PyTorch's error for dtypes; its references in Python refuse some that its CPU converts."""
    given, described = tree_map_only(torch.Tensor, _described, (tuple(args), dict(named)))
    empty = {out: described[out].new_empty(0) for out in outs}
    try:
        operator(name)(*given, **{**described, **empty})
    except Exception as error:
        exact = _EXACT.search(str(error))
        converts = exact and torch.can_cast(*[getattr(torch, dtype) for dtype in exact.groups()])
        return (type(error), str(error)) if _OF_DTYPES.search(str(error)) and not converts else None
    return None


def _described(tensor: Any) -> Any:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _resize(name: str, args: Sequence[Any], named: Mapping[str, Any], outs: Sequence[str]) -> None:
    """Resizes tensors for results, if PyTorch knows the shapes without the elements; else the kernel does it."""
    given, described_outs = tree_map_only(torch.Tensor, _described, (tuple(args), dict(named)))
    with contextlib.suppress(Exception):
        operator(name)(*given, **described_outs)
        for out in outs:
            if named[out].shape != described_outs[out].shape:
                named[out].resize_(described_outs[out].shape)


def _guarded(name: str, function: Kernel) -> Kernel:
    """Returns a kernel that raises PyTorch's errors, also where memory is full, and leaves some dtypes to the host."""

    def run(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except OutOfDeviceMemory as error:
            raise torch.OutOfMemoryError(str(error)) from error
        except (MissingFeature, DtypeError):
            return _loaded[0](operator(name), *args, **named)
        except ValueError as error:
            raise (IndexError if isinstance(error, IndexError) else RuntimeError)(str(error)) from error

    return run


def unregister() -> None:
    """Removes the kernels and the patches of PyTorch; tensors of the device cannot be used any more."""
    patches.undo()
    for library in _libraries:
        library._destroy()
    _libraries.clear()
    _loaded.clear()
