"""GLSL kernels that tests of several folders launch."""

from __future__ import annotations

from pathlib import Path

MULTIPLY = Path(__file__).with_name("multiply.comp")
"""c = a * b on float32, for all elements of the shortest array; takes (a, b, c)."""
