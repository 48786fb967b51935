"""`vkcompute bench`: what a launch costs on this device, and how fast data moves and is multiplied, beside numpy."""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING

from vkcompute._version import __version__
from vkcompute.cli import interruption, page
from vkcompute.cli.options import Commands, Parser

if TYPE_CHECKING:
    from vkcompute.cli.measurement import Measurement
    from vkcompute.core.physical import PhysicalDevice

_REPEATS, _QUICK_REPEATS = 30, 5


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    text = """Measures this device: the host's time for a launch, upload and download, and the multiply beside numpy's.
    Shown are medians, and the quartiles that half of the samples lie between. A multiply's GB/s counts all three
    arrays."""
    parser: Parser = commands.add_parser("bench", help="measure this device", description=text)
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_REPEATS} samples of each, not {_REPEATS}")
    parser.add_argument("--json", action="store_true", help="the same as JSON, with versions")
    parser.add_device_option()
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from vkcompute.cli.measurement import measure
    from vkcompute.runtime.runtime import Runtime

    n_repeats = _QUICK_REPEATS if args.quick else _REPEATS
    with Runtime(args.device) as runtime, interruption.bar("bench", unit=" samples", quiet=args.quiet) as update:
        found = measure(runtime, n_repeats, update)
        physical = runtime.device.physical
    page.show(_json(found, physical) if args.json else _text(found, physical))
    return 0


def _json(found: list[Measurement], device: PhysicalDevice) -> str:
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
    return json.dumps(about | {"results": [asdict(each) for each in found]}, indent=2)


def _text(found: list[Measurement], device: PhysicalDevice) -> str:
    head = ("", "median", "quartiles", "unit")
    rows = [(each.name, f"{each.median:.4g}", f"{each.low:.4g} to {each.high:.4g}", each.unit) for each in found]
    about = page.fit(f"{device.name}, {device.driver}", page.width())
    return f"{about}\n\n{page.table([head, *rows], right=(1, 2))}"
