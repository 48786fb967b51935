"""`print` and f-strings in kernels. The host formats the text from the numbers that invocations report."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from vkcompute.compiled.report import escaped
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.compiler import KERNEL_EXPRESSIONS, SPECIAL_FORMS, Compiler
from vkcompute.jit.frontend.values import ArrayValue, Complex, Number, Vector, describe
from vkcompute.jit.library.format_strings import as_f_string


def _printed(e: Evaluator, node: ast.Call) -> None:
    """Expands a call of print."""
    options: dict[str, Any] = {"sep": " ", "end": "\n"}
    for keyword in node.keywords:
        given = e.value(keyword.value)
        if keyword.arg == "flush":
            continue
        if keyword.arg not in options:
            got = keyword.arg or "**"
            raise UnsupportedError(f"print takes sep and end in kernels, and writes to sys.stdout; got {got}")
        if given is not None and not isinstance(given, str):
            raise UnsupportedError(f"{keyword.arg} is a string known at compile time; got {describe(given)}")
        options[keyword.arg] = options[keyword.arg] if given is None else given
    values: list[Number] = []
    parts = [template(e, arg, values) for arg in node.args]
    assert isinstance(e.language, Compiler), "only kernels have this form of print"
    e.language.report(escaped(options["sep"]).join(parts) + escaped(options["end"]), values)


def _formatted(e: Evaluator, node: ast.JoinedStr) -> str:
    """Evaluates an f-string of constants."""
    values: list[Number] = []
    text = _joined(e, node, values)
    if values:
        raise UnsupportedError("an f-string of device values is for print() only, as print(f'{i}: {x}')")
    return text.format()


def template(e: Evaluator, node: ast.expr, values: list[Number]) -> str:
    """Returns a format string for an argument, and appends the numbers that it refers to."""
    text = node if isinstance(node, ast.JoinedStr) else e.located(as_f_string, node)
    return _shown(e.value(node), values) if text is None else _joined(e, text, values)


def _joined(e: Evaluator, node: ast.JoinedStr, values: list[Number]) -> str:
    return "".join(
        [
            e.located(lambda each: _field(e, each, values), part)
            if isinstance(part, ast.FormattedValue)
            else escaped(e.value(part))
            for part in node.values
        ]
    )


def _field(e: Evaluator, node: ast.FormattedValue, values: list[Number]) -> str:
    """Returns a format string for a replacement field of an f-string."""
    spec = _formatted(e, node.format_spec) if isinstance(node.format_spec, ast.JoinedStr) else ""
    if isinstance(node.value, ast.JoinedStr):
        raise UnsupportedError("an f-string in an f-string; write one")
    value = e.value(node.value)
    sample = value.kind.type.numpy.type(1) if isinstance(value, Number) else value
    if isinstance(value, (tuple, ArrayValue)) and (spec or node.conversion >= 0):
        raise UnsupportedError(f"{describe(value)} has no format; format its elements")
    as_text = node.conversion >= 0  # str, repr and ascii of a number are the same
    if isinstance(value, str) and node.conversion == ord("r"):
        sample = value = repr(value)
    try:
        text = format(str(sample) if as_text else sample, spec)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"the format {spec!r} does not fit {describe(value)}: {error}") from None
    if not isinstance(value, Number):
        return escaped(text) if spec or as_text else _shown(value, values)
    values.append(value)
    return f"{{{len(values) - 1}{'!s' * as_text}{':' * bool(spec)}{escaped(spec)}}}"


def _shown(value: Any, values: list[Number]) -> str:
    """Returns a format string for `str(value)`."""
    if isinstance(value, Number):
        values.append(value)
        return f"{{{len(values) - 1}!s}}"
    if isinstance(value, ArrayValue):
        raise UnsupportedError(f"print takes numbers; got {describe(value)}; print its elements")
    if isinstance(value, Complex):
        real, imag = _shown(value[0], values), _shown(value[1], values)
        return f"({real}{imag.replace('!s', ':+}').removesuffix('}')}j)"
    if isinstance(value, tuple):
        parts = [escaped(repr(part)) if isinstance(part, str) else _shown(part, values) for part in value]
        name = ""
        if isinstance(value, Vector):
            first = value[0]
            kind = first.kind.type.numpy.type if isinstance(first, Number) else type(np.asarray(first)[()])
            name = f"{kind.__name__}x{len(value)}"
        return f"{name}({', '.join(parts)}{',' * (len(parts) == 1)})"
    return escaped(str(value))


KERNEL_EXPRESSIONS[ast.JoinedStr] = _formatted
SPECIAL_FORMS[print] = _printed
