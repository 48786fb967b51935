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


def _logistic_rows(part: str) -> tuple[Variant, Variant]:
    """A plain variant, and one for devices that load texels faster than storage buffers."""
    plain = f"logistic_{part}"
    return Variant(plain, f"{plain}.comp"), Variant(f"{plain}_texel", f"{plain}.comp", {"TEXEL": 1})


TABLE: tuple[Variant, ...] = (
    Variant("multiply", "multiply_plain.comp"),
    *_multiply("words", WORDS=1),  # bool, integers and float32
    *_multiply("f16"),
    *_multiply("f64", HAS_DOUBLE=1),
    _multiply("f64_soft")[0],  # where texels are faster, there is double
    *_logistic_rows("narrow"),
    *_logistic_rows("forward"),
    Variant("logistic_residual", "logistic_residual.comp"),
    *_logistic_rows("gradient"),
    Variant("logistic_wide_update", "logistic_wide_update.comp"),
    Variant("logistic_wide_finish", "logistic_wide_finish.comp"),
)
