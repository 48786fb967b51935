"""What barriers, semaphores and host waits put in order, and which of them could be left out. No device involved.

A history lists what reached a device, in the order of the calls. Every timeline is a queue of its own that runs what it
may in any order. What the host has seen to be finished, and all that must have finished before it, comes before what
the host does and records afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

Bytes = tuple[object, int, int]
"""(buffer, start, stop)"""
Clock = dict[int, int]
"""timeline -> how many of its commands have come before"""
HOST = -1


@dataclass(eq=False)
class Access:
    """A command, or an access by the host, with the bytes that it may read and write."""

    text: str
    reads: Sequence[Bytes]
    writes: Sequence[Bytes]


@dataclass(eq=False)
class Barrier:
    """Orders all before it on its queue against all after it."""


@dataclass(eq=False)
class Wait:
    """A submit waits until another timeline has reached a value."""

    timeline: int
    value: int


@dataclass(eq=False)
class Replay:
    """A recorded command buffer, one task to all others: what its barriers order inside of it counts there only, but
    for the first, which it starts with whatever comes before it.
    """

    commands: Sequence[Access | Barrier]


@dataclass(eq=False)
class Submit:
    """A timeline reaches `value` when the commands are finished, which start after all `waits`."""

    timeline: int
    value: int
    waits: Sequence[Wait]
    commands: Sequence[Access | Barrier | Replay]


@dataclass(eq=False)
class Recorded:
    """A command that runs once has been recorded: its place in the order of the program."""

    command: Access


@dataclass(eq=False)
class Seen:
    """The host knows that a timeline has reached a value; `waited`: it has waited for that."""

    timeline: int
    value: int
    waited: bool = False


Event = Access | Recorded | Submit | Seen


@dataclass
class _Run:
    """One run of a command, or one access by the host."""

    asked: tuple[int, int]  # its place in the order of the program
    access: Access
    timeline: int
    place: int  # among the commands of its timeline, from 1 on
    before: Clock  # what is certain to have finished when it starts


@dataclass
class _Course:
    """Goes through a history, and knows at each event what comes before what."""

    weakened: object
    delayed: object
    literal: bool
    runs: list[_Run] = field(default_factory=list)
    counts: Clock = field(default_factory=lambda: defaultdict(int))
    ordered: dict[int, Clock] = field(default_factory=lambda: defaultdict(dict))
    signals: dict[tuple[int, int], Clock] = field(default_factory=dict)
    finished: Clock = field(default_factory=dict)  # what must have finished before what the host has read
    read: Clock = field(default_factory=dict)  # what the host has read from the timelines themselves
    waited: Clock = field(default_factory=dict)  # what must have finished before what it has waited for just now
    recorded: dict[Access, tuple[int, Clock]] = field(default_factory=dict)
    late: Clock = field(default_factory=dict)  # what `delayed` puts before all but the next command

    @property
    def known(self) -> Clock:
        return self.read if self.literal else self.finished

    def go(self, at: int, event: Event) -> None:
        if not isinstance(event, Seen):
            waited, self.waited = self.waited, {}
        if isinstance(event, Recorded):
            self.recorded[event.command] = at, self.known
        elif isinstance(event, Submit):
            self._submit(at, event)
        elif isinstance(event, Seen):
            timeline, value = event.timeline, event.value - (event is self.weakened)
            clock = self.signals.get((timeline, value), {})
            self.finished = join(self.finished, clock)
            self.read = join(self.read, {timeline: clock.get(timeline, 0)})
            self.waited = join(self.waited, clock if event.waited else {})
        else:
            self.runs.append(_Run((at, 0), event, HOST, 0, join(self.known, waited)))

    def _submit(self, at: int, event: Submit) -> None:
        me = event.timeline
        clock = self.ordered[me]
        for wait in event.waits:
            signal = self.signals.get((wait.timeline, wait.value - (wait is self.weakened)), {})
            if wait is self.delayed:
                self.late = signal
            else:
                clock = join(clock, signal)
        for command in event.commands:
            if isinstance(command, Replay):
                late, self.late, clock = self.late, {}, clock | {me: self.counts[me]}
                self._run(at, me, command.commands[1:], clock)
                clock = join(clock, late)
            else:
                clock = self._run(at, me, [command], clock)
        self.ordered[me] = clock
        self.signals[me, event.value] = join(clock, {me: self.counts[me]})

    def _run(self, at: int, me: int, commands: Sequence[Access | Barrier], clock: Clock) -> Clock:
        for command in commands:
            if isinstance(command, Access):
                self.counts[me] += 1
                asked, known = self.recorded.get(command, (at, self.known))
                self.runs.append(_Run((asked, len(self.runs)), command, me, self.counts[me], join(clock, known)))
                clock, self.late = join(clock, self.late), {}
            elif command is self.delayed:
                self.late = {me: self.counts[me]}
            elif command is not self.weakened:
                clock = clock | {me: self.counts[me]}
        return clock


def join(clock: Clock, other: Clock) -> Clock:
    return {key: max(clock.get(key, 0), other.get(key, 0)) for key in {*clock, *other}}


def overlap(some: Sequence[Bytes], others: Sequence[Bytes]) -> bool:
    return any(a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2]) for a in some for b in others)


def conflict(one: Access, other: Access) -> bool:
    """Whether two accesses touch the same bytes, and one of them writes them."""
    return overlap(one.writes, (*other.writes, *other.reads)) or overlap(one.reads, other.writes)


def races(
    history: Sequence[Event], *, weakened: object = None, delayed: object = None, literal: bool = False
) -> set[str]:
    """Pairs that conflict, and may run at once or the wrong way round.

    `weakened`, a barrier, is taken out; a wait is taken to be for the value before its own. `delayed` is taken to come
    one command, or one replay, later than it does. If `literal`, the host draws conclusions from one timeline to
    another only within one wait.
    """
    course = _Course(weakened, delayed, literal)
    for at, event in enumerate(history):
        course.go(at, event)
    runs = sorted(course.runs, key=lambda run: run.asked)
    results = set()
    for i, later in enumerate(runs):
        for earlier in runs[:i]:
            # The host's own accesses come in order; and what it did comes before all that is submitted afterwards.
            ordered = earlier.timeline == HOST or later.before.get(earlier.timeline, 0) >= earlier.place
            if not ordered and conflict(earlier.access, later.access):
                results.add(
                    f"{later.access.text} {later.asked} does not wait for {earlier.access.text} {earlier.asked}"
                )
    return results


def superfluous(history: Sequence[Event]) -> list[object]:
    """The barriers and waits that could be left out, be for an earlier value, or come later, without any race.

    Of a timeline the host knows what it has read from it, and while it waits, what the others imply that it waits for.
    """
    submits = [event for event in history if isinstance(event, Submit)]
    commands = [command for submit in submits for command in submit.commands]
    inside = [command for replay in commands if isinstance(replay, Replay) for command in replay.commands[1:]]
    barriers = {command for command in (*commands, *inside) if isinstance(command, Barrier)}
    waits = [wait for submit in submits for wait in submit.waits]
    host_waits = [event for event in history if isinstance(event, Seen) and event.waited]
    harmless = races(history, literal=True)
    results: list[object] = [
        item for item in (*barriers, *waits, *host_waits) if races(history, weakened=item, literal=True) <= harmless
    ]
    return results + [item for item in (*barriers, *waits) if races(history, delayed=item, literal=True) <= harmless]
