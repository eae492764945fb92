"""Import components in another process, and report those that can't be imported. Light.

The process imports one target after another and reports each. If a target ends the process or
exceeds the time limit, another process imports the targets after it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from rlcore.checks.doctor_rows import Row, row
from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.errors import UserError
from rlcore.plugins import extras
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Component
from rlcore.plugins.trial_import import describe_end

SECONDS = 300.0
"""Time limit of one import; tensor libraries and simulators take half a minute from a cold disk."""
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    "from rlcore.checks.component_imports import import_and_report\n"
    "import_and_report(json.loads(sys.argv[2]), float(sys.argv[3]))"
)


def import_rows(components: Sequence[Component], limit: float = SECONDS) -> Iterator[Row]:
    """Yield a row for each component that can't be imported, or one "ok" if all can be.

    A component whose optional packages are not installed is skipped: a run that chooses it names
    them.

    Args:
        limit: time limit of one import in seconds.
    """
    complete = [part for part in components if not extras.lacking(part.spec.packages)]
    targets = sorted({target for part in complete for target in _targets(part.spec)})
    faults, untried = _faults(targets, limit)
    for part in complete:
        fault = next((faults[target] for target in _targets(part.spec) if target in faults), None)
        if fault is not None:
            fix = f"pip install --force-reinstall {part.distribution}; rlcore check {part.plugin}"
            yield row(f"{part.spec.kind} {part.spec.name}", fault, "missing", fix)
    if untried:
        fix = f"{sys.executable} -c 'import rlcore.checks.component_imports' shows why"
        yield row("components", untried, "missing", fix)
    elif not faults:
        yield row("components", f"{len(complete)} can be imported")


def import_and_report(targets: Sequence[str], limit: float) -> None:
    """Import targets, and print a line of JSON before and after each. Entry point of the process.

    What the modules themselves print is discarded.

    Args:
        targets: the targets, "module:attr".
        limit: time limit of one import in seconds, after which the process ends.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with os.fdopen(os.dup(1), "w", buffering=1) as reports:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        for target in targets:
            print(json.dumps([target]), file=reports)
            faulthandler.dump_traceback_later(limit, exit=True)
            try:
                load_target(target)
                fault = None
            except UserError as error:
                fault = error.message.partition("\n")[0]  # a row is a line: no traceback
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps([target, fault]), file=reports)
    os._exit(0)  # threads and exit handlers of libraries could delay it


def _targets(spec: ComponentSpec) -> list[str]:
    """Return what rlcore loads of a component, with what an env or a model computes with last."""
    return [target for target in (spec.config, spec.spec, spec.target) if target]


def _faults(targets: Sequence[str], limit: float) -> tuple[dict[str, str], str]:
    """Return why targets can't be imported, by target, and why some were not tried, or ""."""
    faults: dict[str, str] = {}
    while targets:
        command = [sys.executable, "-I", "-c", _CHILD]
        arguments = [json.dumps(sys.path), json.dumps(targets), str(limit)]
        process = subprocess.run(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        reports = [json.loads(line) for line in process.stdout.splitlines()]
        faults |= {report[0]: report[1] for report in reports if len(report) > 1 and report[1]}
        if not reports:
            end = describe_end(process.returncode)
            return faults, f"{targets[0]} is not tried: import rlcore {end} before"
        if len(reports[-1]) > 1:
            break  # all are imported
        ended = reports[-1][0]
        faults[ended] = f"{ended} {describe_end(process.returncode)} when it is imported"
        targets = targets[targets.index(ended) + 1 :]
    return faults, ""
