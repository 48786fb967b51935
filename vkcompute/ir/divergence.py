"""Which barriers only some invocations of a workgroup may come to: Vulkan leaves undefined what happens there."""

from __future__ import annotations

from vkcompute.ir.function import Function, Op, Region, Value, endings, walk


def divergent_barrier(function: Function) -> Op | None:
    """The first barrier in a branch or loop, or after a return, that is not proved to be the same for a workgroup.

    The same are constants, push constants, ids of groups, elements at places that are the same (unless invocations
    race for them), and what is computed of those.
    """
    if not any(op.code == "barrier" for op in walk(function.body)):
        return None
    analysis = _Divergence()
    while analysis.grew:
        analysis.grew, analysis.returned, analysis.barrier = False, False, None
        analysis.region(function.body, False, ())
    return analysis.barrier


class _Divergence:
    """What has been found to differ between invocations of a workgroup.

    Attributes:
        differing: values, and loops that invocations leave or start over at different times.
        returned: whether some invocations may have ended where others have not.
        barrier: the first that some of them may not come to.
        grew: whether the last pass found something new.
    """

    def __init__(self) -> None:
        self.differing: set[Value] = set()
        self.returned, self.grew = False, True
        self.barrier: Op | None = None

    def region(self, region: Region, apart: bool, loops: tuple[Op, ...]) -> None:
        """Goes through operations inside of `loops`; those are `apart` that only some invocations may come to."""
        for op in region.ops:
            self._op(op, apart or self.returned, loops)

    def _op(self, op: Op, apart: bool, loops: tuple[Op, ...]) -> None:
        if op.code == "barrier" and apart:
            self.barrier = self.barrier or op
        elif op.code in ("break", "continue") and apart:
            self._differ(op.attribute)
        elif op.code == "return" and apart:
            self.returned = True
            self._differ(*loops)
        elif op.code == "if":
            self._if(op, apart, loops)
        elif op.code == "loop":
            self._loop(op, apart, loops)
        elif _is_own(op) or self.differing.intersection(op.args):
            self._differ(op)

    def _if(self, op: Op, apart: bool, loops: tuple[Op, ...]) -> None:
        differs = op.args[0] in self.differing
        before = self.returned
        after = before
        for region in op.regions:
            self.returned = before
            self.region(region, apart or differs, loops)
            after |= self.returned
        self.returned = after
        self._join(op.results, list(endings(op)), differs)

    def _loop(self, op: Op, apart: bool, loops: tuple[Op, ...]) -> None:
        for param, value in zip(op.params, op.args, strict=True):
            if value in self.differing:
                self._differ(param)
        self.region(op.regions[0], apart or op in self.differing, (*loops, op))
        self._join(op.params, list(endings(op, back=True)), op in self.differing)
        self._join(op.results, list(endings(op)), op in self.differing)

    def _join(self, values: tuple[Value, ...], ends: list[Op], differ: bool) -> None:
        for index, value in enumerate(values):
            if differ or any(end.args[index] in self.differing for end in ends):
                self._differ(value)

    def _differ(self, *values: Value) -> None:
        self.grew |= not self.differing.issuperset(values)
        self.differing.update(values)


def _is_own(op: Op) -> bool:
    """Whether each invocation, or each subgroup, has a result of its own, whatever the arguments."""
    shared = ("group_id", "n_groups", "n_subgroups", "subgroup_size")
    own = op.code in ("atomic", "compare_exchange", "subgroup")
    return own or (op.code == "builtin" and op.attribute[0] not in shared)
