"""Registers the device `vk` with PyTorch, and undoes it."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings
from typing import Any

import torch
from torch.utils import backend_registration

from vkcompute.torch import collectives, patches
from vkcompute.torch.device_guard import DeviceGuard, defer_interrupts
from vkcompute.torch.device_module import DeviceModule
from vkcompute.torch.kernels import DEVICE_NAME, KERNELS, exists
from vkcompute.torch.self_check import require, version

OLDEST = 2, 10
_KERAS = "VKCOMPUTE_KERAS"
_OPERATORS = (
    "copies", "tensors", "elements", "divisions", "special", "activations", "reductions", "scans", "products",
    "convolutions", "normalization", "scatters", "indexing", "searches", "embedding_bags", "distances", "shapes",
    "padding", "random", "pooling", "adaptive_pooling", "interpolation", "losses", "attention", "recurrent",
    "optimizers", "decompositions", "gradients", "ctc", "fractional_pooling", "sampled_volumes",
    "orthogonal_polynomials", "transformers", "histograms", "distributions", "fake_quantization",
)  # fmt: skip
_COMPOSING = {"scaled_dot_product_attention"}
"""Operators that call others, which have the gradients."""
_libraries: list[Any] = []
_loaded: list[Any] = []
_loading = threading.RLock()


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
            defer_interrupts()
            try:
                require()
            except RuntimeError:
                unregister()
                raise
    return called(*args, **named)


def _add_kernels(library: Any) -> None:
    for name in _OPERATORS:
        importlib.import_module(f"vkcompute.torch.operators.{name}")
    results = importlib.import_module("vkcompute.torch.results")
    planned = importlib.import_module("vkcompute.torch.plans").planned
    for name, function in (*KERNELS.items(), *results.forms_with_results(), *results.structured_forms()):
        if exists(name):
            run = planned(name, results.prepared(name, function))
            for key in ("PrivateUse1", *(["AutogradPrivateUse1"] if name in _COMPOSING else [])):
                library.impl(name, run, key)
    importlib.import_module("vkcompute.torch.autocast").add_kernels(library)
    _loaded.append(importlib.import_module("vkcompute.torch.fallback").fall_back)


def unregister() -> None:
    """Removes the kernels and the patches of PyTorch; tensors of the device cannot be used any more."""
    patches.undo()
    for library in _libraries:
        library._destroy()
    _libraries.clear()
    _loaded.clear()
