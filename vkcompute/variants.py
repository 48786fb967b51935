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


def _multiply(element: str, **defines: str | int) -> tuple[Variant, Variant]:
    """A plain variant, and one for devices that load texels faster than storage buffers."""
    plain = {"MULTIPLY": f"multiply_{element}", **defines}
    return (
        Variant(f"multiply_{element}", "multiply.comp", plain),
        Variant(f"multiply_{element}_texel", "multiply.comp", {**plain, "TEXEL": 1}),
    )


TABLE: tuple[Variant, ...] = (
    Variant("multiply", "multiply_plain.comp"),
    *_multiply("words", WORDS=1),  # bool, integers and float32
    *_multiply("f16"),
    *_multiply("f64", HAS_DOUBLE=1),
    _multiply("f64_soft")[0],  # where texels are faster, there is double
    *(
        Variant(f"logistic_{part}", f"logistic_{part}.comp")
        for part in ("narrow", "forward", "residual", "gradient", "wide_update", "wide_finish")
    ),
)
