"""Build the site into build/site: execute the tutorials, write the API pages, check links and names.

Usage: build_docs.py [--external]

Warnings are errors. Links within the site are checked by the build; --external also checks those to other sites, which
needs a network. Uses the first device, or lavapipe if it is installed, so that pictures do not depend on the machine.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

import drivers
from report import SetupError, say

ROOT = Path(__file__).resolve().parent.parent
DOCS, SITE, DOCTREES = ROOT / "docs", ROOT / "build" / "site", ROOT / "build" / "doctrees"
_NOISE = "[IPKernelApp] WARNING", "# 20"  # Jupyter's, for each notebook


def sphinx(builder: str, target: Path, environ: dict[str, str]) -> None:
    """Run a builder of Sphinx. Raises SetupError if it warns."""
    words = ["-W", "--keep-going", "-q", "-j", "auto", "-b", builder, "-d", str(DOCTREES), str(DOCS), str(target)]
    command = [sys.executable, "-m", "sphinx", *words]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line and not line.startswith(_NOISE)]
    print("\n".join(said), flush=True)
    if done.returncode:
        raise SetupError(f"Sphinx's builder {builder} found what is listed above")


def names_in(site: Path) -> set[str]:
    """The names that the site documents, by its inventory (Sphinx's objects.inv, version 2)."""
    head, _, rest = (site / "objects.inv").read_bytes().partition(b"zlib.\n")
    if not head.startswith(b"# Sphinx inventory version 2"):
        raise SetupError("objects.inv has another format")
    lines = zlib.decompress(rest).decode().splitlines()
    return {line.split(" ", 1)[0] for line in lines if " py:" in line}


def missing_names(site: Path) -> list[str]:
    """The public names that the site does not document."""
    sys.path[:0] = [str(ROOT), str(DOCS)]
    reference = importlib.import_module("reference")
    public = {f"{module}.{name}" for module in reference.PUBLIC_MODULES for name in reference.public_names(module)}
    return sorted(public - names_in(site))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--external", action="store_true", help="also check links to other sites")
    options = parser.parse_args()
    manifest = drivers.lavapipe()
    environ = drivers.only(str(manifest)) if manifest else dict(os.environ)
    environ |= {"VKCOMPUTE_DEVICE": "", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    start = time.monotonic()
    try:
        shutil.rmtree(SITE, ignore_errors=True)
        sphinx("html", SITE, environ)
        if absent := missing_names(SITE):
            raise SetupError(f"public names without an entry on a page: {', '.join(absent)}")
        if options.external:
            sphinx("linkcheck", ROOT / "build" / "links", environ)
    except SetupError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    say(f"built {SITE.relative_to(ROOT)}/index.html in {time.monotonic() - start:.0f} s, without warnings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
