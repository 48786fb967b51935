"""The library's own shaders: every row of the table compiled, checked, and kept until its source changes.

The manifest beside the outputs records what each was made from. An output is fresh when the hash of its assembled
source (includes and defines resolved), its target and its own content are those of the manifest. Which compiler made it
is recorded but does not count, so that a wheel can be made from an sdist without any.

spirv-opt is not run: it saves no time on lavapipe or SwiftShader, and the output would depend on the version installed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from vkcompute import disk
from vkcompute.compilers import chain, programs
from vkcompute.compilers.source import Unit, assemble, read
from vkcompute.errors import CompileError
from vkcompute.variants import Variant

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One output in the manifest. Hashes are SHA-256, in hexadecimal; the compiler is a name and a version."""

    source: str
    source_sha256: str
    defines: dict[str, str]
    target: str
    compiler: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a build or a check found: names of outputs, each list sorted."""

    fresh: list[str]
    stale: list[str]
    missing: list[str]
    surplus: list[str]

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.stale or self.missing or self.surplus)


@dataclass(frozen=True, slots=True)
class ShaderBuild:
    """Where the sources are and where the outputs go.

    Attributes:
        sources: the folder of the .comp files; its subfolder `include` is searched for includes.
        outputs: the folder of the .spv files and the manifest.
        table: what to build.
    """

    sources: Path
    outputs: Path
    table: Sequence[Variant]

    def check(self) -> Report:
        """What is fresh, and what is not.

        Raises:
            CompileError, OSError: a source cannot be assembled or read.
        """
        manifest = self._manifest()
        groups: dict[str, list[str]] = {"fresh": [], "stale": [], "missing": []}
        for variant in sorted(self.table, key=lambda row: row.name):
            groups[self._state(variant, manifest.get(variant.name))].append(variant.name)
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
        """Compile what is not fresh (with `force`, everything), delete what is surplus; the state found before.

        Outputs are replaced whole, and one that fails stays as it was. `validate` runs spirv-val where it is installed.

        Raises:
            CompileError: the errors of all shaders that fail; the others are built.
            NoCompiler: something is to be compiled, and there is no compiler.
        """
        report = self.check()
        todo = [row for row in self.table if force or row.name not in report.fresh]
        entries = {name: entry for name, entry in self._manifest().items() if name in report.fresh}
        errors: list[CompileError] = []
        if todo:
            self.outputs.mkdir(parents=True, exist_ok=True)
            tool = chain.find(compiler)
            made_by = tool.version()
            with ThreadPoolExecutor(n_jobs) as pool:
                results = pool.map(lambda row: self._attempt(row, tool, made_by, validate), todo)
            for row, result in zip(todo, results, strict=True):
                if isinstance(result, Entry):
                    entries[row.name] = result
                    say(f"compiled {row.name}")
                else:
                    errors.append(result)
        for path in self._surplus():
            path.unlink()
        if todo or report.surplus:
            self._write_manifest(entries)
        if errors:
            raise CompileError("\n\n".join(dict.fromkeys(map(str, errors))))
        return report

    def _attempt(self, variant: Variant, tool: chain.Compiler, made_by: str, validate: bool) -> Entry | CompileError:
        try:
            return self._compile(variant, tool, made_by, validate)
        except CompileError as error:
            return error

    def _compile(self, variant: Variant, tool: chain.Compiler, made_by: str, validate: bool) -> Entry:
        unit = self._unit(variant)
        spirv = chain.compile_unit(unit, tool, variant.target, optimize=False)
        if validate:
            _validate(variant, spirv)
        disk.write_atomic(self._output(variant), spirv)
        defines = {name: str(value) for name, value in variant.defines.items()}
        digest = hashlib.sha256(spirv).hexdigest()
        return Entry(variant.source, _hash(unit), defines, variant.target, made_by, digest)

    def _state(self, variant: Variant, entry: Entry | None) -> str:
        output = self._output(variant)
        if not output.is_file():
            return "missing"
        if entry is None or entry.target != variant.target or entry.source_sha256 != _hash(self._unit(variant)):
            return "stale"
        return "fresh" if entry.sha256 == hashlib.sha256(output.read_bytes()).hexdigest() else "stale"

    def _unit(self, variant: Variant) -> Unit:
        path = self.sources / variant.source
        return assemble(read(path), str(self.sources), variant.defines, [str(self.sources / "include")])

    def _output(self, variant: Variant) -> Path:
        return self.outputs / f"{variant.name}.spv"

    def _surplus(self) -> list[Path]:
        wanted = {MANIFEST, *(self._output(row).name for row in self.table)}
        here = self.outputs.iterdir() if self.outputs.is_dir() else ()
        return sorted(path for path in here if path.name not in wanted and path.is_file())

    def _manifest(self) -> dict[str, Entry]:
        """What the manifest says; nothing if it is absent or not of this shape."""
        try:
            stored = json.loads((self.outputs / MANIFEST).read_text(encoding="utf-8"))
            return {name: Entry(**fields) for name, fields in stored.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _write_manifest(self, entries: dict[str, Entry]) -> None:
        stored = {name: asdict(entries[name]) for name in sorted(entries)}
        text = json.dumps(stored, indent=1, sort_keys=True) + "\n"
        disk.write_atomic(self.outputs / MANIFEST, text.encode())


def _hash(unit: Unit) -> str:
    return hashlib.sha256(unit.text.encode()).hexdigest()


def _validate(variant: Variant, spirv: bytes) -> None:
    tool = shutil.which("spirv-val")
    if tool is None:
        return
    with tempfile.TemporaryDirectory(prefix="vkcompute-") as folder:
        path = Path(folder, "out.spv")
        path.write_bytes(spirv)
        status, log = programs.run([tool, "--target-env", variant.target, str(path)])
    if status != 0:
        raise CompileError(
            f"{variant.name}: spirv-val rejects what the compiler made of {variant.source}: {log.strip()}"
        )
