"""The build of the library's own shaders: compiles each row of the table, and again when its source changes.

A manifest beside the outputs records their inputs. An output is fresh if its content, its target and the hash of its
preprocessed source match the manifest. The manifest records the compiler too, but it does not count: a wheel can be
built from an sdist without any compiler.

spirv-opt is not run: it saves no time on lavapipe or SwiftShader, and the output would depend on the version installed.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from vkcompute import disk
from vkcompute.compilers import discovery
from vkcompute.compilers.builtin_shaders import BuiltInShader
from vkcompute.compilers.command_line import validation_error
from vkcompute.compilers.compilation import compile_unit
from vkcompute.compilers.compiler import Compiler
from vkcompute.compilers.preprocessor import TranslationUnit, preprocess, read
from vkcompute.errors import CompileError

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One output. Hashes are SHA-256, in hexadecimal; the compiler is a name and a version."""

    source: str
    source_sha256: str
    defines: dict[str, str]
    target: str
    compiler: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Report:
    """The state of the outputs before a build: sorted names."""

    fresh: list[str]
    stale: list[str]
    missing: list[str]
    surplus: list[str]

    @property
    def is_complete(self) -> bool:
        """True if every output is fresh, and there are no others."""
        return not (self.stale or self.missing or self.surplus)


@dataclass(frozen=True, slots=True)
class ShaderBuild:
    """A build from one folder to another.

    Attributes:
        sources: the folder of the .comp files; its subfolder `include` is searched for includes.
        outputs: the folder of the .spv files and the manifest.
        table: the shaders to build.
    """

    sources: Path
    outputs: Path
    table: Sequence[BuiltInShader]

    def check(self) -> Report:
        """Compares the outputs with the sources; writes nothing.

        Raises:
            CompileError, OSError: a source cannot be preprocessed or read.
        """
        manifest = self._manifest()
        groups: dict[str, list[str]] = {"fresh": [], "stale": [], "missing": []}
        for shader in sorted(self.table, key=lambda row: row.name):
            groups[self._state(shader, manifest.get(shader.name))].append(shader.name)
        return Report(**groups, surplus=[path.name for path in self._surplus()])

    def run(
        self,
        *,
        force: bool = False,
        n_jobs: int = 1,
        validate: bool = True,
        compiler: str | None = None,
        say: Callable[[str], None] = logger.info,
    ) -> Report:
        """Compiles stale and missing outputs (with `force`, all), deletes surplus ones; returns the state before.

        Outputs are replaced atomically; one that fails stays unchanged. `validate` runs spirv-val where installed.

        Raises:
            CompileError: the errors of all shaders that fail; the others are built.
            NoCompiler: a shader needs compilation, and no compiler is installed.
        """
        report = self.check()
        outdated = [row for row in self.table if force or row.name not in report.fresh]
        entries = {name: entry for name, entry in self._manifest().items() if name in report.fresh}
        errors: list[CompileError] = []
        if outdated:
            self.outputs.mkdir(parents=True, exist_ok=True)
            tool = discovery.find(compiler)
            version = tool.version()
            with ThreadPoolExecutor(n_jobs) as pool:
                results = pool.map(lambda row: self._attempt(row, tool, version, validate), outdated)
            for row, result in zip(outdated, results, strict=True):
                if isinstance(result, ManifestEntry):
                    entries[row.name] = result
                    say(f"compiled {row.name}")
                else:
                    errors.append(result)
        for path in self._surplus():
            path.unlink()
        if outdated or report.surplus:
            self._write_manifest(entries)
        if errors:
            raise CompileError("\n\n".join(dict.fromkeys(map(str, errors))))
        return report

    def _attempt(
        self, shader: BuiltInShader, tool: Compiler, version: str, validate: bool
    ) -> ManifestEntry | CompileError:
        try:
            return self._compile(shader, tool, version, validate)
        except CompileError as error:
            return error

    def _compile(self, shader: BuiltInShader, tool: Compiler, version: str, validate: bool) -> ManifestEntry:
        unit = self._unit(shader)
        spirv = compile_unit(unit, tool, shader.target, optimize=False)
        invalid = validation_error(spirv, shader.target) if validate else ""
        if invalid:
            raise CompileError(f"{shader.name}: spirv-val rejects the SPIR-V compiled from {shader.source}: {invalid}")
        disk.write_atomic(self._output(shader), spirv)
        defines = {name: str(value) for name, value in shader.defines.items()}
        digest = hashlib.sha256(spirv).hexdigest()
        return ManifestEntry(shader.source, _hash(unit), defines, shader.target, version, digest)

    def _state(self, shader: BuiltInShader, entry: ManifestEntry | None) -> str:
        output = self._output(shader)
        if not output.is_file():
            return "missing"
        if entry is None or entry.target != shader.target or entry.source_sha256 != _hash(self._unit(shader)):
            return "stale"
        return "fresh" if entry.sha256 == hashlib.sha256(output.read_bytes()).hexdigest() else "stale"

    def _unit(self, shader: BuiltInShader) -> TranslationUnit:
        path = self.sources / shader.source
        return preprocess(read(path), str(self.sources), shader.defines, [str(self.sources / "include")])

    def _output(self, shader: BuiltInShader) -> Path:
        return self.outputs / f"{shader.name}.spv"

    def _surplus(self) -> list[Path]:
        wanted = {MANIFEST, *(self._output(row).name for row in self.table)}
        here = self.outputs.iterdir() if self.outputs.is_dir() else ()
        return sorted(path for path in here if path.name not in wanted and path.is_file())

    def _manifest(self) -> dict[str, ManifestEntry]:
        """The entries of the manifest; none if it is missing or malformed."""
        try:
            stored = json.loads((self.outputs / MANIFEST).read_text(encoding="utf-8"))
            return {name: ManifestEntry(**fields) for name, fields in stored.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _write_manifest(self, entries: dict[str, ManifestEntry]) -> None:
        stored = {name: asdict(entries[name]) for name in sorted(entries)}
        text = json.dumps(stored, indent=1, sort_keys=True) + "\n"
        disk.write_atomic(self.outputs / MANIFEST, text.encode())


def _hash(unit: TranslationUnit) -> str:
    return hashlib.sha256(unit.text.encode()).hexdigest()
