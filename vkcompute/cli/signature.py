"""A kernel's signature for people: what it binds, what is pushed, what may be specialized."""

from __future__ import annotations

from vkcompute.cli import page
from vkcompute.spirv.interface import Binding, Interface, Member


def text(interface: Interface) -> str:
    """Fields and tables, within the terminal's width."""
    size = interface.local_size
    axes = [
        f"{n}{'' if spec_id is None else f' (constant {spec_id})'}"
        for n, spec_id in zip(size.default, size.spec_ids, strict=True)
    ]
    fields = [
        ("entry point", [interface.entry_point]),
        ("SPIR-V", ["{}.{}".format(*interface.version)]),
        ("local size", [" x ".join(axes)]),
        ("capabilities", list(interface.capabilities)),
        ("extensions", list(interface.extensions) or ["none"]),
    ]
    parts = ["\n".join(page.field(label, items, indent=0, label_columns=14) for label, items in fields)]
    parts += [_bindings(interface), _push_constants(interface), _spec_constants(interface)]
    return "\n\n".join(part for part in parts if part)


def _bindings(interface: Interface) -> str:
    if not interface.bindings:
        return "no bindings"
    head = ("set", "binding", "name", "kind", "access", "content")
    rows = [(str(b.set), str(b.binding), b.name or "-", _kind(b), _access(b), _content(b)) for b in interface.bindings]
    return page.table([head, *rows], right=(0, 1))


def _kind(binding: Binding) -> str:
    kind = binding.kind.replace("_", " ")
    return kind if binding.count == 1 else f"{kind}[{binding.count or ''}]"


def _access(binding: Binding) -> str:
    return {
        (True, True): "reads, writes",
        (True, False): "reads",
        (False, True): "writes",
        (False, False): "unused",
    }[binding.reads, binding.writes]


def _content(binding: Binding) -> str:
    if binding.element is not None:
        return f"{_vector(binding.element.dtype, binding.element.width)}[]"
    if binding.texel is not None:
        return f"{binding.texel.dtype} {binding.texel.format} {binding.texel.dim}"
    if binding.block is not None:
        return "; ".join(f"{_type(member)} {member.name}".rstrip() for member in binding.block.members)
    return "-"


def _vector(dtype: str, width: int) -> str:
    return dtype if width == 1 else f"{dtype} x {width}"


def _type(member: Member) -> str:
    lengths = "".join(f"[{n or ''}]" for n in member.shape)
    return (member.dtype or "struct") + lengths


def _push_constants(interface: Interface) -> str:
    block = interface.push_constants
    if block is None:
        return "no push constants"
    head = ("offset", "push constant", "type", "bytes")
    rows = [(str(m.offset_bytes), m.name or "-", _type(m), str(m.nbytes)) for m in block.members]
    return page.table([head, *rows], right=(0, 3))


def _spec_constants(interface: Interface) -> str:
    if not interface.spec_constants:
        return "no specialization constants"
    head = ("id", "specialization constant", "type", "default")
    rows = [(str(c.spec_id), c.name or "-", c.dtype, str(c.default)) for c in interface.spec_constants]
    return page.table([head, *rows], right=(0, 3))
