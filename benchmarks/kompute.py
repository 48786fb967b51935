"""Kompute's programs on vkcompute.compat.kp, interleaved with Kompute itself if it is installed."""

from __future__ import annotations

from functools import partial

from context import Cases, Context
from logistic import by_numpy, table
from measure import Case
from peers.kompute import MANY
from peers.work import Floats
from peers.worker import Remote, Work

TITLE = "Kompute's programs"
OURS, THEIRS = "compat", "kompute"
N = 1024
_TOLERANCE = 1e-4


def cases(context: Context) -> Cases:
    """A recorded sequence, single operations, many dispatches, creating a manager, and a logistic regression."""
    multiplies = (
        ("replay", f"sync, dispatch and sync of {N:,} floats, recorded", "from_host"),
        ("eager", "one dispatch, evaluated as an operation", "eager"),
        ("many", f"{MANY} recorded dispatches", "many"),
        ("manager", "a Manager, created and destroyed", "opened"),
    )
    for key, title, task in multiplies:
        yield _case(context, f"kompute.{key}", title, Work.multiply(task, N))
    for n_rows in context.sizes.rows:
        n = context.sizes.iterations
        title = f"logistic regression, {n_rows:,} x 2, {n} iterations, weights updated on the host"
        inputs, expected = partial(_inputs, n_rows, n), partial(_expected, n_rows, n)
        work = Work("regression", inputs, expected, _TOLERANCE)
        yield _case(context, f"kompute.logistic.{n_rows}", title, work)


def _case(context: Context, key: str, title: str, work: Work) -> Case:
    names = [OURS, *(name for name in context.peers if name == THEIRS)]
    return Case(key, title, OURS, [Remote(name, context.target, work, anew=True) for name in names])


def _inputs(n_rows: int, iterations: int) -> tuple[Floats, Floats, int]:
    return *table(n_rows), iterations


def _expected(n_rows: int, iterations: int) -> Floats:
    return by_numpy(*table(n_rows), iterations)
