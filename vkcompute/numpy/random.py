"""Random numbers: `default_rng(seed)` with the methods of its Generator, and NumPy's older functions.

The older functions share one state, which `seed` sets. Their numbers are not those of NumPy for the same seed.
"""

from __future__ import annotations

from typing import Any

from vkcompute.arrays.functions.legacy_random import FUNCTIONS as _FUNCTIONS
from vkcompute.arrays.functions.legacy_random import RandomState as RandomState
from vkcompute.arrays.functions.random import Generator as Generator
from vkcompute.arrays.functions.random import default_rng as default_rng


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    raise AttributeError(
        f"vkcompute.numpy.random has no {name}; its functions are also methods of default_rng(seed), as numpy's since "
        "1.17",
        name=name,
    )


def __dir__() -> list[str]:
    return sorted({*_FUNCTIONS, "Generator", "RandomState", "default_rng"})
