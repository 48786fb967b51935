"""The table of the library's own shaders: one row per SPIR-V file that `build_shaders.py` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Variant:
    """One output.

    Attributes:
        name: of the output, `_spv/NAME.spv`.
        source: a file in `shaders/`.
        defines: preprocessor names -> values.
        target: the Vulkan version whose SPIR-V is written.
    """

    name: str
    source: str
    defines: Mapping[str, str | int] = field(default_factory=dict)
    target: str = "vulkan1.1"


_ANY: dict[str, str | int] = {"MULTIPLY": "multiply_any", "ELEMENT_ID": 2}

TABLE: tuple[Variant, ...] = (
    Variant("multiply_any", "multiply.comp", _ANY),
    Variant("multiply_f64", "multiply.comp", {"MULTIPLY": "multiply_f64", "HAS_DOUBLE": 1}),
    # For devices that load texels faster than storage buffers; where that is so, there is double.
    Variant("multiply_texels", "multiply.comp", {**_ANY, "HAS_DOUBLE": 1, "TEXEL": 1}),
    *(
        Variant(f"logistic_{part}", f"logistic_{part}.comp")
        for part in ("narrow", "forward", "residual", "gradient", "wide_update", "wide_finish")
    ),
)
