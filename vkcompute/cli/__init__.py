"""The `vkcompute` command."""

from __future__ import annotations

from vkcompute.cli.command import main

__all__ = ["main"]
