"""Failures: tasks that did not run, or that reported an error."""

from __future__ import annotations

from dataclasses import dataclass

from vkcompute.errors import again


@dataclass(slots=True)
class Failure:
    """Tasks `first` to `last` of a queue have failed.

    Attributes:
        queue: index of the queue.
        error: the reason. Tasks of several queues that failed together have the same error object.
        reported: True once the error was raised to a caller.
    """

    queue: int
    first: int
    last: int
    error: Exception
    reported: bool = False

    def raised(self) -> Exception:
        """Returns the error to raise, and counts it as reported."""
        self.reported = True
        return again(self.error)
