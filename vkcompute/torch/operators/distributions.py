"""Random numbers with parameters: Poisson, binomial, gamma and Dirichlet ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vkcompute.runtime.memory.array import Array
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operators.random import next_generator
from vkcompute.torch.storage import store


def _parameter(tensor: Any) -> Any:
    """Returns a parameter of a distribution, which draws check on the host."""
    return tensor.detach().to("cpu", torch.float64).numpy()


def _drawn(like: Any, numbers: Array) -> Any:
    return store(torch.empty(like.shape, dtype=like.dtype, device=DEVICE_NAME), numbers)


@kernel("poisson")
def poisson(self: Any, generator: Any = None) -> Any:
    """Returns Poisson variates of means, in their dtype."""
    if not self.numel():
        return torch.empty_like(self)
    means = _parameter(self)
    if not np.all(means >= 0):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _drawn(self, next_generator(generator).poisson(means))


@kernel("binomial")
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """Returns numbers of successes, in the dtype of the numbers of trials."""
    if not count.numel():
        return torch.empty_like(count)
    trials = np.floor(_parameter(count)).astype(np.int64)
    return _drawn(count, next_generator(generator).binomial(trials, np.broadcast_to(_parameter(prob), trials.shape)))


@kernel("_standard_gamma")
def standard_gamma(self: Any, generator: Any = None) -> Any:
    """Returns gamma variates of scale 1, drawn in float32; at least the smallest normal number, as on the CPU."""
    if not self.numel():
        return torch.empty_like(self)
    drawn = _drawn(self, next_generator(generator).standard_gamma(_parameter(self)))
    return drawn.clamp_min(torch.finfo(self.dtype).tiny)


@kernel("_sample_dirichlet")
def dirichlet(self: Any, generator: Any = None) -> Any:
    """Returns Dirichlet variates: gamma variates over their sum along the last axis."""
    drawn = standard_gamma(self, generator)
    return drawn / drawn.sum(-1, keepdim=True)
