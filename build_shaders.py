"""Compile the library's own shaders: `shaders/` to `vkcompute/_spv/`.

python build_shaders.py            compile missing and stale outputs
python build_shaders.py --check    list missing, stale and surplus outputs; exit with 1 if there are any

A manifest beside the outputs records their inputs. An output is fresh if its content, its target and the hash of its
preprocessed source match the manifest. The manifest records the compiler too, but it does not count: a wheel can be
built from an sdist without any compiler.

spirv-opt is not run: it saves no time on lavapipe or SwiftShader, and the output would depend on the version installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent

# Import the compilers without running `vkcompute/__init__.py`: a wheel is built in an environment without numpy and
# vulkan, and they need neither.
_package = types.ModuleType("vkcompute")
_package.__path__ = [str(ROOT / "vkcompute")]
sys.modules.setdefault("vkcompute", _package)

from vkcompute import disk  # noqa: E402
from vkcompute.compilers import discovery  # noqa: E402
from vkcompute.compilers.command_line import run  # noqa: E402
from vkcompute.compilers.compilation import compile_unit  # noqa: E402
from vkcompute.compilers.compiler import Compiler  # noqa: E402
from vkcompute.compilers.preprocessor import TranslationUnit, preprocess, read  # noqa: E402
from vkcompute.errors import CompileError, VkComputeError  # noqa: E402

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class BuiltInShader:
    """One row.

    Attributes:
        name: of the output, `_spv/NAME.spv`.
        source: a file in `shaders/`.
        defines: preprocessor names -> values.
        target: the Vulkan version to compile for.
    """

    name: str
    source: str
    defines: Mapping[str, str | int] = field(default_factory=dict)
    target: str = "vulkan1.1"


# The values of ELEMENT in multiply.comp.
_ELEMENTS = {"bool": 1, **{f"uint{n}": n for n in (8, 16, 32, 64)}, **{f"float{n}": 100 + n for n in (16, 32, 64)}}

BUILT_IN_SHADERS: tuple[BuiltInShader, ...] = (
    *(BuiltInShader(f"multiply_{name}", "multiply.comp", {"ELEMENT": n}) for name, n in _ELEMENTS.items()),
    # For devices that load texels faster than storage buffers.
    *(
        BuiltInShader(f"multiply_{name}_texels{bits}", "multiply.comp", {"ELEMENT": n, "TEXELS": bits})
        for name, n in _ELEMENTS.items()
        for bits in (32, 64)
    ),
    *(
        BuiltInShader(f"logistic_{stage}", f"logistic_{stage}.comp")
        for stage in ("narrow", "forward", "residual", "gradient", "wide_update", "wide_finish")
    ),
)


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
        invalid = _validation_error(spirv, shader.target) if validate else ""
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


def _validation_error(spirv: bytes, target: str) -> str:
    """The error that spirv-val reports for `spirv`; empty if it reports none or is not installed."""
    tool = shutil.which("spirv-val")
    if tool is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="vkcompute-") as folder:
        path = Path(folder, "out.spv")
        path.write_bytes(spirv)
        status, log = run([tool, "--target-env", target, str(path)])
    return (log.strip() or f"exit status {status}") if status != 0 else ""


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compile shaders/*.comp to vkcompute/_spv/*.spv.")
    parser.add_argument("--check", action="store_true", help="list stale, missing and surplus outputs; exit 1 if any")
    parser.add_argument("--force", action="store_true", help="compile everything, fresh outputs too")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, metavar="N", help="compile N at a time")
    parser.add_argument(
        "--validate",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="check the outputs with spirv-val, if installed",
    )
    parser.add_argument("--compiler", metavar="PATH", help="glslc, glslangValidator or a shaderc library")
    arguments = parser.parse_args(argv)
    if arguments.j < 1:
        parser.error(f"-j is at least 1; got {arguments.j}")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Build or check; returns the exit status."""
    arguments = _arguments(argv)
    build = ShaderBuild(ROOT / "shaders", ROOT / "vkcompute" / "_spv", BUILT_IN_SHADERS)
    try:
        if arguments.check:
            report = build.check()
            for state in ("missing", "stale", "surplus"):
                for name in getattr(report, state):
                    print(f"{state}: {name}")
            return 0 if report.is_complete else 1
        report = build.run(
            force=arguments.force,
            n_jobs=arguments.j,
            validate=arguments.validate,
            compiler=arguments.compiler,
            say=print,
        )
    except (VkComputeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(BUILT_IN_SHADERS)} shaders are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
