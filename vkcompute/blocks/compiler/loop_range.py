"""The ranges of for loops, `tl.range` and `tl.static_range`."""

from __future__ import annotations

from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError


class LoopRange:
    """`tl.range` or `tl.static_range`, whose calls give the iterations of a for loop."""

    hints = (
        "num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm"
    )  # fmt: skip
    parameters = "arg1", "arg2", "step"

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def bounds(self, args: list[Any], named: dict[str, Any]) -> list[Any]:
        """Returns the arguments of `range`. Raises UnsupportedError for an unknown name."""
        allowed = (*self.parameters[len(args) :], *(self.hints if self.__name__ == "range" else ()))
        unknown = [name for name in named if name not in allowed]
        if unknown:
            raise UnsupportedError(
                f"tl.{self.__name__} has no parameter {unknown[0]} here; it has {', '.join(allowed)}"
            )
        given = {**dict(zip(self.parameters, args, strict=False)), **named}
        if "arg1" not in given or len(args) > len(self.parameters):
            raise UnsupportedError(f"tl.{self.__name__} takes 1 to 3 integers; got {len(args)}")
        start, stop, step = (given.get(name) for name in self.parameters)
        return [0 if stop is None else start, start if stop is None else stop, 1 if step is None else step]
