"""One check per kind of kernel, taken from the other files of checks: the answer of the first minute."""

from __future__ import annotations

from vkcompute.gpu_report.checks import arrays, blocks, kernels, scheduling, shaders, tables
from vkcompute.gpu_report.items import Items

_NAMES = {
    kernels: ("arithmetic float32", "barriers", "atomics", "subgroups", "loops", "functions"),
    arrays: ("elementwise float32", "reductions float32", "scans int32", "sort float32", "matmul float32", "networks"),
    tables: ("groups, many", "sorted segments"),
    blocks: ("products", "orders", "loops"),
    shaders: ("multiply float32", "logistic regression"),
    scheduling: ("hazards", "a graph", "a stream"),
}


def items() -> Items:
    """Returns the items by name."""
    return {name: module.items()[name] for module, names in _NAMES.items() for name in names}
