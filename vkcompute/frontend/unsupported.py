"""The error of an operation that a language does not support."""

from __future__ import annotations


class UnsupportedError(Exception):
    """An operation that a language does not support; the evaluator makes it a KernelError with a source location.

    Attributes:
        location: of the operation, if it is found after the front end; its text is an error with "\\0" for the message.
    """

    location: object = None
