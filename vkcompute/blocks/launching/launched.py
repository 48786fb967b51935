"""Programs that are launched on a grid in brackets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any


class KernelInterface:
    """Base of launchers of all kinds: `launcher[grid](…)` is `launcher.run(…, grid=grid, warmup=False)`.

    Libraries derive from it.
    """

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Returns a function that launches on a grid: a tuple, or a function of the arguments by name."""
        return partial(self.run, grid=grid, warmup=False)

    def run(self, *args: Any, grid: Any, **named: Any) -> Any:
        """Launches."""
        raise NotImplementedError


class Launched(KernelInterface):
    """Base of programs, and of decorators of programs: `program[grid](…)` launches.

    Attributes:
        fn: the function, or the decorated program.
        arg_names: names of the parameters.
    """

    __name__: str
    fn: Any
    arg_names: list[str]

    @property
    def base_fn(self) -> Any:
        """The function under all decorators."""
        program = self.fn
        while not isinstance(program, FunctionType):
            program = program.fn
        return program

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Returns a function that launches the program on a grid: a tuple, or a function of the arguments by name."""
        return partial(self.run, grid=grid)

    def by_name(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments by name, as far as they are given."""
        return {**dict(zip(self.arg_names, args, strict=False)), **named}
