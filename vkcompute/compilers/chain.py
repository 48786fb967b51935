"""Which GLSL compiler this machine has, in this order: a named one, the shaderc library, glslc, glslang."""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Protocol

from vkcompute.compilers import shaderc
from vkcompute.compilers.programs import Glslang, Glslc, Outcome, fingerprint, run
from vkcompute.errors import NoCompiler

PROGRAMS: tuple[tuple[str, type[Glslc] | type[Glslang]], ...] = (
    ("glslc", Glslc),
    ("glslangValidator", Glslang),
    ("glslang", Glslang),
)
TARGETS = ("vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3")

_INSTALL = (
    "install one: Debian and Ubuntu: apt install glslang-tools; Fedora: dnf install glslang; "
    "macOS: brew install glslang; Windows: the Vulkan SDK of LunarG; "
    "or name one with compiler=... or the environment variable VKCOMPUTE_GLSLC"
)
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
        tried.append(f"the library {name} ({library})")
    search = os.pathsep.join([*_sdk_folders(sdk), path])
    for program, kind in PROGRAMS:
        found = shutil.which(program, path=search)
        if found is not None:
            return kind(found, f"{kind.name}:{fingerprint(found)}")
        tried.append(f"the program {program} (not on PATH)")
    raise NoCompiler("no GLSL compiler on this machine; tried " + "; ".join(tried) + ". To get one, " + _INSTALL)


def _named(name: str, origin: str, path: str) -> Compiler:
    """The compiler that the user named: a library, or a program by path or name."""
    if _LIBRARY.search(name):
        library = shaderc.load(name)
        if isinstance(library, str):
            raise NoCompiler(f"{origin}={name!r} is no usable shaderc library: {library}. Otherwise, {_INSTALL}")
        return library
    found = shutil.which(name, path=path)
    if found is None:
        raise NoCompiler(f"{origin}={name!r} is no program that can be run. Otherwise, {_INSTALL}")
    kind = _kind(found)
    if kind is None:
        raise NoCompiler(f"{origin}={name!r} runs, but is neither glslc nor glslang. Otherwise, {_INSTALL}")
    return kind(found, f"{kind.name}:{fingerprint(found)}")


def _kind(program: str) -> type[Glslc] | type[Glslang] | None:
    """Told by the name, and for another name (a wrapper, a versioned file) by what --version prints."""
    name = Path(program).name.lower()
    try:
        says = name if "glslang" in name or "glslc" in name else run([program, "--version"])[1].lower()
    except OSError:
        return None
    if "glslang version" in says or "glslangvalidator" in says or name.startswith("glslang"):
        return Glslang
    return Glslc if "glslc" in says or "shaderc" in says else None


def _sdk_folders(sdk: str) -> list[str]:
    return [os.path.join(sdk, "Bin" if sys.platform == "win32" else "bin")] if sdk else []


def _sdk_libraries(sdk: str) -> list[str]:
    places = ("Bin",) if sys.platform == "win32" else ("lib",)
    files = [os.path.join(sdk, place, name) for place in places for name in shaderc.LIBRARY_NAMES] if sdk else []
    return [file for file in files if os.path.isfile(file)]
