"""`vkcompute compile --statistics` and `--assembly`: shaders as a device's driver compiles them."""

from __future__ import annotations

import argparse
import logging
import os
import traceback
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from vkcompute.cli import terminal
from vkcompute.cli.options import Parser
from vkcompute.errors import VkComputeError

if TYPE_CHECKING:
    from vkcompute.blocks.launching.launched import Launched
    from vkcompute.jit.kernel import PythonKernel
    from vkcompute.runtime.launching.imitated_gpu import Outcome, Shader
    from vkcompute.runtime.launching.statistics import KernelStatistics

_logger = logging.getLogger("vkcompute")
_MODULE = "<compiled>"  # the name of a Python file while its kernels are compiled


def add_options(parser: Parser) -> None:
    """Adds the options."""
    parser.add_argument("--statistics", action="store_true", help="show registers, spills, occupancy, instructions")
    parser.add_argument("--assembly", action="store_true", help="show the device's assembly")
    parser.add_argument(
        "--on", metavar="FAMILY", help="ask AMD's compiler for a family of GPUs, such as navi21, which may be absent"
    )
    parser.add_argument(
        "--signature",
        metavar="NAME(TYPES)",
        action="append",
        default=[],
        help="types of a block program's arguments, as 'add(*fp32, *fp32, i32, BLOCK=1024)'",
    )
    parser.add_device_option()


def write(args: argparse.Namespace, shaders: Sequence[Shader]) -> None:
    """Compiles the shaders, and writes their statistics, their assembly, or both.

    Raises:
        MissingFeature: the driver does not tell how it compiles, or its device cannot run a shader; the others are
            written.
        VkComputeError: the compiler fails at a shader; the others are written.
        NoDevice, ValueError: the device or the family is not found.
    """
    outcomes = _outcomes(args, shaders)
    sections = []
    for shader, outcome in zip(shaders, outcomes, strict=True):
        if isinstance(outcome, VkComputeError):
            continue
        name = shader.name
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


def kernels_in(args: argparse.Namespace) -> list[Shader]:
    """Runs a Python file, though not as the main program; returns its kernels and its block programs.

    Kernels are compiled for the types of their annotations, block programs for those of --signature. One without types
    is left out, with a warning, if another is compiled.

    Raises:
        KernelError: one cannot be compiled.
        TypeError, ValueError: each of them lacks the type of a parameter.
        ValueError: running the file raises an error, or it defines no kernel; a signature does not fit.
    """
    from vkcompute.blocks.launching.launched import Launched
    from vkcompute.jit.kernel import PythonKernel

    defined = [
        value
        for value in dict.fromkeys(filter(_is_hashable, _run(args.source).values()))
        if (isinstance(value, PythonKernel) and value.__module__ == _MODULE)
        or (isinstance(value, Launched) and _function_of(value).__module__ == _MODULE)
    ]
    if not defined:
        raise ValueError(f"{args.source} defines no kernel; mark a function with @vc.kernel or @triton.jit")
    outcomes = [(object_, _shader(args, object_)) for object_ in defined]
    shaders = [outcome for _, outcome in outcomes if not isinstance(outcome, Exception)]
    for object_, outcome in outcomes:
        if isinstance(outcome, Exception):
            if not shaders:
                raise outcome
            _logger.warning("%s is left out: %s", _function_of(object_).__name__, outcome)
    return shaders


def _is_hashable(value: Any) -> bool:
    return getattr(value, "__hash__", None) is not None and not isinstance(value, tuple)


def _function_of(kernel: Any) -> Any:
    """The Python function of a kernel or a block program."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _shader(args: argparse.Namespace, kernel: PythonKernel | Launched) -> Shader | Exception:
    """Compiles a kernel or a block program; returns the error for one without types."""
    from vkcompute.jit.kernel import PythonKernel

    if isinstance(kernel, PythonKernel):
        from vkcompute.runtime.launching.imitated_gpu import Shader

        try:
            features, spirv, emulated = kernel.variants()
        except TypeError as error:
            return error
        return Shader(kernel.__name__, spirv, {}, features, emulated)
    from vkcompute.cli import block_programs

    try:
        text = block_programs.signature_of(_function_of(kernel).__name__, args.signature)
    except ValueError as error:
        return error
    return block_programs.shader(kernel, text, _target(args.on, args.device))


@cache
def _target(on: str | None, device: str | None) -> Any:
    """The target of block programs: of a family of GPUs, or of the device, which is opened once."""
    if on is not None:
        from vkcompute.cli.block_programs import ON_AMD

        return ON_AMD
    from vkcompute.runtime.runtime import Runtime
    from vkcompute.tile.device import block_target

    with Runtime(device) as runtime:
        return block_target(runtime)


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
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        location = f"{path}:{lines[-1]}: " if lines else ""
        raise ValueError(f"{location}{type(error).__name__}: {error}") from error


def _outcomes(args: argparse.Namespace, shaders: Sequence[Shader]) -> list[Outcome]:
    from vkcompute.core.instance import Instance
    from vkcompute.core.logical_device import CompilerDevice
    from vkcompute.core.physical import choose, enumerate_devices
    from vkcompute.runtime.launching.imitated_gpu import compile_on
    from vkcompute.runtime.launching.radv import outcomes_for

    if args.on is not None:
        return outcomes_for(args.on, shaders)
    with Instance() as instance:
        named = os.environ.get("VKCOMPUTE_DEVICE")
        with CompilerDevice(choose(enumerate_devices(instance), args.device, environment=named)) as device:
            return list(compile_on(device, shaders))


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


def _json(shaders: Sequence[Shader], outcomes: Sequence[Outcome]) -> str:
    import json
    from dataclasses import asdict

    rows: list[dict[str, Any]] = [
        {"name": shader.name, "error": str(outcome)}
        if isinstance(outcome, VkComputeError)
        else {"name": shader.name, **asdict(outcome.statistics), "assembly": outcome.assembly}
        for shader, outcome in zip(shaders, outcomes, strict=True)
    ]
    return json.dumps(rows, indent=2)
