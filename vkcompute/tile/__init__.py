"""Block programs: functions whose values are blocks of numbers, each computed by a whole workgroup.

A front end builds a function with a `Builder`, and gets a kernel in `ir/` from `lower(function, target)`.
"""

from __future__ import annotations

from vkcompute.tile.builder import Builder
from vkcompute.tile.interpreter import interpret
from vkcompute.tile.layout import Layout
from vkcompute.tile.lowering import Lowered, lower
from vkcompute.tile.target import Target
from vkcompute.tile.types import BFLOAT16, Block, block, shape_of

__all__ = ["BFLOAT16", "Block", "Builder", "Layout", "Lowered", "Target", "block", "interpret", "lower", "shape_of"]
