"""Changes to Dynamo for programs of the device; `enable` makes them before the first function is traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch._dynamo import trace_rules
from torch._dynamo.variables.optimizer import OptimizerVariable

from vkcompute.torch.kernels import is_on_device


def enable(replaced: Any) -> None:
    """Makes Dynamo break graphs at our functions, and count the steps of optimizers on the device. Idempotent.

    Args:
        replaced: `Replacements`, which undo it.
    """
    folder = str(Path(__file__).parents[2])
    if any(known.startswith(folder) for known in trace_rules.SKIP_DIRS):
        return
    trace_rules.add(__name__.partition(".")[0])
    added = trace_rules.SKIP_DIRS[-1]
    replaced.on_undo(trace_rules._recompile_re)
    replaced.on_undo(lambda: trace_rules.SKIP_DIRS.remove(added))  # before the other
    replaced.replace(OptimizerVariable, "_set_capturable", _counter_setter(OptimizerVariable._set_capturable))


def _counter_setter(original: Any) -> Any:
    """Returns the method that makes steps of CUDA's optimizers "capturable": their counters are tensors of the device.

    Else the counters are tensors of the host, for whose programs Inductor needs a compiler of C++.
    """

    def set_capturable(self: Any, tracer: Any) -> None:
        for group in self.value.param_groups:
            parameters = group.get("params", [])
            is_new = not any(parameter in self.value.state for parameter in parameters)
            if "capturable" in group and is_new and all(map(is_on_device, parameters)):
                group["capturable"] = True
        original(self, tracer)

    return set_capturable
