"""Errors begin with the name of the public function that was called, whichever function inside raises them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from vkcompute.errors import DtypeError, VkComputeError, is_of_library

_Class = TypeVar("_Class", bound=type)
_KINDS = TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, NotImplementedError
_public: set[str] = set()
"""Names of public functions; one at the begin of a message is replaced by that of the function that calls it."""


def name_caller(error: Exception, name: str) -> None:
    """Begins an error's message with the name of the function that was called.

    Errors of the user's functions that it calls, and those of this package's other classes, keep their message.
    """
    text = str(error)
    is_named = re.match(rf"{re.escape(name)}\b(?!\.\w)", text) is not None
    is_plain = isinstance(error, DtypeError) or not isinstance(error, VkComputeError)
    if is_named or not isinstance(error, _KINDS) or not is_plain or not is_of_library(error):
        return
    inner = re.match(r"([\w.]+)(?=: | takes | converts | gives | has no )", text)
    is_public = inner is not None and inner[1].partition(".")[0] in _public
    text = f"{name}{text[len(inner[1]) :]}" if inner is not None and is_public else f"{name}: {text}"
    if isinstance(error, np.exceptions.AxisError):
        np.exceptions.AxisError.__init__(error, text)
    else:
        error.args = (text,)


def add_public(name: str) -> None:
    """Adds the name of a public function."""
    _public.add(name)


def named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function whose errors begin with its name."""
    name = function.__name__
    add_public(name)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            name_caller(error, name)
            raise

    return call


def named_methods(of: _Class) -> _Class:
    """Makes the errors of a class's public methods begin with their names; with `NAME.method` for objects with a name.

    It is a decorator of classes.
    """
    for name, method in [*vars(of).items()]:
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(of, name, _named_method(method))
    return of


def _named_method(method: Callable[..., Any]) -> Callable[..., Any]:
    name = method.__name__
    add_public(name)

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except Exception as error:
            owner = getattr(self, "__name__", None)
            name_caller(error, name if owner is None else f"{owner}.{name}")
            raise

    return call
