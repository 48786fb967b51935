"""The parts of a report, by worth: the first ones are in a report that is cut early."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace

_SOFTWARE_TIMES = 3


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a report, which runs in processes of its own.

    Attributes:
        name: its name in the file and on the command line.
        title: a line for people.
        module: the module whose function `items` returns the items by name, relative to this package.
        limit_s: the most seconds before other parts run; a part that is cut continues after the last one.
        item_limit_s: the most seconds of an item on a GPU; then its process is killed, and a new one continues behind
            it.
    """

    name: str
    title: str
    module: str
    limit_s: float
    item_limit_s: float = 60.0

    def on(self, *, is_software: bool) -> Part:
        """Returns the part for a device: the largest sort of a block compiles for 20 seconds on SwiftShader."""
        return replace(self, item_limit_s=self.item_limit_s * _SOFTWARE_TIMES) if is_software else self

    def item_names(self) -> list[str]:
        """Returns the names of its items; none if the module does not import, which the part's process will report."""
        try:
            return [*importlib.import_module(self.module, __package__).items()]
        except Exception:
            return []


# A GPU needs a part of each limit: their sum is above the eight minutes of a report.
PARTS = (
    Part("device", "the device, its limits and features", ".figures.devices", 45, 30),
    Part("rates", "rates of memory, transfers, arithmetic and matrices", ".figures.rates", 60, 20),
    Part("first", "one check per kind of kernel", ".checks.first", 60, 30),
    Part("functions", "functions of arrays: host and device time", ".figures.functions", 100, 30),
    Part("matrices", "products by cooperative matrices", ".checks.matrices", 40, 30),
    Part("integers", "random kernels of integers", ".checks.integers", 40, 20),
    Part("kernels", "kernels in Python: dtypes and features", ".checks.kernels", 60, 30),
    Part("tables", "hash tables, joins, segments and order statistics", ".checks.tables", 40, 30),
    Part("overlap", "overlap of queues and copies", ".figures.overlap", 40, 30),
    Part("blocks", "block programs", ".checks.blocks", 60, 30),
    Part("arrays", "functions of arrays, compared with NumPy", ".checks.arrays", 90, 30),
    Part("calls", "what a call costs the host", ".figures.calls", 40, 20),
    Part("scheduling", "streams, graphs, queues and threads", ".checks.scheduling", 40, 30),
    Part("triton", "Triton's programs, beside Triton", ".figures.triton", 60, 40),
    Part("shaders", "kernels in GLSL", ".checks.shaders", 40, 30),
    Part("statistics", "statistics of the driver's compiler", ".figures.statistics", 30, 20),
    Part("random", "random kernels of all types, with barriers, and functions", ".checks.random_kernels", 120, 20),
)
BY_NAME = {part.name: part for part in PARTS}
