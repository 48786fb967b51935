"""Kompute's programs, with `vkcompute.compat.kp` instead of its module."""

from __future__ import annotations

from peers import Target, kompute


class Peer(kompute.Peer):
    """The device with the target's index, opened by `vkcompute.compat.kp`."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, "vkcompute.compat.kp")
