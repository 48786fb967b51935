"""Functions that are made of a text, around a user's function."""

from __future__ import annotations

import textwrap
from typing import Any

from vkcompute.frontend.source import PROGRAM


def made(text: str, name: str, **names: Any) -> Any:
    """Returns the function `name` that a text defines, with these globals."""
    text = textwrap.dedent(text)
    # A name of this package would count as one whose globals never change.
    scope: dict[str, Any] = {"__name__": "<generated>", **names}
    exec(compile(text, "<generated>", "exec"), scope)
    function = scope[name]
    setattr(function, PROGRAM, text)
    return function
