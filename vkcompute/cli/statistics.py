"""`vkcompute compile --statistics` and `--assembly`: shaders as a device's driver compiles them."""

from __future__ import annotations

import argparse
import logging
import os
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.cli import terminal
from vkcompute.cli.options import Parser
from vkcompute.errors import VkComputeError

if TYPE_CHECKING:
    from vkcompute.jit.kernel import PythonKernel
    from vkcompute.runtime.launching.radv import Outcome
    from vkcompute.runtime.launching.statistics import KernelStatistics

_logger = logging.getLogger("vkcompute")
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
        MissingFeature: the driver does not tell how it compiles, or its device cannot run a shader; the others are
            written.
        VkComputeError: the compiler fails at a shader; the others are written.
        NoDevice, ValueError: the device or the family is not found.
    """
    outcomes = _outcomes(args, shaders)
    sections = []
    for (name, _), outcome in zip(shaders, outcomes, strict=True):
        if isinstance(outcome, VkComputeError):
            continue
        statistics, assembly = outcome
        sections += [_text(name, statistics)] if args.statistics else []
        sections += [_labelled(name, statistics, assembly, args)] if args.assembly else []
    if args.json:
        terminal.write(_json(shaders, outcomes))
    elif sections:
        terminal.write("\n\n".join(sections))
    failures = [outcome for outcome in outcomes if isinstance(outcome, VkComputeError)]
    for failure in failures[:-1]:
        _logger.error("%s", failure)
    if failures:
        raise failures[-1]


def kernels_in(path: str) -> list[tuple[str, bytes]]:
    """Runs a Python file, though not as the main program; returns its kernels for the types of their annotations.

    A kernel with a parameter that has no type is left out, with a warning, if another kernel is compiled.

    Raises:
        KernelError: a kernel cannot be compiled.
        TypeError: each kernel has a parameter without a type.
        ValueError: running the file raises an error, or it defines no kernel.
    """
    from vkcompute.jit.kernel import PythonKernel

    found = [each for each in _run(path).values() if isinstance(each, PythonKernel) and each.__module__ == _MODULE]
    if not found:
        raise ValueError(f"{path} defines no kernel; mark a function with @vc.kernel")
    results = [(kernel.__name__, _spirv(kernel)) for kernel in dict.fromkeys(found)]
    compiled = [(name, result) for name, result in results if isinstance(result, bytes)]
    for name, result in results:
        if isinstance(result, TypeError):
            if not compiled:
                raise result
            _logger.warning("%s is left out: %s", name, result)
    return compiled


def _spirv(kernel: PythonKernel) -> bytes | TypeError:
    """Compiles a kernel; returns the error for a parameter without a type."""
    try:
        return kernel.spirv()
    except TypeError as error:
        return error


def _run(path: str) -> dict[str, Any]:
    """Returns what a Python file defines.

    Raises:
        OSError: it cannot be read.
        ValueError: running it raises an error of its own.
    """
    import runpy

    try:
        return runpy.run_path(path, run_name=_MODULE)
    except (OSError, VkComputeError):
        raise
    except Exception as error:
        lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == path]
        place = f"{path}:{lines[-1]}: " if lines else ""
        raise ValueError(f"{place}{type(error).__name__}: {error}") from error


def _outcomes(args: argparse.Namespace, shaders: _Shaders) -> list[Outcome]:
    from vkcompute.core.compiler_device import CompilerDevice
    from vkcompute.core.instance import Instance
    from vkcompute.core.physical import choose, enumerate_devices
    from vkcompute.runtime.launching.radv import Shader, compile_on, outcomes_for

    given = [Shader(*shader) for shader in shaders]
    if args.on is not None:
        return outcomes_for(args.on, given)
    with Instance() as instance:
        named = os.environ.get("VKCOMPUTE_DEVICE")
        with CompilerDevice(choose(enumerate_devices(instance), args.device, environment=named)) as device:
            return list(compile_on(device, given))


def _labelled(name: str, statistics: KernelStatistics, assembly: str, args: argparse.Namespace) -> str:
    """The assembly, below the name of its shader unless the statistics above it have it."""
    head = [] if args.statistics else [f"{name} on {statistics.device}:", ""]
    return "\n".join([*head, assembly.rstrip()])


def _text(name: str, statistics: KernelStatistics) -> str:
    """All figures by the driver's names, with its explanations, below those with common names."""
    figures, descriptions = statistics.figures, statistics.descriptions
    rows = [(figure, f"{value}: {descriptions[figure]}") for figure, value in figures.items()]
    lines = [terminal.field(figure, text, indent=2, label_columns=22) for figure, text in rows]
    return "\n".join([f"{name} on {statistics}", "", "by the driver's names:", *lines])


def _json(shaders: _Shaders, outcomes: Sequence[Outcome]) -> str:
    import json
    from dataclasses import asdict

    rows: list[dict[str, Any]] = [
        {"name": name, "error": str(outcome)}
        if isinstance(outcome, VkComputeError)
        else {"name": name, **asdict(outcome.statistics), "assembly": outcome.assembly}
        for (name, _), outcome in zip(shaders, outcomes, strict=True)
    ]
    return json.dumps(rows, indent=2)
