"""`"…".format(x)` and `"…" % x` as f-strings."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator

from vkcompute.frontend.unsupported import UnsupportedError

_INTEGERS = str.maketrans("iu", "dd")
_FIELD = re.compile(
    r"%(?P<flags>[-+ 0#]*)(?P<width>(?:[1-9]\d*)?)(?P<precision>(?:\.\d+)?)(?P<kind>[diuoxXeEfFgGsra%])"
)


def as_f_string(node: ast.expr) -> ast.JoinedStr | None:
    """Returns the f-string of a call of `format` on a string, or of a string with %; None for another expression.

    Raises:
        UnsupportedError: the string has a field that no f-string has.
    """
    match node:
        case ast.Call(ast.Attribute(ast.Constant(str(text)), "format"), args, keywords):
            named = {keyword.arg: keyword.value for keyword in keywords}
            parts = _braces(text, dict(enumerate(args)) | named)
        case ast.BinOp(ast.Constant(str(text)), ast.Mod(), right):
            parts = _percents(text, right.elts if isinstance(right, ast.Tuple) else [right])
        case _:
            return None
    return ast.fix_missing_locations(ast.copy_location(ast.JoinedStr([*parts]), node))


def _braces(text: str, args: dict[int | str | None, ast.expr]) -> Iterator[ast.expr]:
    """Yields the parts of an f-string for a format string."""
    try:
        fields = [*string.Formatter().parse(text)]
    except ValueError as error:
        raise UnsupportedError(f"{text!r} is no format: {error}") from None
    for n, (literal, name, spec, conversion) in enumerate(fields):
        yield ast.Constant(literal)
        if name is None:
            continue
        key = sum(field[1] == "" for field in fields[:n]) if name == "" else int(name) if name.isdigit() else name
        if key not in args or "{" in (spec or ""):
            raise UnsupportedError(f"{text!r} has no argument for the field {name!r}; write an f-string")
        yield _field(args[key], conversion, spec or "")


def _percents(text: str, args: list[ast.expr]) -> Iterator[ast.expr]:
    """Yields the parts of an f-string for a string with % fields."""
    rest, end = [*args], 0
    for match in _FIELD.finditer(text):
        yield ast.Constant(text[end : match.start()])
        end, kind, flags, precision = match.end(), match["kind"], match["flags"], match["precision"]
        if kind == "%":
            yield ast.Constant("%")
            continue
        if not rest or (precision and kind in "diuoxX"):
            raise UnsupportedError(f"{text!r} has no argument for {match[0]}, or no format; write an f-string")
        align = "<" if "-" in flags else ">" if match["width"] and "0" not in flags else ""
        as_text = kind in "sra"
        signs = "" if as_text else "".join(flag for flag in "+ #" if flag in flags).replace("+ ", "+")
        zero = "0" if "0" in flags and "-" not in flags and not as_text else ""
        spec = f"{align}{signs}{zero}{match['width']}{precision}"
        yield _field(rest.pop(0), kind if as_text else None, spec if as_text else spec + kind.translate(_INTEGERS))
    if rest or "%" in text[end:] or "%" in _FIELD.sub("", text):
        raise UnsupportedError(f"{text!r} does not fit its {len(args)} arguments; write an f-string")
    yield ast.Constant(text[end:])


def _field(value: ast.expr, conversion: str | None, spec: str) -> ast.FormattedValue:
    return ast.FormattedValue(
        value, ord(conversion) if conversion else -1, ast.JoinedStr([ast.Constant(spec)]) if spec else None
    )
