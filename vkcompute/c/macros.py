"""C's preprocessor: macros, and the lines that begin with `#`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vkcompute.c.tokens import Token, UntranslatedError, require_count, tokens_of
from vkcompute.errors import KernelError

_DIRECTIVE = re.compile(r"^([ \t]*#.*)$", re.MULTILINE)
_DEFINITION = re.compile(r"(\w+)(\([\w\s,]*\))?(.*)", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEADERS = frozenset(
    "cfloat climits cmath cstdint float.h limits limits.h math.h math_constants.h stdint.h cuda_fp16.h "
    "cupy/carray.cuh cupy/complex.cuh cupy/math_constants.h thrust/complex.h".split()
)
"""Headers whose names are known to every text."""


class Macro(NamedTuple):
    """A macro: its parameters, None without parentheses, and the tokens that replace it."""

    parameters: tuple[str, ...] | None
    tokens: tuple[Token, ...]


Macros = dict[str, Macro]


def preprocessed(text: str, macros: Macros) -> list[Token]:
    """Returns the tokens of a text with its macros expanded, and adds its definitions to `macros`.

    Raises:
        UntranslatedError: a directive is not translated.
        KernelError: a macro gets another number of arguments.
    """
    if "#" not in text and not macros:
        return tokens_of(text)
    plain = _COMMENT.sub(" ", text.replace("\\\n", " "))
    tokens: list[Token] = []
    for number, part in enumerate(_DIRECTIVE.split(plain)):
        if number % 2:
            _direct(part.strip()[1:].strip(), macros)
        else:
            tokens += _expanded(tokens_of(part)[:-1], macros, frozenset())
    return [*tokens, Token("end", "")]


def _direct(directive: str, macros: Macros) -> None:
    """Executes a directive, given without its `#`."""
    name, rest = [*directive.split(None, 1), "", ""][:2]
    if name == "define" and (match := _DEFINITION.fullmatch(rest.strip())):
        parameters = tuple([word.strip() for word in match[2][1:-1].split(",") if word.strip()]) if match[2] else None
        tokens = tokens_of(match[3])[:-1]
        if not any(token.text == "#" for token in tokens) and match[3][:1] != "(":
            macros[match[1]] = Macro(parameters, tuple(tokens))
            return
    if name == "undef":
        macros.pop(rest.strip(), None)
    elif name != "pragma" and not (name == "include" and rest.strip()[1:-1] in _HEADERS):
        raise UntranslatedError(
            "of C's directives, #define without #, ## and ..., #undef, #pragma, and #include of a header of numbers "
            f"are translated; got {'#' + directive!r}"
        )


def _expanded(tokens: Sequence[Token], macros: Mapping[str, Macro], hidden: frozenset[str]) -> list[Token]:
    """Returns tokens with macros expanded, but for those inside of themselves."""
    result: list[Token] = []
    at = 0
    while at < len(tokens):
        token, at = tokens[at], at + 1
        macro = macros.get(token.text) if token.kind == "name" and token.text not in hidden else None
        is_call = at < len(tokens) and tokens[at].text == "("
        if macro is None or (macro.parameters is not None and not is_call):
            result.append(token)
            continue
        arguments: dict[str, list[Token]] = {}
        if macro.parameters is not None:
            given, at = _arguments(token.text, tokens, at + 1)
            require_count(token.text, len(macro.parameters), len(given))
            arguments = {
                name: _expanded(argument, macros, hidden)
                for name, argument in zip(macro.parameters, given, strict=True)
            }
        body = [part for word in macro.tokens for part in arguments.get(word.text, [word])]
        expansion = _expanded(body, macros, hidden | {token.text})
        if (
            expansion
            and at < len(tokens)
            and tokens[at].text == "("
            and _is_function(expansion[-1], macros, hidden | {token.text})
        ):
            tokens, at = [expansion.pop(), *tokens[at:]], 0  # its arguments follow
        result += expansion
    return result


def _is_function(token: Token, macros: Mapping[str, Macro], hidden: frozenset[str]) -> bool:
    """Returns whether a token names a macro with parameters that is not expanded yet."""
    macro = macros.get(token.text) if token.kind == "name" and token.text not in hidden else None
    return macro is not None and macro.parameters is not None


def _arguments(name: str, tokens: Sequence[Token], at: int) -> tuple[list[list[Token]], int]:
    """Returns the arguments of a macro, and the position behind them."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for position in range(at, len(tokens)):
        token = tokens[position]
        if token.text == ")" and depth == 0:
            return ([] if arguments == [[]] else arguments), position + 1
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if token.text == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    raise KernelError(f"the arguments of {name} have no end; add )")
