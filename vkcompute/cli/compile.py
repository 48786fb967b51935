"""`vkcompute compile`: a GLSL compute shader to SPIR-V, and what its kernel looks like from outside."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from vkcompute import disk
from vkcompute.cli import page
from vkcompute.cli.options import Commands, Parser, check_output

if TYPE_CHECKING:
    from vkcompute.spirv.interface import Binding, Interface, Member

_TARGETS = ("vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3")


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    text = """Compiles a GLSL compute shader to SPIR-V, with the compiler that vkcompute finds. --reflect shows its
    bindings, push constants and specialization constants, and then writes a file only where -o names one."""
    parser: Parser = commands.add_parser("compile", help="compile a GLSL compute shader", description=text)
    parser.add_argument("source", metavar="x.comp", help="GLSL; for --reflect also SPIR-V (.spv)")
    parser.add_argument("-o", "--output", metavar="x.spv", help="where to write (default: beside the source)")
    parser.add_argument(
        "-D", dest="defines", metavar="NAME[=VALUE]", action="append", type=_define, default=[], help="define a macro"
    )
    parser.add_argument(
        "-I", dest="include_dirs", metavar="DIR", action="append", default=[], help="look for includes in a folder too"
    )
    parser.add_argument("-O", "--optimize", action="store_true", help="optimize for speed")
    parser.add_argument("--target", choices=_TARGETS, default="vulkan1.2", help="(default: %(default)s)")
    parser.add_argument("--reflect", action="store_true", help="show the kernel's interface")
    parser.add_argument("--json", action="store_true", help="show it as JSON")
    parser.set_defaults(run=run)


def _define(text: str) -> tuple[str, str | None]:
    """The argument type of -D. A value that is absent is 1, as with every compiler."""
    name, equals, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise argparse.ArgumentTypeError(f"NAME or NAME=VALUE is needed; got {text!r}")
    return name, value if equals else None


def run(args: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        CompileError, NoCompiler: as `glsl` does.
        SpirvError: the result cannot be used, or what is to be shown is not SPIR-V.
        ValueError, OSError: the source cannot be read or the output not be written.
    """
    shows = args.reflect or args.json
    is_spirv = Path(args.source).suffix == ".spv"
    if is_spirv and (args.output or not shows):
        raise ValueError(f"{args.source} is SPIR-V already; --reflect shows what is in it")
    target = args.output or (None if shows else os.path.splitext(args.source)[0] + ".spv")
    if target is not None:
        check_output(target, args.source)
    spirv = Path(args.source).read_bytes() if is_spirv else _compiled(args)
    interface = _interface(args.source, spirv)
    if target is not None:
        disk.write_atomic(Path(target), spirv)
        if not shows and not args.quiet:
            page.show(f"wrote {target} ({page.count(len(spirv), 'byte')})")
    if shows:
        page.show(_json(interface) if args.json else _text(interface))
    return 0


def _compiled(args: argparse.Namespace) -> bytes:
    from vkcompute.glsl import glsl

    return glsl(
        Path(args.source),
        defines=dict(args.defines),
        include_dirs=args.include_dirs,
        target=args.target,
        optimize=args.optimize,
    )


def _interface(source: str, spirv: bytes) -> Interface:
    from vkcompute.errors import SpirvError
    from vkcompute.spirv.check import check
    from vkcompute.spirv.module import Module
    from vkcompute.spirv.reflect import reflect

    try:
        module = Module.parse(spirv)
        check(module)
        return reflect(module)
    except SpirvError as error:
        raise SpirvError(f"{source}: {error}") from error


def _json(interface: Interface) -> str:
    import json
    from dataclasses import asdict

    from vkcompute.cli.info import plain

    return json.dumps(plain(asdict(interface)), indent=2, allow_nan=False)


def _text(interface: Interface) -> str:
    """A kernel's signature, within the terminal's width: what it binds, what is pushed, what may be specialized."""
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
