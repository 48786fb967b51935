"""Random numbers: `default_rng(seed)`, and the methods of its Generator."""

from __future__ import annotations

from vkcompute.arrays.random import Generator as Generator
from vkcompute.arrays.random import default_rng as default_rng


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"vkcompute.numpy.random has no {name}; its functions are methods of default_rng(seed), as numpy's since 1.17",
        name=name,
    )
