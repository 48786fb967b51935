"""The self-check of the device with a version of PyTorch that is newer than the tested ones."""

from __future__ import annotations

import hashlib
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch

from vkcompute import disk
from vkcompute._version import __version__
from vkcompute.torch.kernels import DEVICE_NAME

NEWEST = 2, 13
"""The newest version of PyTorch with which all tests of the device ran."""
_PASSED = b"passed"


def version() -> tuple[int, ...]:
    """Returns the first two numbers of PyTorch's version."""
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def require() -> None:
    """Checks the device with a PyTorch that is newer than the tested ones, once, and warns.

    Raises:
        RuntimeError: a result is wrong.
    """
    if version() <= NEWEST:
        return
    tested = f"vkcompute {__version__} was tested with PyTorch up to {NEWEST[0]}.{NEWEST[1]}"
    key = hashlib.sha256(f"{torch.__version__} {__version__} {sys.version}".encode()).hexdigest()
    path = disk.cache_folder() / "tuning" / key
    if disk.read_cached(path) == _PASSED:
        return
    try:
        with ThreadPoolExecutor(1) as threads:  # in the operator that is the first, or in no_grad, gradients are off
            threads.submit(_check).result()
    except Exception as error:
        raise RuntimeError(
            f"{tested}; the device {DEVICE_NAME} does not work with {torch.__version__}: {error}; install a tested one"
        ) from error
    disk.keep_cached(path, _PASSED)
    warnings.warn(f"{tested}; {torch.__version__} has passed a self-check", stacklevel=2)


def _check() -> None:
    """Compares a gradient, views, an update in place and a copy with the CPU's."""
    results = []
    for device in ("cpu", DEVICE_NAME):
        x = torch.arange(6.0, device="cpu").reshape(2, 3).to(device).requires_grad_()
        loss = torch.nn.functional.cross_entropy(x @ x.t(), torch.tensor([1, 0], device="cpu").to(device))
        loss.backward()
        made = x.detach().clone()
        made.t()[1:].add_(x.grad.t()[1:])
        results.append((loss.detach().cpu(), made.cpu(), made[:, ::2].to(torch.int64).cpu()))
    for expected, result in zip(*results, strict=True):
        torch.testing.assert_close(result, expected)
