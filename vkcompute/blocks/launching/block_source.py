"""The source of a block program for constants, from which it is compiled for the types of its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vkcompute.blocks.launching.arguments import Parameters
from vkcompute.blocks.launching.build import FOLDERS, BlockOptions, Built, build, lowered, specialize
from vkcompute.code_version import code_version
from vkcompute.compiled.launches import Compiled
from vkcompute.compiled.specialization import Specialization
from vkcompute.errors import MissingFeature
from vkcompute.frontend.source import Definition
from vkcompute.ir import Function
from vkcompute.ir.function import walk
from vkcompute.ir.types import element_of
from vkcompute.jit.compilation import fingerprint
from vkcompute.jit.compilation.fingerprint import PythonOrigin
from vkcompute.jit.compilation.missing_types import lacking_types, located


class BlockSource:
    """A block program for constants; a `Source`, whose keys are the types of the arguments and `BlockOptions`.

    Attributes:
        name: of the program.
        origin: its function, for the cache.
    """

    def __init__(self, definition: Definition, constants: Mapping[int, Any], parameters: Parameters) -> None:
        self._definition, self._constants, self._forms = definition, constants, parameters.forms
        self._has_complex = parameters.has_complex
        self.name, self.origin = parameters.name, PythonOrigin([definition.function])

    def specialize(self, signature: Sequence[tuple[int, Any]], options: BlockOptions) -> Specialization:
        """Compiles the program for types by the position of the argument."""
        return specialize(
            self._definition, self._constants, dict(signature), options, self._forms, has_complex=self._has_complex
        )

    def function(self, signature: Sequence[tuple[int, Any]], options: BlockOptions) -> Function:
        """Returns the optimized function that a program is lowered from."""
        built = self._built(signature, options)
        return lowered(self._definition, built, options).function

    def _built(self, signature: Sequence[tuple[int, Any]], options: BlockOptions | None = None) -> Built:
        return build(
            self._definition, self._constants, dict(signature), options, self._forms, has_complex=self._has_complex
        )

    def explained(self, missing: MissingFeature, *key: Any) -> MissingFeature:
        """Adds the first call that gives numbers of a missing type to an error, if there is one."""
        lacking = lacking_types(missing)
        built = self._built(key[0])
        for op in walk(built.compiler.function.body):
            if op.has_result and op.loc is not None and element_of(op.type).name in lacking:
                return located(missing, str(op.loc).replace("\0", f"this is {element_of(op.type)}"))
        return missing


def compiled_program(
    definition: Definition, constants: Mapping[int, Any], parameters: Parameters, *, is_internal: bool
) -> Compiled:
    """Returns a program for constants, whose texts are a part of the key on disk.

    Args:
        is_internal: as of `BlockLauncher`.
    """
    texts = [fingerprint.value(value) for value in constants.values()]
    text = None if None in texts else repr([*zip(constants, texts, strict=True)])
    called = [definition, *[getattr(value, "definition", None) for value in constants.values()]]
    version = code_version(*FOLDERS, *(_folders(called) if is_internal else ()))
    return Compiled(BlockSource(definition, constants, parameters), "blocks", version, text, repr(parameters.forms))


def _folders(called: Iterable[Any]) -> list[Path]:
    """Returns the folders with the functions of programs."""
    return [Path(program.function.__code__.co_filename).parent for program in called if program is not None]
