"""Options of functions that have no effect here, whose names are checked."""

from __future__ import annotations

from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.frontend.unsupported import UnsupportedError

_CHOICES: dict[str, tuple[Any, ...]] = {
    "sem": (None, "acquire", "release", "acq_rel", "relaxed"),
    "scope": (None, "gpu", "cta", "sys"),
    "cache_modifier": ("", ".ca", ".cg", ".cv", ".cs", ".wb", ".wt"),
    "eviction_policy": ("", "evict_first", "evict_last", "evict_normal"),
    "input_precision": (None, "tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"),
}


def check_choices(**given: Any) -> None:
    """Raises UnsupportedError for an option that Triton does not have, given by its name."""
    for name, value in given.items():
        known = _CHOICES[name]
        if not any(value == choice and type(value) is type(choice) for choice in known):
            raise UnsupportedError(f"{name} is one of {', '.join(map(repr, known))}; got {describe(value)}")
