"""A function as text, for people."""

from __future__ import annotations

from collections.abc import Iterator

from vkcompute.ir.function import Constant, Function, Memory, Op, Push, Region, Value


def text(function: Function) -> str:
    """One operation per line, values numbered in order of appearance."""
    names: dict[Value, str] = {}

    def name(value: Value) -> str:
        if isinstance(value, Constant):
            return f"{value.value}:{value.type}"
        return value.name if isinstance(value, Push) else names.setdefault(value, f"%{len(names)}")

    def listed(values: tuple[Value, ...]) -> str:
        return ", ".join(map(name, values))

    def lines(region: Region, indent: str) -> Iterator[str]:
        for op in region.ops:
            given = (op,) if op.has_result else op.results
            typed = ", ".join(f"{name(value)}:{value.type}" for value in given)
            carried = f" carrying {listed(op.params)}" if op.params else ""
            yield f"{indent}{typed}{' = ' * bool(typed)}{op.code}{_shown(op)} {listed(op.args)}{carried}".rstrip()
            for number, inner in enumerate(op.regions):
                if number:
                    yield f"{indent}else"
                yield from lines(inner, indent + "  ")

    arguments = [f"{memory.name}: {memory.element}[]" for memory in function.buffers]
    arguments += [f"{push.name}: {push.type}" for push in function.pushes]
    shared = [f"  shared {memory.name}: {memory.element}[{memory.length}]" for memory in function.shared_memory]
    head = f"kernel {function.name}({', '.join(arguments)}) local_size {function.local_size}"
    return "\n".join([head, *shared, *lines(function.body, "  ")])


def _shown(op: Op) -> str:
    """The attribute, where it is no place in the program."""
    parts = op.attribute if isinstance(op.attribute, tuple) else (op.attribute,)
    shown = [part.name if isinstance(part, Memory) else str(part) for part in parts if not isinstance(part, Op)]
    return f".{'.'.join(shown)}" if op.attribute is not None and shown else ""
