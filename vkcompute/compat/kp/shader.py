"""Compilation of GLSL, as in Kompute 0.7."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vkcompute.errors import CompileError, KomputeError


class ShaderError(CompileError, KomputeError):
    """GLSL source does not compile; a RuntimeError, as in Kompute."""


class Shader:
    """Compiles GLSL compute shaders."""

    @staticmethod
    def compile_source(
        source: str,
        entryPoint: str = "main",  # noqa: N803  # Kompute's name
        definitions: Iterable[tuple[str, str]] = (),
    ) -> bytes:
        """Compiles a shader to SPIR-V.

        Args:
            definitions: names and values of preprocessor macros.

        Raises:
            ShaderError: the source does not compile; the message has file, line and source text of each error.
            NoCompiler: this machine has no GLSL compiler.
            ValueError: the entry point is not "main".
        """
        return Shader.compile_sources([source], (), entryPoint, definitions)

    @staticmethod
    def compile_sources(
        sources: Sequence[str],
        files: Sequence[str] = (),
        entryPoint: str = "main",  # noqa: N803  # Kompute's name
        definitions: Iterable[tuple[str, str]] = (),
    ) -> bytes:
        """Compiles a shader whose source is the concatenation of several strings.

        Args:
            files: names of the sources, for error messages; one for each, or none.
            definitions: names and values of preprocessor macros.

        Raises:
            As `compile_source`.
        """
        from vkcompute.glsl import glsl

        if entryPoint != "main":
            raise ValueError(f'the entry point of GLSL is "main"; got {entryPoint!r}')
        if files and len(files) != len(sources):
            raise ValueError(f"files has one name for each source; got {len(files)} names for {len(sources)} sources")
        try:
            return glsl("".join(sources), defines=dict(definitions), name=" + ".join(files) or "<glsl>")
        except CompileError as error:
            raise ShaderError(str(error)) from error
