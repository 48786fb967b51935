"""Compilation of a translation unit by any compiler, with a cache on disk."""

from __future__ import annotations

import hashlib
import logging
import sys

from vkcompute import disk
from vkcompute.compilers import diagnostics
from vkcompute.compilers.command_line import optimizer_identity
from vkcompute.compilers.compiler import Compiler
from vkcompute.compilers.preprocessor import MAIN, TranslationUnit
from vkcompute.errors import CompileError
from vkcompute.slow_work import announced
from vkcompute.spirv.enums import MAGIC

logger = logging.getLogger(__name__)

_FORMAT = "glsl-1"  # part of every cache key: raise it when the same input gives another output


def compile_unit(unit: TranslationUnit, compiler: Compiler, target: str, optimize: bool) -> bytes:
    """SPIR-V of a translation unit.

    Raises:
        CompileError: `compiler` rejects the text, or writes something other than SPIR-V.
    """
    result = compiler.compile(unit.text, target, optimize)
    if result.spirv is None:
        raise diagnostics.error(unit, result.log, compiler.name)
    if not _is_spirv(result.spirv):
        raise CompileError(
            f"{unit.files[MAIN].name}: {compiler.path} wrote {len(result.spirv)} bytes that are not SPIR-V; "
            "use another compiler"
        )
    if result.log.strip():
        logger.debug("%s: %s", compiler.name, result.log.strip())
    return result.spirv


def compile_cached(unit: TranslationUnit, compiler: Compiler, target: str, optimize: bool) -> bytes:
    """`compile_unit` with a cache on disk, keyed by everything that the result depends on."""
    optimizer = f"optimized {optimizer_identity()}" if optimize else ""
    key = (_FORMAT, compiler.identity, target, optimizer, unit.text)
    path = disk.cache_folder() / "glsl" / hashlib.sha256("\0".join(key).encode()).hexdigest()
    spirv = disk.read_cached(path)
    if spirv is None or not _is_spirv(spirv):
        with announced(f"compiling {unit.files[MAIN].name} with {compiler.name}"):
            spirv = compile_unit(unit, compiler, target, optimize)
        disk.keep_cached(path, spirv)
    return spirv


def _is_spirv(data: bytes) -> bool:
    return len(data) % 4 == 0 and data[:4] == MAGIC.to_bytes(4, sys.byteorder)
