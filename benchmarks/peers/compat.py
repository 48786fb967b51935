"""Kompute's programs on `vkcompute.compat.kp`: the same as Kompute's own, but for the module."""

from __future__ import annotations

from peers import Target, kompute


class Peer(kompute.Peer):
    """The device of the loader's index, by `vkcompute.compat.kp`."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, "vkcompute.compat.kp")
