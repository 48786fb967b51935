"""Which GLSL compiler this machine has, in this order: a named one, the shaderc library, glslc, glslang.

What it makes while a program runs is kept on disk.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Protocol

from vkcompute import disk
from vkcompute.compilers import diagnostics, shaderc
from vkcompute.compilers.programs import Glslang, Glslc, Outcome, fingerprint, optimizer_identity, run
from vkcompute.compilers.source import MAIN, Unit
from vkcompute.errors import CompileError, NoCompiler
from vkcompute.spirv.enums import MAGIC

logger = logging.getLogger(__name__)

PROGRAMS: tuple[tuple[str, type[Glslc] | type[Glslang]], ...] = (
    ("glslc", Glslc),
    ("glslangValidator", Glslang),
    ("glslang", Glslang),
)
TARGETS = ("vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3")

_FORMAT = "glsl-1"  # part of every key of the cache: raise it when the same input is to give another output
_INSTALL = """\
install one:
  Debian, Ubuntu: apt install glslang-tools;
  Fedora: dnf install glslang;
  macOS: brew install glslang;
  Windows: the Vulkan SDK of LunarG;
or name one with compiler=... or with the environment variable VKCOMPUTE_GLSLC."""
_LIBRARY = re.compile(r"\.(?:so(?:\.\d+)*|dylib|dll)\Z")


class Compiler(Protocol):
    """One GLSL compiler.

    Attributes:
        name: "shaderc", "glslc" or "glslang".
        path: the file that it is in.
        identity: differs between builds, known without running anything.
    """

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def identity(self) -> str: ...

    def version(self) -> str:
        """Name and version in words; may run a program."""

    def compile(self, text: str, target: str, optimize: bool) -> Outcome:
        """SPIR-V for `target`, one of `TARGETS`, or the log of a failure."""


def find(explicit: str | os.PathLike[str] | None = None) -> Compiler:
    """The compiler to use: `explicit`, else what VKCOMPUTE_GLSLC names, else the first of the chain.

    Raises:
        NoCompiler: there is none, or the named one is not usable; the message lists what was tried.
    """
    named = os.fspath(explicit) if explicit is not None else None
    environment = os.environ.get("VKCOMPUTE_GLSLC")
    return _find(named, environment, os.environ.get("PATH", ""), os.environ.get("VULKAN_SDK", ""))


@functools.lru_cache(maxsize=16)
def _find(named: str | None, environment: str | None, path: str, sdk: str) -> Compiler:
    """`find` with everything that it depends on as an argument, so that it looks once."""
    if named is not None:
        return _named(named, "compiler", path)
    if environment:
        return _named(environment, "VKCOMPUTE_GLSLC", path)
    tried = []
    for name in (*_sdk_libraries(sdk), *shaderc.LIBRARY_NAMES):
        library = shaderc.load(name)
        if not isinstance(library, str):
            return library
        tried.append(library)
    search = os.pathsep.join([*_sdk_folders(sdk), path])
    for program, kind in PROGRAMS:
        found = shutil.which(program, path=search)
        if found is not None:
            return kind(found, f"{kind.name}:{fingerprint(found)}")
        tried.append(f"{program}: not on PATH")
    raise NoCompiler("\n  ".join(["no GLSL compiler on this machine; tried", *tried]) + f";\n{_INSTALL}")


def compile_unit(unit: Unit, tool: Compiler, target: str, optimize: bool) -> bytes:
    """SPIR-V of an assembled text.

    Raises:
        CompileError: `tool` refuses the text.
    """
    outcome = tool.compile(unit.text, target, optimize)
    if outcome.spirv is None:
        raise diagnostics.error(unit, outcome.log, tool.name)
    if len(outcome.spirv) % 4 != 0 or outcome.spirv[:4] != MAGIC.to_bytes(4, sys.byteorder):
        raise CompileError(
            f"{unit.files[MAIN].name}: what {tool.path} wrote is not SPIR-V ({len(outcome.spirv)} bytes)"
        )
    if outcome.log.strip():
        logger.debug("%s: %s", tool.name, outcome.log.strip())
    return outcome.spirv


def compiled(unit: Unit, tool: Compiler, target: str, optimize: bool) -> bytes:
    """`compile_unit`, kept on disk by the content of everything that the result depends on."""
    optimizer = f"optimized {optimizer_identity()}" if optimize else ""
    parts = (_FORMAT, tool.identity, target, optimizer, unit.text)
    path = disk.cache_folder() / "glsl" / hashlib.sha256("\0".join(parts).encode()).hexdigest()
    spirv = disk.read_cached(path)
    if spirv is None:
        spirv = compile_unit(unit, tool, target, optimize)
        disk.keep_cached(path, spirv)
    return spirv


def _named(name: str, origin: str, path: str) -> Compiler:
    """The compiler that the user named: a library, or a program by path or name."""
    if _LIBRARY.search(name):
        library = shaderc.load(name)
        if isinstance(library, str):
            raise NoCompiler(f"{origin}={name!r} is no usable shaderc library: {library};\n{_INSTALL}")
        return library
    found = shutil.which(name, path=path)
    if found is None:
        raise NoCompiler(f"{origin}={name!r} is no program that can be run;\n{_INSTALL}")
    kind = _kind(found)
    if kind is None:
        raise NoCompiler(f"{origin}={name!r} is a program, but neither glslc nor glslang;\n{_INSTALL}")
    return kind(found, f"{kind.name}:{fingerprint(found)}")


def _kind(program: str) -> type[Glslc] | type[Glslang] | None:
    """Which of the two it is, by its name, or where that tells nothing (a wrapper) by what --version prints."""
    return _kind_in(Path(program).name) or _kind_in(_version_text(program))


def _kind_in(text: str) -> type[Glslc] | type[Glslang] | None:
    text = text.lower()
    if text.startswith("glslang") or "glslang version" in text:
        return Glslang
    return Glslc if text.startswith("glslc") or "shaderc " in text else None


def _version_text(program: str) -> str:
    try:
        return run([program, "--version"])[1]
    except OSError:  # no format that the system can start
        return ""


def _sdk_folders(sdk: str) -> list[str]:
    return [os.path.join(sdk, "Bin" if sys.platform == "win32" else "bin")] if sdk else []


def _sdk_libraries(sdk: str) -> list[str]:
    places = ("Bin",) if sys.platform == "win32" else ("lib",)
    files = [os.path.join(sdk, place, name) for place in places for name in shaderc.LIBRARY_NAMES] if sdk else []
    return [file for file in files if os.path.isfile(file)]
