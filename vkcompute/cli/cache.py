"""`vkcompute cache`: the place and the size of the disk cache, and its deletion."""

from __future__ import annotations

import argparse
from itertools import groupby

from vkcompute import disk
from vkcompute.cli import terminal
from vkcompute.cli.options import Commands, Parser
from vkcompute.cli.stderr import one_line

_ACTIONS = "path", "size", "clear"


def add_parser(commands: Commands) -> None:
    """Adds the command's parser."""
    text = (
        "Shows the folder with compiled shaders, kernels and pipelines, and their size; or only the path, or only the "
        "size; or deletes them. They are compiled again when needed. The folder is vkcompute in VKCOMPUTE_CACHE_DIR."
    )
    parser: Parser = commands.add_parser("cache", help="show or delete compiled kernels", description=text)
    parser.add_argument("action", nargs="?", choices=_ACTIONS, metavar="ACTION", help="path, size or clear")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    if args.action == "path":
        terminal.write(one_line(str(disk.cache_folder())))
    elif args.action == "size":
        terminal.write(_size(disk.cache_entries()))
    elif args.action == "clear":
        deleted = disk.clear_cache()
        terminal.write(f"deleted {_size(deleted)}")
    else:
        entries = disk.cache_entries()
        terminal.write(one_line(str(disk.cache_folder())))
        rows = [(kind, _size(list(group))) for kind, group in groupby(entries, lambda entry: entry.path.parent.name)]
        terminal.write("\n".join(terminal.field(kind, size) for kind, size in [*rows, ("total", _size(entries))]))
    return 0


def _size(entries: list[disk.CacheEntry]) -> str:
    n_entries = "1 entry" if len(entries) == 1 else f"{len(entries):,} entries"
    return f"{n_entries}, {terminal.nbytes(sum(entry.nbytes for entry in entries))}"
