"""Options of the compilation of a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from vkcompute import ir
from vkcompute.ir.target import ANY


class CompileOptions(NamedTuple):
    """Options of a kernel's compilation.

    Attributes:
        local_size: invocations per workgroup; None for the default of the first array that is assigned to.
        grid_wrapped: True if workgroups along x continue along y.
        emulate_atomics: True to build atomic operations on floats from integer compare-exchange.
        check_bounds: True to compare indices with the shape.
        fast_math: True to use the device's own functions of floats where it has them.
        target: of the module.
        splits: the arrays that take several bindings.
        aliased: True if an array may have bytes in common with another that is written.
    """

    local_size: tuple[int, int, int] | None = None
    grid_wrapped: bool = False
    emulate_atomics: bool = False
    check_bounds: bool = False
    fast_math: bool = False
    target: ir.Target = ANY
    splits: tuple[ir.Split, ...] = ()
    aliased: bool = False

    def compiled_with(self, **options: Any) -> CompileOptions:
        """Returns these options with others in place of some."""
        return self._replace(**options)


DEFAULTS = CompileOptions()
