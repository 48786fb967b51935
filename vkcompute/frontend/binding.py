"""Binding of arguments to parameters, with errors that name the wrong arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from vkcompute.frontend.captured import suggestion


def bind(
    signature: inspect.Signature, args: Sequence[Any], named: Mapping[str, Any], options: Sequence[str] = ()
) -> inspect.BoundArguments:
    """Binds arguments to parameters.

    Args:
        options: names of further keywords of the call, for suggestions.

    Raises:
        TypeError: they do not fit. The message names all missing arguments, or the nearest name to an unknown one.
    """
    try:
        return signature.bind(*args, **named)
    except TypeError as error:
        raise TypeError(_misfit(signature, args, named, options, str(error))) from None


def _misfit(
    signature: inspect.Signature, args: Sequence[Any], named: Mapping[str, Any], options: Sequence[str], error: str
) -> str:
    parameters = signature.parameters
    takes = f"it takes {', '.join(parameters) or 'nothing'}"
    unknown = next((name for name in named if name not in parameters), None)
    if unknown is not None:  # bind names missing arguments first
        near = suggestion(unknown, [*parameters, *options])
        return f"got an unexpected keyword argument {unknown!r}{near}; {takes}"
    if "too many" in error:
        return f"{error}; {takes}; got {len(args)}"
    if "missing" not in error:
        return error
    given = signature.bind_partial(*args, **named).arguments
    missing = [repr(name) for name, each in parameters.items() if name not in given and each.default is each.empty]
    if len(missing) == 1:
        return f"missing a required argument: {missing[0]}"
    return f"missing {len(missing)} required arguments: {', '.join(missing)}"
