"""Tokens of C, and the values of literals."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from vkcompute.c import types
from vkcompute.errors import KernelError

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<number>0[xX](?:[0-9a-fA-F']*\.?[0-9a-fA-F']*)(?:[pP][+-]?\d+)?\w*"
    r"|(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?\w*)"
    r"|(?P<name>(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"
    r"|(?P<character>'(?:\\.[^']*|[^'\\])')"
    r"|(?P<sign><<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^=|\+\+|--|->|.)",
    re.DOTALL,
)
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)([uUlL]*)")
_FLOAT = re.compile(r"(0[xX][0-9a-fA-F.]+[pP][+-]?\d+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([fFlL]?)")
_SUFFIXES = ("", "u", "l", "ul", "lu", "ll", "ull", "llu")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}


class UntranslatedError(NotImplementedError):
    """The text has parts of C that are not translated."""


def require_count(name: str, n: int, got: int) -> None:
    """Raises KernelError if a function or macro of n parameters gets another number of arguments."""
    if got != n:
        raise KernelError(f"{name} takes {n} argument{'s' * (n != 1)}; got {got}")


class Token(NamedTuple):
    """A token: `kind` is "number", "name", "character", "sign", or "end"."""

    kind: str
    text: str


def tokens_of(text: str) -> list[Token]:
    """Returns the tokens of a text, the last one of kind "end". Comments are left out."""
    tokens = [Token(str(match.lastgroup), match.group()) for match in _TOKEN.finditer(text)]
    return [*(token for token in tokens if token.kind != "space"), Token("end", "")]


def number(text: str) -> Any:
    """Returns the value of a literal, of its type.

    Raises:
        KernelError: it is no number of C.
    """
    plain = text.replace("'", "")
    if (match := _INTEGER.fullmatch(plain)) and match[2].lower() in _SUFFIXES:
        return _integer(text, match[1].lower(), match[2].lower())
    if (match := _FLOAT.fullmatch(plain)) and re.search(r"[.eEpP]", match[1]):
        return _float(match[1].lower(), match[2].lower())
    raise KernelError(f"C has no number {text}; write it as 1, 0x1f, 1.5, or 1.5f")


def _integer(text: str, digits: str, suffix: str) -> Any:
    is_octal = re.fullmatch(r"0\d+", digits)
    try:
        value = int(digits, 8 if is_octal else 0)
    except ValueError:
        raise KernelError(f"{text} starts with 0, so its digits are octal, 0 to 7; leave the 0 out") from None
    kind = types.literal_type(
        value, unsigned="u" in suffix, long="l" in suffix, decimal=not digits.startswith("0") or digits == "0"
    )
    if kind is None:
        raise KernelError(f"{text} exceeds the 64 bits of the widest integers; write a float, as {text}.0")
    return kind.type(value)


def _float(digits: str, suffix: str) -> Any:
    exact = float.fromhex(digits) if digits.startswith("0x") else float(digits)
    return types.constant(exact, types.DOUBLE) if suffix != "f" else _rounded_once(digits, exact)


def _rounded_once(digits: str, near: float) -> Any:
    """Returns the float32 nearest to a literal: its float64 has been rounded once."""
    first = types.constant(near, types.FLOAT)
    if digits.startswith("0x") or not math.isfinite(first):
        return first
    neighbours = [first, *(np.nextafter(first, np.float32(end)) for end in (-math.inf, math.inf))]
    exact = Fraction(digits)
    return min((x for x in neighbours if math.isfinite(x)), key=lambda x: abs(Fraction(float(x)) - exact))


def character(text: str) -> Any:
    """Returns the value of a character, a `char`.

    Raises:
        KernelError: it is no character of one byte.
    """
    inner = text[1:-1]
    if inner.startswith("\\x"):
        return types.constant(int(inner[2:], 16), types.CHAR)
    value = _ESCAPES.get(inner[1:]) if inner.startswith("\\") else ord(inner)
    if value is None or value > 127:
        raise KernelError(f"a character of C is one of ASCII; got {text}; write its number")
    return types.constant(value, types.CHAR)
