"""Targets: what is known of the device for which a function is lowered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """The properties of a device that lowering depends on; the default is right on all devices.

    Attributes:
        keeps_loop_results: True if the compiler keeps a loop's result that is the same value at all breaks. Others get
            one more exit of the loop, which is never taken.
    """

    keeps_loop_results: bool = False


ANY = Target()
"""The target of modules that run on any device."""
