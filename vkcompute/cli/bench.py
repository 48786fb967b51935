"""`vkcompute bench`: launch overhead, transfer rates, and the multiply's throughput compared with numpy's."""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING

from vkcompute._version import __version__
from vkcompute.cli import interruption, terminal
from vkcompute.cli.options import Commands, Parser

if TYPE_CHECKING:
    from vkcompute.cli.measurement import Measurement
    from vkcompute.core.physical import PhysicalDevice

_REPEATS, _QUICK_REPEATS = 30, 5


def add_parser(commands: Commands) -> None:
    """Adds the command's parser."""
    text = """Measures this device: the host's time per launch, upload and download rates, and the multiply compared
    with numpy's. Shows medians, and lower and upper quartiles. The multiply's GB/s counts all three arrays."""
    parser: Parser = commands.add_parser("bench", help="measure this device", description=text)
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_REPEATS} samples of each instead of {_REPEATS}")
    parser.add_argument("--json", action="store_true", help="write JSON, with versions")
    parser.add_device_option()
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from vkcompute.cli.measurement import measure
    from vkcompute.runtime.runtime import Runtime

    n_repeats = _QUICK_REPEATS if args.quick else _REPEATS
    progress_bar = interruption.progress_bar("bench", unit=" samples", quiet=args.quiet)
    with Runtime(args.device) as runtime, progress_bar as update:
        measurements = measure(runtime, n_repeats, update)
        physical = runtime.device.physical
    terminal.write(_json(measurements, physical) if args.json else _text(measurements, physical))
    return 0


def _json(measurements: list[Measurement], device: PhysicalDevice) -> str:
    import numpy as np

    about = {
        "vkcompute": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "device": device.name,
        "kind": device.kind,
        "driver": device.driver,
        "api_version": ".".join(map(str, device.api_version)),
    }
    return json.dumps(about | {"results": [asdict(measurement) for measurement in measurements]}, indent=2)


def _text(measurements: list[Measurement], device: PhysicalDevice) -> str:
    head = ("", "median", "quartiles", "unit")
    rows = [
        (
            measurement.name,
            f"{measurement.median:.4g}",
            f"{measurement.low:.4g} to {measurement.high:.4g}",
            measurement.unit,
        )
        for measurement in measurements
    ]
    about = terminal.truncate(f"{device.name}, {device.driver}", terminal.width())
    return f"{about}\n\n{terminal.table([head, *rows], right=(1, 2))}"
