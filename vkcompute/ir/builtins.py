"""The built-in inputs of an invocation: its ids, and sizes of the launch."""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.spirv.enums import BuiltIn


class Builtin(NamedTuple):
    """One row of the table; all values are uint32.

    Attributes:
        number: SPIR-V's BuiltIn.
        n_axes: components.
        uniform: True if all invocations of a workgroup have the same value.
        subgroup: True if the module needs the capability GroupNonUniform.
    """

    number: int
    n_axes: int = 1
    uniform: bool = False
    subgroup: bool = False


BUILTINS = {
    "global_id": Builtin(BuiltIn.GlobalInvocationId, 3),
    "local_id": Builtin(BuiltIn.LocalInvocationId, 3),
    "group_id": Builtin(BuiltIn.WorkgroupId, 3, uniform=True),
    "n_groups": Builtin(BuiltIn.NumWorkgroups, 3, uniform=True),
    "local_index": Builtin(BuiltIn.LocalInvocationIndex),
    "subgroup_size": Builtin(BuiltIn.SubgroupSize, uniform=True, subgroup=True),
    "n_subgroups": Builtin(BuiltIn.NumSubgroups, uniform=True, subgroup=True),
    "subgroup_id": Builtin(BuiltIn.SubgroupId, subgroup=True),
    "subgroup_local_id": Builtin(BuiltIn.SubgroupLocalInvocationId, subgroup=True),
}
