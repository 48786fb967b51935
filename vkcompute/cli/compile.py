"""`vkcompute compile`: GLSL compute shaders to SPIR-V, their interface, and the machine code of a device."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from vkcompute import disk
from vkcompute.cli import statistics, terminal
from vkcompute.cli.options import Commands, Parser, check_output
from vkcompute.cli.stderr import one_line
from vkcompute.compilers.compiler import TARGETS

if TYPE_CHECKING:
    from vkcompute.spirv.interface import Binding, Interface, Member


def add_parser(commands: Commands) -> None:
    """Adds the command's parser."""
    text = """Compiles a GLSL compute shader to SPIR-V, with the compiler that vkcompute finds. --reflect shows its
    bindings, push constants and specialization constants instead; --statistics and --assembly show how a device's
    driver compiles it. A file is then written only with -o."""
    parser: Parser = commands.add_parser("compile", help="compile a GLSL compute shader", description=text)
    parser.add_argument(
        "source", metavar="x.comp", help="GLSL; also SPIR-V (.spv) or Python (.py) if nothing is written"
    )
    parser.add_argument("-o", "--output", metavar="x.spv", help="where to write (default: beside the source)")
    parser.add_argument(
        "-D", dest="defines", metavar="NAME[=VALUE]", action="append", type=_define, default=[], help="define a macro"
    )
    parser.add_argument(
        "-I",
        dest="include_dirs",
        metavar="DIR",
        action="append",
        default=[],
        help="add a folder for includes",
    )
    parser.add_argument("-O", "--optimize", action="store_true", help="optimize for speed")
    parser.add_argument("--target", choices=TARGETS, default="vulkan1.2", help="(default: %(default)s)")
    parser.add_argument("--reflect", action="store_true", help="show the kernel's interface")
    statistics.add_options(parser)
    parser.add_argument("--json", action="store_true", help="show the interface, or the statistics, as JSON")
    parser.set_defaults(run=run)


def _define(text: str) -> tuple[str, str | None]:
    """Argument type of -D. A missing value means 1, as in other compilers."""
    name, equals, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise argparse.ArgumentTypeError(f"expected NAME or NAME=VALUE; got {text!r}")
    return name, value if equals else None


def run(args: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        CompileError, NoCompiler: as of `glsl`.
        SpirvError: the SPIR-V is invalid or not supported.
        MissingFeature, NoDevice: as of `statistics.write`.
        ValueError, OSError: the source cannot be read, or the output cannot be written.
    """
    asks_driver = args.statistics or args.assembly
    reflects = args.reflect or (args.json and not asks_driver)
    shows = reflects or asks_driver
    if args.on is not None and not asks_driver:
        raise ValueError("--on chooses the GPU of --statistics and --assembly; give one of them, too")
    if args.json and args.reflect and asks_driver:
        raise ValueError("--json shows the interface, or what the driver compiled; leave out --reflect, or the others")
    suffix = Path(args.source).suffix
    if suffix == ".py":
        return _python(args, reads_only=asks_driver and not args.reflect and not args.output)
    is_spirv = suffix == ".spv"
    if is_spirv and (args.output or not shows):
        raise ValueError(f"{args.source} is SPIR-V already; --reflect and --statistics show what it is")
    target = args.output or (None if shows else os.path.splitext(args.source)[0] + ".spv")
    if target is not None:
        check_output(target, args.source)
    spirv = Path(args.source).read_bytes() if is_spirv else _compiled(args)
    interface = _interface(args.source, spirv)
    if target is not None:
        disk.write_atomic(Path(target), spirv)
        if not shows and not args.quiet:
            terminal.write(f"wrote {one_line(target)} ({terminal.count(len(spirv), 'byte')})")
    if reflects:
        terminal.write(_json(interface) if args.json else _text(interface))
    if asks_driver:
        from vkcompute.runtime.launching.imitated_gpu import Shader

        statistics.write(args, [Shader(Path(args.source).stem, spirv)])
    return 0


def _python(args: argparse.Namespace, *, reads_only: bool) -> int:
    """Shows the kernels of a Python file as a driver compiles them."""
    if not reads_only:
        raise ValueError(f"{args.source} is Python; --statistics and --assembly show its kernels, and write no file")
    statistics.write(args, statistics.kernels_in(args))
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
    from vkcompute.spirv.module import Module
    from vkcompute.spirv.reflection import reflect
    from vkcompute.spirv.validation import validate

    try:
        module = Module.parse(spirv)
        validate(module)
        return reflect(module)
    except SpirvError as error:
        raise SpirvError(f"{source}: {error}") from error


def _json(interface: Interface) -> str:
    import json
    from dataclasses import asdict

    from vkcompute.cli.info import plain

    return json.dumps(plain(asdict(interface)), indent=2, allow_nan=False)


def _text(interface: Interface) -> str:
    """The interface as text, within the terminal's width."""
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
    sections = ["\n".join(terminal.field(label, items, indent=0, label_columns=14) for label, items in fields)]
    sections += [_bindings(interface), _push_constants(interface), _spec_constants(interface)]
    return "\n\n".join(section for section in sections if section)


def _bindings(interface: Interface) -> str:
    if not interface.bindings:
        return "no bindings"
    head = ("set", "binding", "name", "kind", "access", "content")
    rows = [(str(b.set), str(b.binding), b.name or "-", _kind(b), _access(b), _content(b)) for b in interface.bindings]
    return terminal.table([head, *rows], right=(0, 1))


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
    return terminal.table([head, *rows], right=(0, 3))


def _spec_constants(interface: Interface) -> str:
    if not interface.spec_constants:
        return "no specialization constants"
    head = ("id", "specialization constant", "type", "default")
    rows = [(str(c.spec_id), c.name or "-", c.dtype, str(c.default)) for c in interface.spec_constants]
    return terminal.table([head, *rows], right=(0, 3))
