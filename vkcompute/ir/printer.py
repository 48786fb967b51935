"""Prints a function as text."""

from __future__ import annotations

from collections.abc import Iterator

from vkcompute.ir.function import Constant, Function, Op, Push, Region, Value
from vkcompute.ir.memory import Memory


def text(function: Function) -> str:
    """One operation per line, with values numbered in order of appearance."""
    names: dict[Value, str] = {}

    def name(value: Value) -> str:
        if isinstance(value, Constant):
            return f"{value.value}:{value.type}"
        return value.name if isinstance(value, Push) else names.setdefault(value, f"%{len(names)}")

    def listed(values: tuple[Value, ...]) -> str:
        return ", ".join(map(name, values))

    def lines(region: Region, indent: str) -> Iterator[str]:
        for op in region.ops:
            results = (op,) if op.has_result else op.results
            typed = ", ".join(f"{name(value)}:{value.type}" for value in results)
            carried = f" carrying {listed(op.params)}" if op.params else ""
            yield f"{indent}{typed}{' = ' * bool(typed)}{op.code}{_suffix(op)} {listed(op.args)}{carried}".rstrip()
            for number, inner in enumerate(op.regions):
                if number:
                    yield f"{indent}else"
                yield from lines(inner, indent + "  ")

    arguments = [f"{memory.name}: {memory.type}[]" for memory in function.buffers]
    arguments += [f"{push.name}: {push.type}" for push in function.pushes]
    shared = [f"  shared {memory.name}: {memory.type}[{memory.length}]" for memory in function.shared_memory]
    head = f"kernel {function.name}({', '.join(arguments)}) local_size {function.local_size}"
    return "\n".join([head, *shared, *lines(function.body, "  ")])


def _suffix(op: Op) -> str:
    """The attribute, unless it is a loop."""
    attributes = op.attribute if isinstance(op.attribute, tuple) else (op.attribute,)
    shown = [
        attribute.name if isinstance(attribute, Memory) else str(attribute)
        for attribute in attributes
        if not isinstance(attribute, Op)
    ]
    return f".{'.'.join(shown)}" if op.attribute is not None and shown else ""
