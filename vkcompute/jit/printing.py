"""`print` in kernels: the text is made on the host, of the numbers that invocations report."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.jit.report import escaped, report
from vkcompute.jit.source import Refused
from vkcompute.jit.values import Array, Number, Vector, describe

if TYPE_CHECKING:
    from vkcompute.jit.expressions import Expressions


def printed(c: Expressions, node: ast.Call) -> None:
    """A call of print."""
    options: dict[str, Any] = {"sep": " ", "end": "\n"}
    for each in node.keywords:
        given = c.value(each.value)
        if each.arg == "flush":
            continue
        if each.arg not in options:
            raise Refused(f"print takes sep and end in kernels, and writes to sys.stdout; got {each.arg or '**'}")
        if given is not None and not isinstance(given, str):
            raise Refused(f"{each.arg} is a string, known at compile time; got {describe(given)}")
        options[each.arg] = options[each.arg] if given is None else given
    values: list[Number] = []
    parts = [_text(c, each, values) for each in node.args]
    report(c, escaped(options["sep"]).join(parts) + escaped(options["end"]), values)


def formatted(c: Expressions, node: ast.JoinedStr) -> str:
    """The value of an f-string that is known at compile time."""
    values: list[Number] = []
    text = _joined(c, node, values)
    if values:
        raise Refused("an f-string of what the device computes is for print() only, as print(f'{i}: {x}')")
    return text.format()


def _text(c: Expressions, node: ast.expr, values: list[Number]) -> str:
    """An argument as text for `str.format` with `values`, to which its numbers are added."""
    return _joined(c, node, values) if isinstance(node, ast.JoinedStr) else _shown(c.value(node), values)


def _joined(c: Expressions, node: ast.JoinedStr, values: list[Number]) -> str:
    return "".join(
        [
            c.located(lambda each: _field(c, each, values), each)
            if isinstance(each, ast.FormattedValue)
            else escaped(c.value(each))
            for each in node.values
        ]
    )


def _field(c: Expressions, node: ast.FormattedValue, values: list[Number]) -> str:
    """What stands in braces in an f-string."""
    spec = formatted(c, node.format_spec) if isinstance(node.format_spec, ast.JoinedStr) else ""
    if isinstance(node.value, ast.JoinedStr):
        raise Refused("an f-string in an f-string; write one")
    value = c.value(node.value)
    sample = value.kind.type.numpy.type(1) if isinstance(value, Number) else value
    if isinstance(value, (tuple, Array)) and (spec or node.conversion >= 0):
        raise Refused(f"{describe(value)} has no format; format its elements")
    as_text = node.conversion >= 0  # numbers have one text: that of str
    if isinstance(value, str) and node.conversion == ord("r"):
        sample = value = repr(value)
    try:
        text = format(str(sample) if as_text else sample, spec)
    except (TypeError, ValueError) as error:
        raise Refused(f"the format {spec!r} does not fit {describe(value)}: {error}") from None
    if not isinstance(value, Number):
        return escaped(text) if spec or as_text else _shown(value, values)
    values.append(value)
    return f"{{{len(values) - 1}{'!s' * as_text}{':' * bool(spec)}{escaped(spec)}}}"


def _shown(value: Any, values: list[Number]) -> str:
    """A value as `str` has it."""
    if isinstance(value, Number):
        values.append(value)
        return f"{{{len(values) - 1}!s}}"
    if isinstance(value, Array):
        raise Refused(f"print takes numbers; got {describe(value)}; print its elements")
    if isinstance(value, tuple):
        parts = [escaped(repr(each)) if isinstance(each, str) else _shown(each, values) for each in value]
        name = ""
        if isinstance(value, Vector):
            first = value[0]
            kind = first.kind.type.numpy.type if isinstance(first, Number) else type(np.asarray(first)[()])
            name = f"{kind.__name__}x{len(value)}"
        return f"{name}({', '.join(parts)}{',' * (len(parts) == 1)})"
    return escaped(str(value))
