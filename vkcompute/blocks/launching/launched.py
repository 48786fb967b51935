"""Programs that are launched on a grid in brackets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


class Launched:
    """Base of programs, and of decorators of programs: `program[grid](…)` launches.

    Attributes:
        arg_names: names of the parameters.
    """

    __name__: str
    arg_names: list[str]

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Returns a function that launches the program on a grid: a tuple, or a function of the arguments by name."""
        return partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **named: Any) -> Any:
        """Launches the program."""
        raise NotImplementedError

    def by_name(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments by name, as far as they are given."""
        return {**dict(zip(self.arg_names, args, strict=False)), **named}
