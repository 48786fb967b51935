"""`vkcompute multiply`: the product of two .npy files, of any size, on the device."""

from __future__ import annotations

import argparse

from vkcompute.cli.options import Commands


def add_parser(commands: Commands) -> None:
    """x"""


def run(args: argparse.Namespace) -> int:
    return 0
