"""`vkcompute compile --statistics` and `--assembly`: shaders as a device's driver compiles them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.cli import terminal
from vkcompute.cli.options import Parser

if TYPE_CHECKING:
    from vkcompute.runtime.launching.radv import Compilation
    from vkcompute.runtime.launching.statistics import KernelStatistics

_MODULE = "<compiled>"  # the name of a Python file while its kernels are compiled
_Shaders = Sequence[tuple[str, bytes]]
"""Name and SPIR-V of each."""


def add_options(parser: Parser) -> None:
    """Adds the options."""
    parser.add_argument("--statistics", action="store_true", help="show registers, spills, occupancy, instructions")
    parser.add_argument("--assembly", action="store_true", help="show the device's assembly")
    parser.add_argument(
        "--on", metavar="FAMILY", help="ask AMD's compiler for a family of GPUs, such as navi21, which may be absent"
    )
    parser.add_device_option()


def write(args: argparse.Namespace, shaders: _Shaders) -> None:
    """Compiles the shaders, and writes their statistics, their assembly, or both.

    Raises:
        MissingFeature: the driver does not tell how it compiles, or its device cannot run a shader.
        NoDevice, ValueError: the device or the family is not found.
    """
    found = _compiled(args, shaders)
    if args.json:
        terminal.write(_json(shaders, found))
        return
    sections = []
    for (name, _), (statistics, assembly) in zip(shaders, found, strict=True):
        sections += [_text(name, statistics)] if args.statistics else []
        sections += [assembly.rstrip()] if args.assembly else []
    terminal.write("\n\n".join(sections))


def kernels_in(path: str) -> list[tuple[str, bytes]]:
    """Runs a Python file, though not as the main program; returns its kernels for the types of their annotations.

    Raises:
        KernelError, ValueError: a kernel cannot be compiled, or a parameter has no type; or there is none.
    """
    import runpy

    from vkcompute.jit.kernel import PythonKernel

    defined = runpy.run_path(path, run_name=_MODULE).values()
    found = [each for each in defined if isinstance(each, PythonKernel) and each.__module__ == _MODULE]
    here = [(kernel.__name__, kernel.spirv()) for kernel in dict.fromkeys(found)]
    if not here:
        raise ValueError(f"{path} defines no kernel; mark a function with @vc.kernel")
    return here


def _compiled(args: argparse.Namespace, shaders: _Shaders) -> list[Compilation]:
    from vkcompute.core.compiler_device import CompilerDevice
    from vkcompute.core.instance import Instance
    from vkcompute.core.physical import choose, enumerate_devices
    from vkcompute.runtime.launching.radv import Shader, compile_for, compile_on

    given = [Shader(*shader) for shader in shaders]
    if args.on is not None:
        return compile_for(args.on, given)
    with Instance() as instance:
        named = os.environ.get("VKCOMPUTE_DEVICE")
        with CompilerDevice(choose(enumerate_devices(instance), args.device, environment=named)) as device:
            return compile_on(device, given)


def _text(name: str, statistics: KernelStatistics) -> str:
    """All figures by the driver's names, with its explanations, below those with common names."""
    figures, descriptions = statistics.figures, statistics.descriptions
    rows = [(figure, f"{value}: {descriptions[figure]}") for figure, value in figures.items()]
    lines = [terminal.field(figure, text, indent=2, label_columns=22) for figure, text in rows]
    return "\n".join([f"{name} on {statistics}", "", "by the driver's names:", *lines])


def _json(shaders: _Shaders, found: Sequence[Compilation]) -> str:
    import json
    from dataclasses import asdict

    rows: list[dict[str, Any]] = [
        {"name": name, **asdict(statistics), "assembly": assembly}
        for (name, _), (statistics, assembly) in zip(shaders, found, strict=True)
    ]
    return json.dumps(rows, indent=2)
