"""Programs that are compiled for arguments before they are launched, as `warmup` returns them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from vkcompute.blocks.compiler.types import DTYPES, Dtype, dtype_of
from vkcompute.blocks.launching.arguments import OPTIONS, exact_key
from vkcompute.blocks.launching.build import ArrayType, IntType
from vkcompute.blocks.launching.launched import Launched
from vkcompute.errors import MissingFeature


class NamedTypes(NamedTuple):
    """The types and constants that a program is compiled for.

    Attributes:
        signature: Triton's names of the types, as "*fp32", "i64" or "constexpr", by parameter.
        constants: the values of constants by parameter, also of ints that are 1.
    """

    signature: dict[str, str]
    constants: dict[str, Any]


def _types(program: Any, args: Sequence[Any]) -> NamedTypes:
    """Returns the names of the types of arguments, in the order of the parameters."""

    def typed(arg: Any) -> ArrayType | None:
        dtype = dtype_of(arg.dtype) if isinstance(getattr(arg, "shape", None), tuple) else None
        return None if dtype is None else ArrayType("", False, False, f"*{_short(dtype)}")

    constants, signature = program.parameters.typed(args, typed, {})
    names = program.arg_names
    kinds = {names[at]: "constexpr" for at in constants}
    for at, kind in signature.items():
        kinds[names[at]] = str(kind.element) if isinstance(kind, ArrayType) else _of_number(kind)
    return NamedTypes({name: kinds[name] for name in names}, {names[at]: value for at, value in constants.items()})


def _of_number(kind: Any) -> str:
    if kind is bool:
        return "u1"
    return "fp32" if kind is float else _short(DTYPES[kind.name if isinstance(kind, IntType) else str(kind)])


def _short(dtype: Dtype) -> str:
    """Returns Triton's name of a dtype, as "i32" and "bf16"."""
    return str(dtype).replace("uint", "u").replace("int", "i")


class CompiledKernel(Launched):
    """A program compiled for arguments: `compiled[grid](…)` launches it with the same constants and options.

    Arguments of other types compile the program anew. Other attributes are those of the kernel, as `statistics`.

    Args:
        program: a `JITFunction`.
        grid, args, named: of a launch.

    Attributes:
        kernel: the kernel.
        metadata: `shared`, bytes of workgroup memory and at least 1, since callers divide by it, with `name`,
            `num_warps`, `num_stages` and `num_ctas`.
    """

    def __init__(self, program: Any, grid: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._program, self.__name__, self.arg_names = program, program.__name__, program.arg_names
        self._options = {name: named[name] for name in OPTIONS if name in named and name not in self.arg_names}
        ordered, options = program.parameters.bound(args, dict(named))
        pairs = zip(self.arg_names, ordered, program.parameters.constexprs, strict=True)
        self._constants = {name: value for name, value, constexpr in pairs if constexpr}
        self.kernel, shared_nbytes = program.launcher.compiled(grid, args, named)
        self.name: str = self.kernel.name if program.name_of is None else program.name_of(_types(program, ordered))
        self.metadata = SimpleNamespace(
            name=self.name, shared=max(1, shared_nbytes), num_warps=options.n_warps, num_stages=1, num_ctas=1
        )

    @property
    def n_regs(self) -> int:
        """Registers per invocation, at least 1, since callers divide by it; 1 if the driver does not report them."""
        return max(1, self._statistic("registers"))

    @property
    def n_spills(self) -> int:
        """Registers that are spilled to memory; 0 if the driver does not report them."""
        return self._statistic("spills")

    def _statistic(self, name: str) -> int:
        try:
            return int(getattr(self.kernel.statistics(), name) or 0)
        except MissingFeature:
            return 0

    def _init_handles(self) -> None:
        """Does nothing: the kernel is on its device."""

    def run(self, *args: Any, grid: Any, **named: Any) -> Any:
        """Launches the program, given its arguments with or without those that are tl.constexpr.

        Raises:
            ValueError: a constant is not that for which it was compiled.
        """
        names = [name for name in self.arg_names if len(args) == len(self.arg_names) or name not in self._constants]
        given = {**dict(zip(names, args, strict=False)), **named}
        for name, value in self._constants.items():
            if exact_key(got := given.setdefault(name, value)) != exact_key(value):
                raise ValueError(f"{self.__name__} is compiled for {name}={value!r}; got {got!r}; launch the program")
        if len(args) > len(names):
            raise TypeError(f"{self.__name__} takes {len(names)} arguments beside constants; got {len(args)}")
        return self._program.run(grid=grid, **{**self._options, **given})

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the kernel."""
        if name == "kernel":  # not set yet
            raise AttributeError(name)
        return getattr(self.kernel, name)

    def __repr__(self) -> str:
        return f"<compiled block program {self.__name__}>"
