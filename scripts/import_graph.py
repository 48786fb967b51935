"""The imports between the modules of vkcompute, read from their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "vkcompute"


@dataclass(frozen=True)
class Import:
    """One import of a module of ours: importing and imported module (dotted, without "vkcompute."), and the line."""

    source: str
    target: str
    line: int


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name without "vkcompute."; a package's own is its folder's name."""
    paths = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        paths[name] = path
    return paths


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def resolve(name: str) -> str:
    """The module that holds `name` (dotted, without "vkcompute."): itself, or the nearest one above it."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or "__init__"


def absolute(source: str, node: ast.ImportFrom) -> str | None:
    """The module that `from X import` names, without "vkcompute."; "" is the package itself, None a foreign one."""
    if node.level == 0:
        first, _, rest = (node.module or "").partition(".")
        return rest if first == "vkcompute" else None
    parts = source.split(".") if source != "__init__" else []
    is_package = modules()[source].name == "__init__.py"
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


def targets(source: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules of ours that one statement imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "vkcompute":
                yield resolve(alias.name.partition(".")[2])
    else:
        base = absolute(source, node)
        if base is not None:
            for alias in node.names:
                yield resolve(f"{base}.{alias.name}".lstrip("."))


def import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import below `node`: inside of functions, and under `if TYPE_CHECKING:` too."""
    return (child for child in ast.walk(node) if isinstance(child, ast.Import | ast.ImportFrom))


@cache
def imports() -> tuple[Import, ...]:
    """Every import of a module of the package by another."""
    return tuple(
        Import(source, target, node.lineno)
        for source, path in modules().items()
        for node in import_statements(tree(path))
        for target in targets(source, node)
        if target != source
    )


@cache
def public_names() -> dict[str, str]:
    """The names of `vkcompute` -> the module that defines it."""
    return {
        alias.asname or alias.name: resolve(f"{absolute('__init__', node)}.{alias.name}".lstrip("."))
        for node in import_statements(tree(PACKAGE / "__init__.py"))
        if isinstance(node, ast.ImportFrom) and absolute("__init__", node) is not None
        for alias in node.names
    }


def reachable(names: set[str]) -> set[str]:
    """The modules that importing `names` imports, directly or not, these included.

    The package's own `__init__` leads nowhere: its names are imported on first use.
    """
    edges: dict[str, set[str]] = {}
    for entry in imports():
        edges.setdefault(entry.source, set()).add(entry.target)
    seen: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        parent = name.rpartition(".")[0]
        following = edges.get(name, set()) | ({parent} if parent in modules() else set())
        waiting |= (following if name != "__init__" else set()) - seen
    return seen
