"""`vkcompute doctor`: checks everything that a launch depends on, from the loader to results on each device."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict

from vkcompute.cli import terminal
from vkcompute.cli.checkup import CHECKS, FAILED, Finding, device_listing
from vkcompute.cli.options import Commands, Parser
from vkcompute.cli.stderr import BAD_INPUT, one_line

_MARK_COLUMNS, _SUBJECT_COLUMNS = 7, 15


def add_parser(commands: Commands) -> None:
    """Adds the command's parser."""
    text = (
        "Checks packages, the Vulkan loader, driver manifests, permissions and devices, computes on each device and "
        "compares with NumPy. Each failure has a remedy."
    )
    parser: Parser = commands.add_parser("doctor", help="find out why something does not work", description=text)
    parser.add_argument("--json", action="store_true", help="write the findings as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command. Returns 0 if nothing has failed."""
    findings = []
    device_listing.cache_clear()
    for check in CHECKS:
        for finding in _outcomes(check):
            findings.append(finding)
            if not args.json:
                _write(finding)
    n_failed = Counter(finding.mark for finding in findings)[FAILED]
    if args.json:
        terminal.write(
            json.dumps({"works": not n_failed, "findings": [asdict(finding) for finding in findings]}, indent=2)
        )
    else:
        failed = f"{terminal.count(n_failed, 'check')} failed; the remedies are above."
        terminal.write(f"\n{failed if n_failed else 'Whew. That worked.'}")
    return BAD_INPUT if n_failed else 0


def _outcomes(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yields the findings of a check; one that cannot go on has failed, and the others follow."""
    try:
        yield from check()
    except OSError as error:
        yield Finding(FAILED, check.__name__, str(error), "correct the access to what this names")
    except Exception as error:
        text = f"the check itself fails: {type(error).__name__}: {error}"
        yield Finding(FAILED, check.__name__, text, "report it with the output of `vkcompute doctor --json`")


def _write(finding: Finding) -> None:
    """Prints a finding on one line, which can be searched and pasted, and its remedy on another."""
    subject = f"{one_line(finding.subject):{_SUBJECT_COLUMNS}}"
    terminal.write(f"{finding.mark:{_MARK_COLUMNS}}{subject} {one_line(finding.text)}")
    if finding.remedy:
        terminal.write(f"{'':{_MARK_COLUMNS}}{'remedy:':{_SUBJECT_COLUMNS}} {one_line(finding.remedy)}")
