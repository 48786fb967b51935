"""Table of the library's own shaders: one row per SPIR-V file that `build_shaders.py` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BuiltInShader:
    """One row.

    Attributes:
        name: of the output, `_spv/NAME.spv`.
        source: a file in `shaders/`.
        defines: preprocessor names -> values.
        target: the Vulkan version to compile for.
    """

    name: str
    source: str
    defines: Mapping[str, str | int] = field(default_factory=dict)
    target: str = "vulkan1.1"


_ANY_DTYPE: dict[str, str | int] = {"MULTIPLY": "multiply_any", "ELEMENT_ID": 2}

BUILT_IN_SHADERS: tuple[BuiltInShader, ...] = (
    BuiltInShader("multiply_any", "multiply.comp", _ANY_DTYPE),
    BuiltInShader("multiply_f64", "multiply.comp", {"MULTIPLY": "multiply_f64", "HAS_DOUBLE": 1}),
    # For devices that load texels faster than storage buffers; all of those known have double.
    BuiltInShader("multiply_texels", "multiply.comp", {**_ANY_DTYPE, "HAS_DOUBLE": 1, "TEXEL": 1}),
    *(
        BuiltInShader(f"logistic_{stage}", f"logistic_{stage}.comp")
        for stage in ("narrow", "forward", "residual", "gradient", "wide_update", "wide_finish")
    ),
)
