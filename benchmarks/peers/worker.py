"""A process per peer: some have their own compiler, signal handlers or Vulkan library.

The clock runs in the peer's process, so communication is not included.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from measure import Contender, Unavailable, WrongResult, as_note, compare, timed

from peers import Target, load
from peers.work import Floats, pair, product

_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Work:
    """The work of a peer's process, which calls the functions.

    Attributes:
        task: a method of its `Peer`, such as "resident" or "from_host".
        inputs: returns the method's arguments.
        expected: computes numpy's result.
        tolerance: as for `Local`.
    """

    task: str
    inputs: Callable[[], Sequence[Any]]
    expected: Callable[[], Floats]
    tolerance: float = 0.0

    @classmethod
    def multiply(cls, task: str, n: int) -> Work:
        """The product of `n` elements."""
        return cls(task, partial(pair, n), partial(product, n))


class Remote(Contender):
    """A peer's program in its own process.

    Args:
        peer: one of `peers.NAMES`, or another file of that folder.
        work: the work.
        burst: as for `Local`.
        anew: True for a new process per turn, warmed up by as many runs. The placement of a driver's threads on
            cores differs between processes, and affects programs dominated by wake-up latencies.
    """

    def __init__(
        self,
        peer: str,
        target: Target,
        work: Work,
        burst: int | None = None,
        loops: int | None = None,
        *,
        anew: bool = False,
    ) -> None:
        super().__init__(peer, loops)
        self._arguments, self._anew = (peer, target, work, burst), anew
        self._connection: Connection | None = None
        self._process: Any = None

    def prepare(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()
        self.about = self._ask("about")
        self._ask("sample", 1)

    def renew(self, loops: int) -> None:
        if self._anew:
            self.close()
            self.prepare()
            self._ask("sample", loops)

    def sample(self, loops: int) -> float:
        return float(self._ask("sample", loops))

    def check(self) -> None:
        self._ask("check")

    def _ask(self, *request: Any) -> Any:
        """Sends a request. Returns the worker's answer.

        Raises:
            Unavailable, WrongResult: as raised in the worker. Also Unavailable if it died or does not answer.
        """
        if self._connection is None:
            raise Unavailable("the contender has not been prepared")
        try:
            self._connection.send(request)
            if not self._connection.poll(_TIMEOUT_S):
                raise Unavailable(f"no answer within {_TIMEOUT_S:.0f} s")
            kind, value = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join(1)
            raise Unavailable(f"its process ended with status {self._process.exitcode}") from None
        if kind == "wrong":
            raise WrongResult(value)
        if kind == "failed":
            raise Unavailable(value)
        return value

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._process.join(5)
            if self._process.exitcode is None:
                self._process.kill()


def _serve(connection: Connection, peer: str, target: Target, work: Work, burst: int | None) -> None:
    """The worker: creates the program on the first request, and answers until the connection closes."""
    _discard_output()
    opened: Any = None
    program: Any = None
    actions: dict[str, Callable[..., Any]] = {
        "sample": lambda loops: timed(program, loops, burst),
        "about": lambda: opened.about,
        "check": lambda: compare(program.result(), work.expected(), work.tolerance),
    }
    while True:
        try:
            action, *arguments = connection.recv()
        except (EOFError, ConnectionError):
            os._exit(0)  # skips the peer's exit handlers
        try:
            if program is None:
                opened = _open(peer, target)
                program = getattr(opened, work.task)(*work.inputs())
            connection.send(("done", actions[action](*arguments)))
        except WrongResult as error:
            connection.send(("wrong", str(error)))
        except Exception as error:
            connection.send(("failed", as_note(error)))


def _open(peer: str, target: Target) -> Any:
    module = load(peer)
    try:
        return module.Peer(target)
    except ImportError as error:
        raise Unavailable(f"not installed ({module.HINT}): {error}") from None


def _discard_output() -> None:
    """Discards output of peers, such as banners and warnings."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
