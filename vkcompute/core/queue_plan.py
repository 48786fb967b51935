"""Queue plans: the choice of a device's queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from vkcompute.core.physical import PhysicalDevice, QueueFamily


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The queues to create: (family, index in the family, role), with the role "compute" or "transfer"."""

    queues: tuple[tuple[int, int, str], ...]

    @classmethod
    def of(cls, families: Sequence[QueueFamily], compute: int | None = None, transfer: int | None = None) -> QueuePlan:
        """Plans at most this many queues of each role; None stands for 4 compute and 2 transfer queues.

        The first compute queue is of the most capable family; the others prefer families without graphics. Transfer
        queues are of families that only copy, which have copy engines of their own. If a number of them is given,
        families follow that can copy and do something other than compute (draw, decode video).
        """
        able = sorted((f for f in families if f.compute), key=lambda f: (not f.graphics, f.index))
        dedicated = [f for f in able if not f.graphics] + [f for f in able if f.graphics]
        chosen = [(able[0].index, 0, "compute")]
        spare = [(f.index, i, "compute") for f in dedicated for i in range(f.count) if (f.index, i) != chosen[0][:2]]
        chosen += spare[: (4 if compute is None else compute) - 1]
        copiers = sorted((f for f in families if f.transfer and not f.compute), key=lambda f: f.graphics or f.others)
        if transfer is None:
            copiers = [f for f in copiers if not f.graphics and not f.others]
        copies = [(f.index, i, "transfer") for f in copiers for i in range(f.count)]
        return cls((*chosen, *copies[: 2 if transfer is None else transfer]))

    @classmethod
    def default(cls, physical: PhysicalDevice) -> QueuePlan:
        """Plans the default queues, and at least those of the device's profile where the device has them.

        A named profile's are the most, too. Plans no transfer queues by default where device memory is host memory:
        other queues copy as fast there.
        """
        compute, transfer = physical.profile.timelines
        if physical.profile.name:
            return cls.of(physical.queue_families, compute, transfer)
        unified = physical.kind in ("integrated", "cpu")
        return cls.of(physical.queue_families, max(4, compute), transfer if unified or transfer > 2 else None)

    def counts(self) -> dict[int, int]:
        """Returns the number of queues per family, in the order of the families."""
        return dict(sorted(Counter(family for family, _ in {queue[:2] for queue in self.queues}).items()))
