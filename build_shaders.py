"""Compile the shaders in `shaders/` to `vkcompute/_spv/`, as `vkcompute/compilers/builtin_shaders.py` lists them.

python build_shaders.py            compile missing and stale outputs
python build_shaders.py --check    list missing, stale and surplus outputs; exit with 1 if there are any
"""

from __future__ import annotations

import argparse
import os
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def _import_without_dependencies() -> None:
    """Make `vkcompute.*` importable without running `vkcompute/__init__.py`.

    A wheel is built in an environment without numpy and vulkan; the compiler modules need neither.
    """
    package = types.ModuleType("vkcompute")
    package.__path__ = [str(ROOT / "vkcompute")]
    sys.modules.setdefault("vkcompute", package)


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
    _import_without_dependencies()
    from vkcompute.compilers.build import ShaderBuild
    from vkcompute.compilers.builtin_shaders import BUILT_IN_SHADERS
    from vkcompute.errors import VkComputeError

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
