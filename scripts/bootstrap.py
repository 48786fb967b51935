"""Install the requirements of a Makefile goal, and print a line per step.

Usage: bootstrap.py {lint,demo,test,bench,docs} [--dry-run]. Uses only the standard library.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import drivers
import environment
import packages
from probe import probe
from report import SetupError, run_quietly, say

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"


@dataclass(frozen=True)
class Need:
    """A system requirement: a description, a test for it, and the Debian packages that provide it."""

    description: str
    met: Callable[[], bool]
    packages: tuple[str, ...]


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in ("glslangValidator", "glslang", "glslc"))


def _has_lavapipe() -> bool:
    manifest = drivers.lavapipe()
    return manifest is not None and bool(probe(drivers.only(str(manifest))).usable)


VENV = Need("a Python that can create virtual environments", environment.can_create, environment.packages())
COMPILER = Need("a GLSL compiler", _has_compiler, ("glslang-tools",))
LOADER = Need("a Vulkan loader", lambda: probe().loader, ("libvulkan1",))
DEVICE = Need("a Vulkan 1.2 device", lambda: bool(probe().usable), ("libvulkan1", "mesa-vulkan-drivers"))
LAVAPIPE = Need("the lavapipe driver", _has_lavapipe, ("libvulkan1", "mesa-vulkan-drivers"))
LAYER = Need("the validation layer", lambda: VALIDATION_LAYER in probe().layers, ("vulkan-validationlayers",))
SPIRV_TOOLS = Need("the SPIR-V tools", lambda: shutil.which("spirv-val") is not None, ("spirv-tools",))

# Per goal: system requirements, and extras of pyproject.toml. The installation compiles the shaders.
GOALS: dict[str, tuple[tuple[Need, ...], tuple[str, ...]]] = {
    "lint": ((VENV, COMPILER), ("cli", "dev", "ml", "plot")),
    "demo": ((VENV, COMPILER, LOADER, DEVICE), ("cli", "ml", "plot")),
    "test": ((VENV, COMPILER, LOADER, LAVAPIPE, LAYER, SPIRV_TOOLS), ("cli", "dev", "ml", "plot")),
    "bench": ((VENV, COMPILER, LOADER, DEVICE), ("cli", "ml", "plot")),
    "docs": ((VENV, COMPILER, LOADER, LAVAPIPE), ("docs", "plot")),
}


def unmet(needs: tuple[Need, ...]) -> list[Need]:
    """The requirements that this machine does not meet."""
    return [need for need in needs if not need.met()]


def package_names(needs: list[Need]) -> list[str]:
    """The packages of `needs` in order, without duplicates."""
    return list(dict.fromkeys(name for need in needs for name in need.packages))


def ensure_system(needs: tuple[Need, ...]) -> None:
    """Install the missing requirements.

    The loader is installed first: with it, a real GPU's driver may be found, and Mesa's driver is not needed.
    Raises SetupError if something is still missing afterwards.
    """
    able = packages.has_apt() and packages.admin_prefix() is not None
    for group in ((LOADER,) if able and LOADER in needs else (), needs):
        missing = unmet(group)
        if missing:
            say(f"missing: {', '.join(need.description for need in missing)}")
            packages.install(package_names(missing))
    still = unmet(needs)
    if still:
        error = probe().error
        raise SetupError(
            f"still missing after the installation: {', '.join(need.description for need in still)}"
            + (f" ({error}; is VK_ICD_FILENAMES or VK_DRIVER_FILES set?)" if error else "")
        )


def ensure_swiftshader() -> None:
    """Download SwiftShader if it is missing. On failure, print a warning: the tests then run on lavapipe only."""
    if drivers.swiftshader() is None:
        problem = drivers.fetch_swiftshader()
        if problem:
            say(f"WARNING: the tests will not run on SwiftShader. {problem}")


def ensure_shaders() -> None:
    """Build the shaders if one is missing or stale."""
    if run_quietly([str(environment.PYTHON), "build_shaders.py", "--check"], cwd=environment.ROOT) is not None:
        say("building the shaders")
        environment.run("build_shaders.py")


def plan(goal: str) -> None:
    """Print the missing requirements of `goal`, without changes."""
    missing = unmet(GOALS[goal][0])
    for need in missing:
        say(f"missing: {need.description} ({' '.join(need.packages)})")
    if missing:
        say(f"would run: {packages.command_for(package_names(missing))}")
    say(f"would install into .venv: vkcompute[{','.join(GOALS[goal][1])}]")
    if goal == "test" and drivers.swiftshader() is None:
        say(f"would unpack SwiftShader from {drivers.SWIFTSHADER_PACKAGE} into .drivers/")


def prepare(goal: str) -> None:
    """Install all requirements of `goal`."""
    needs, extras = GOALS[goal]
    ensure_system(needs)
    environment.ensure(extras)
    if goal == "test":
        ensure_swiftshader()
    if goal != "lint":
        ensure_shaders()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("goal", choices=GOALS)
    parser.add_argument("--dry-run", action="store_true", help="only print missing requirements")
    options = parser.parse_args()
    start = time.monotonic()
    try:
        if options.dry_run:
            plan(options.goal)
        else:
            prepare(options.goal)
            say(f"ready for {options.goal} after {time.monotonic() - start:.1f} s")
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
