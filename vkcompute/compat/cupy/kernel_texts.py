"""Kernels in Python for the texts of CuPy's kernels, which are statements and expressions of C."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vkcompute.c.definitions import scope_of
from vkcompute.c.expressions import Parser
from vkcompute.c.functions import NAMESPACE
from vkcompute.c.scopes import Scope
from vkcompute.c.statements import StatementParser
from vkcompute.c.terms import Term, converted
from vkcompute.c.tokens import UntranslatedError
from vkcompute.c.types import LONG
from vkcompute.errors import KernelError
from vkcompute.frontend.code_objects import function_of_text
from vkcompute.jit.elementwise.reduction import reduce
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id

_Result = TypeVar("_Result")
_NAMES = {"_global_id": global_id, **NAMESPACE}  # of the user's text the functions have names and numbers only


class CompileException(KernelError):
    """A text in C is refused; the message says why, and has the text."""


class Parameter(NamedTuple):
    """A parameter.

    Attributes:
        type: a letter, or the name of a dtype.
        name: the name in the text.
        raw: True if the text indexes it.
    """

    type: str
    name: str
    raw: bool

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype; None for a letter, which arguments bind."""
        return None if len(self.type) == 1 else np.dtype(self.type)


def parameters_of(text: str) -> list[Parameter]:
    """Returns the parameters of a list as `T x, raw float32 y`.

    Raises:
        ValueError: a part is no parameter.
        TypeError: there is no such dtype.
    """
    parameters = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        *qualifiers, kind, name = words if len(words := part.split()) > 1 else ("", "")
        if kind in ("", "raw", "const") or not {*qualifiers} <= {"raw", "const", "_non_const"}:
            raise ValueError(f"a parameter is a type and a name, as T x or raw T x; got {part!r}")
        if len(kind) > 1:
            np.dtype(kind)
        parameters.append(Parameter(kind, name, "raw" in qualifiers))
    return parameters


def _translated(text: str, translate: Callable[[], _Result]) -> _Result:
    """Returns a translation; its errors are CuPy's, with the text."""
    try:
        return translate()
    except UntranslatedError as error:
        raise NotImplementedError(f"{error} in {text.strip()!r}; write vc.kernel, or a jit.rawkernel") from None
    except (RecursionError, MemoryError, SyntaxError):  # those of Python's parser, of the translation
        raise CompileException("the text is nested too deeply; declare variables for parts of it") from None
    except KernelError as error:
        raise CompileException(f"{error}; the text is {text.strip()!r}") from None


def _scope(preamble: str, types: Mapping[str, str]) -> Scope:
    """Returns the scope of a text after definitions in C, for the dtypes of letters."""
    typedefs = {letter: np.dtype(name) for letter, name in types.items()}
    return _translated(preamble, lambda: scope_of(preamble, typedefs))


@functools.lru_cache(maxsize=512)
def compiled(
    operation: str, ins: tuple[Parameter, ...], outs: tuple[Parameter, ...], ranks: tuple[int, ...],
    dtypes: tuple[str, ...], types: tuple[tuple[str, str], ...], before: str = "", preamble: str = "",
) -> Any:  # fmt: skip
    """Returns the kernel of a text; arguments are those of `kernel_text`, and a text of definitions."""
    scope = _scope(preamble, dict(types))
    text = _translated(operation, lambda: kernel_text(operation, ins, outs, ranks, dtypes, scope, before))
    return kernel(_translated(operation, lambda: function_of_text(text, "kernel_of_text", _NAMES)))


def kernel_text(
    operation: str, ins: Sequence[Parameter], outs: Sequence[Parameter], ranks: Sequence[int],
    dtypes: Sequence[str], scope: Scope, before: str = "",
) -> str:  # fmt: skip
    """Returns a kernel in Python for a text in C.

    Args:
        ranks: for each input, the axes of an array: 1, or those of the shape for a view; 0 for a number.
        dtypes: those of inputs and results.
        scope: the types of letters, and what is defined before the text.
        before: a text whose variables the other one reads.
    """
    size = Term("np.int64(_n)", LONG)
    for name, term in {"i": Term("np.int64(i)", LONG), "n": size, "_ind.size()": size}.items():
        scope.declare(name, term)
    constants = {"np.int64(i)", "np.int64(_n)"}
    for k, (parameter, dtype) in enumerate(zip((*ins, *outs), dtypes, strict=True)):
        is_input, rank = k < len(ins), ranks[k] if k < len(ins) else 1
        text = f"p_{parameter.name}"
        if parameter.raw and rank:
            scope.declare(parameter.name, Term(text, np.dtype(dtype)), is_array=True)
            constants |= {parameter.name} if is_input else set()
            continue
        text = f"{text}[{_index(rank)}]" if rank else text
        scope.declare(parameter.name, Term(text, np.dtype(dtype)))
        constants |= {text} if is_input else set()
    constants |= scope.constants
    given = set(scope.names)
    scope.constants = frozenset({term.text for term in scope.names.values()} | {*scope.arrays})
    lines = StatementParser(before, scope).lines()
    scope.constants = frozenset(constants | {term.text for name, term in scope.names.items() if name not in given})
    lines += StatementParser(operation, scope).lines()
    lengths, positions = _positions(max(ranks, default=0))
    arguments = ", ".join([f"p_{parameter.name}" for parameter in (*outs, *ins)] + ["_n", *lengths])
    body = "\n".join(f"        {line}" for line in [*positions, *(lines or ["pass"])])
    text = f"def kernel_of_text({arguments}):\n    i = _global_id(0)\n    if i < _n:\n{body}\n"
    return "\n".join([*scope.module, text])


def _positions(rank: int) -> tuple[list[str], list[str]]:
    """Returns the names of the lengths of a shape's axes, and lines that compute the position along each from i."""
    if rank < 2:
        return [], []
    steps = [line for axis in reversed(range(rank)) for line in (f"i{axis} = rest % _n{axis}", f"rest //= _n{axis}")]
    return [f"_n{axis}" for axis in range(rank)], ["rest = i", *steps]


def _index(rank: int) -> str:
    return "i" if rank == 1 else ", ".join([f"i{axis}" for axis in range(rank)])


@functools.lru_cache(maxsize=512)
def reduction(
    map_text: str, reduce_text: str, names: tuple[tuple[str, str], ...], types: tuple[tuple[str, str], ...], dtype: str,
    initial: Any, preamble: str = "",
) -> Any:  # fmt: skip
    """Returns the reduction of mapped elements.

    Args:
        map_text, reduce_text: expressions of C, of elements by their names, and of `a` and `b`.
        names: the dtypes of names.
        types: the dtypes of letters.
        dtype: the dtype in which values are combined.
        initial: the first value.
        preamble: definitions in C.
    """
    kind = np.dtype(dtype)
    operands = [("a", dtype), ("b", dtype)]
    mapped = _function(map_text, names, _scope(preamble, dict(types)), kind)
    return reduce(_function(reduce_text, operands, _scope(preamble, dict(types)), kind), initial, map=mapped)


def _function(text: str, names: Sequence[tuple[str, str]], scope: Scope, result: Any) -> Any:
    """Returns an expression of C as a function of numbers."""
    for name, kind in names:
        scope.declare(name, Term(f"p_{name}", np.dtype(kind)))
    term = _translated(text, lambda: converted(Parser(text, scope).whole(), result))
    arguments = ", ".join(f"p_{name}" for name, _ in names)
    source = "\n".join([*scope.module, f"def function_of_text({arguments}):\n    return {term.text}\n"])
    return _translated(text, lambda: function_of_text(source, "function_of_text", _NAMES))


def constant_of(text: str, types: Mapping[str, str], dtype: np.dtype[Any], preamble: str = "") -> Any:
    """Returns the value of a constant expression of C, of a dtype; None for another expression."""
    parser = Parser(text, _scope(preamble, types))
    return _translated(text, lambda: converted(parser.whole(), dtype)).value
