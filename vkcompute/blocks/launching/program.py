"""`triton.jit`: block programs in Python."""

from __future__ import annotations

import functools
import hashlib
import os
import textwrap
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from vkcompute.blocks.compiler.refusals import PYTHONIC
from vkcompute.blocks.launching.arguments import Parameters
from vkcompute.blocks.launching.compiled import CompiledKernel, NamedTypes
from vkcompute.blocks.launching.launched import Launched
from vkcompute.blocks.launching.parameter import KernelParam
from vkcompute.errors import hides_calls
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation import fingerprint

if TYPE_CHECKING:
    from vkcompute.blocks.launching.launcher import BlockLauncher
    from vkcompute.compiled.spilling_kernel import SpillingKernel
    from vkcompute.jit.simulator.launch import Done
    from vkcompute.runtime.launching.kernel import Kernel

__tracebackhide__ = hides_calls

_SWITCHES = "TRITON_INTERPRET", "VKCOMPUTE_SIMULATE"
_ON = "1", "true", "yes", "on"


def is_interpreting() -> bool:
    """True if an environment variable asks for interpreted launches."""
    return any(os.environ.get(switch, "").lower() in _ON for switch in _SWITCHES)


class JITFunction(Launched):
    """A function made by `jit`: `kernel[grid](x, y, BLOCK=1024)` launches it, and other programs may call it.

    Args:
        is_internal: as made by `block_program`.
        has_complex: True if it may have complex numbers, which Triton has not.
        repr: returns the name of a compiled program for its `NamedTypes`; None for the function's name.

    Attributes:
        fn: the function.
        definition: the function and its source.
        signature: its parameters, as `inspect` has them.
        parameters: its parameters, of which some are constants.
        must_use_result: True if a program may not drop the result of a call.
        noinline: True if programs pass it scalars only.
    """

    def __init__(
        self,
        function: FunctionType,
        *,
        debug: bool = False,
        noinline: bool = False,
        do_not_specialize: Iterable[str | int] = (),
        do_not_specialize_on_alignment: Iterable[str | int] = (),
        is_internal: bool = False,
        has_complex: bool = False,
        repr: Callable[[NamedTypes], str] | None = None,
    ) -> None:
        self.name_of = repr
        self._debug, self._is_internal, self.must_use_result = debug, is_internal, False
        self.noinline = noinline
        functools.update_wrapper(self, function)
        self.fn, self.definition = function, definition_of(function, "a block program", takes_rest=True)
        self.signature = self.definition.signature
        self.parameters = Parameters(
            function.__name__,
            self.signature,
            unspecialized=do_not_specialize,
            unaligned=do_not_specialize_on_alignment,
            has_complex=has_complex,
        )
        self.arg_names = self.parameters.names
        self.__globals__ = function.__globals__

    @cached_property
    def params(self) -> list[KernelParam]:
        """Its parameters, as libraries ask for them."""
        parameters = enumerate(self.signature.parameters.values())
        return [
            KernelParam(at, parameter.name, parameter.annotation, parameter.default, *self.parameters.traits(at))
            for at, parameter in parameters
        ]

    @cached_property
    def cache_key(self) -> str:
        """A text that changes with that of the program, and not between processes."""
        text = fingerprint.function(self.fn) or self.src
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def src(self) -> str:
        """The text of the program, from `def` on."""
        text = textwrap.dedent("\n".join(self.definition.source.lines))
        return text[text.index("def ") :]

    @cached_property
    def launcher(self) -> BlockLauncher:
        """Its launches. It loads the driver's package."""
        from vkcompute.blocks.launching.launcher import BlockLauncher  # not at import: it loads the driver

        self._check()
        return BlockLauncher(self.definition, self.parameters, debug=self._debug, is_internal=self._is_internal)

    @cached_property
    def _launch(self) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]:
        """Its launches: on the device, or interpreted, as the environment says at the first one."""
        if not self._is_internal and is_interpreting():
            from vkcompute.blocks.launching import interpretation  # not at import: it takes the simulator

            self._check()
            return partial(interpretation.run, self.definition, self.parameters)
        return self.launcher

    def _check(self) -> None:
        """Raises an error for a program that only others call, and for a constant that is not to be specialized for."""
        for parameter in self.signature.parameters.values():
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise self.definition.error(f"a program that is launched has no {parameter}; pass a tuple")
        wrong = [parameter.name for parameter in self.params if parameter.is_constexpr and parameter.do_not_specialize]
        if wrong and not self._is_internal:
            raise ValueError(
                f"{wrong[0]} of {self.__name__} is a tl.constexpr, for each value of which it is compiled, and in "
                "do_not_specialize; take it from one of them"
            )

    def run(self, *args: Any, grid: Any, **named: Any) -> Any:
        """Launches the program; returns a `Future`, which has completed with an empty grid, or interpreted.

        With `warmup=False`, as launchers of libraries call it, it returns the compiled program, unless interpreted;
        with True it only compiles, as the method does. A parameter of this name takes the value instead.
        """
        if "warmup" not in named or "warmup" in self.arg_names:
            return self._launch(grid, args, named)
        if named.pop("warmup"):
            return self.warmup(*args, grid=grid, **named)
        future = self._launch(grid, args, dict(named))
        return self.warmup(*args, grid=grid, **named) if self._launch is self.launcher else future

    def kernel(self, *args: Any, grid: Any, **named: Any) -> Kernel | SpillingKernel:
        """Returns the kernel that a launch would run, for its statistics and assembly."""
        return self.launcher.compiled(grid, args, named)[0]

    def warmup(self, *args: Any, grid: Any, **named: Any) -> CompiledKernel:
        """Compiles the program for these arguments, without a launch; `compiled[grid](…)` of the result launches it."""
        return CompiledKernel(self, grid, args, named)

    @property
    def interpret(self) -> Interpretation:
        """The program run by numpy, with bounds checked: `program.interpret[grid](…)`.

        With TRITON_INTERPRET=1 or VKCOMPUTE_SIMULATE=1 at its first launch, all are.
        """
        return Interpretation(self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Raises the error for a call outside of a program."""
        raise RuntimeError(
            f"{self.__name__} is launched on a grid, as {self.__name__}[grid](…); other programs call it"
        )

    def __repr__(self) -> str:
        return f"<block program {self.__name__}>"


class Interpretation:
    """Interpreted launches of a program, on NumPy arrays (without a driver) or arrays."""

    def __init__(self, program: JITFunction) -> None:
        self._program = program

    def __getitem__(self, grid: Any) -> Callable[..., Done]:
        """Returns a function that runs the program on a grid."""
        return partial(self._run, grid)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Raises the error for a call without a grid."""
        name = self._program.__name__
        raise RuntimeError(f"{name} is interpreted on a grid; write {name}.interpret[grid](…)")

    def _run(self, grid: Any, *args: Any, **named: Any) -> Done:
        from vkcompute.blocks.launching import interpretation

        return interpretation.run(self._program.definition, self._program.parameters, grid, args, named)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    version: Any = None,
    repr: Any = None,
    launch_metadata: Any = None,
    do_not_specialize: Iterable[str | int] | None = None,
    do_not_specialize_on_alignment: Iterable[str | int] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Any:
    """Makes a block program of a Python function, which is launched on a grid:

        @triton.jit
        def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
            offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            mask = offsets < n
            tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)

        add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=1024)

    Arguments are arrays, whose pointers the program gets, NumPy arrays, PyTorch's tensors of the host, tables of
    pointers, tensor descriptors, numbers, None, and tuples of these.

    Args:
        debug: True to check the conditions of `tl.device_assert`, as the environment variable TRITON_DEBUG=1 does.
        do_not_specialize: names or indices of ints for which no program is compiled anew: 1 is no constant, and
            multiples of 16 are not known to be such. Names of no parameter have no effect.
        do_not_specialize_on_alignment: those of ints whose multiples of 16 are not known to be such.
        repr: returns the name of a program compiled by `warmup`, given its `signature` and `constants` by parameter.
        noinline: True for a function to which other programs pass scalars only. It is inlined all the same.
        version, launch_metadata: have no effect.

    Raises:
        KernelError: there is no source; or, at a launch, the program does something that is not supported.
    """
    options: dict[str, Any] = {
        "debug": bool(debug),
        "noinline": bool(noinline),
        "do_not_specialize": do_not_specialize or (),
        "do_not_specialize_on_alignment": do_not_specialize_on_alignment or (),
        "repr": repr,
    }
    if function is None:
        return partial(jit, **options)
    if not isinstance(function, FunctionType):
        raise TypeError(f"triton.jit takes a function written in Python; got {type(function).__name__}")
    return JITFunction(function, **options)


def block_program(function: Callable[..., Any]) -> JITFunction:
    """Makes a block program of the library, which is launched as those of users, and has none of Triton's refusals.

    One specialization serves all ints: none is a constant, or known to be a multiple. State divisors by
    `tl.multiple_of`. Environment variables that check or interpret the programs of users have no effect.
    """
    assert isinstance(function, FunctionType), "a function written in Python"
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    setattr(function, PYTHONIC, True)
    return JITFunction(function, do_not_specialize=names, is_internal=True, has_complex=True)


def complex_program(function: Callable[..., Any]) -> JITFunction:
    """Makes a block program that has complex numbers, too, and is launched and checked as those of `jit`.

    Elements of its arrays may be complex64 and complex128. `vkcompute.blocks.language` has these dtypes, and the
    functions of all programs.

    Raises:
        KernelError: as `jit`.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"complex_program takes a function written in Python; got {type(function).__name__}")
    return JITFunction(function, has_complex=True)
