"""Measure the GPU paths on one accelerator in ten minutes.

    python benchmarks/gpu.py [PART ...] [--json FILE] [--wheels FOLDER]   all parts, or some
    python benchmarks/gpu.py --list                                       the rows and their time
    python benchmarks/gpu.py --quick [PART ...]                           does it run? on CPUs
    python benchmarks/gpu.py --gather FOLDER [--for-python 3.12]          wheels for a bare machine
    python benchmarks/gpu.py --page docs/hardware.md [--json FILE]        write the page

It needs the source tree and a torch with CUDA. docs/hardware.md says more.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

from parts.gpu.driver import FINE, Driver, Limits
from parts.gpu.record import Record, read_record
from parts.gpu.row_process import BREAKS
from parts.gpu.rows import MACHINE, PARTS, Row, chosen, schedule

BENCHMARKS = Path(__file__).resolve().parent
DEFAULT = Path("gpu.json")
SMALLEST = (3, 10)


def main() -> int:
    """Do what the command line asks; the exit code is 1 if a row went wrong, 2 for a mistake."""
    options = _arguments()
    if options.gather is not None:
        return _gather(options)
    if options.page is not None:
        return _page(options)
    try:
        rows = chosen(options.parts, options.quick)
    except ValueError as error:
        _refuse(str(error))
    if options.list:
        print("\n".join(schedule(rows, options.limit)))
        return 0
    return _measure(options, rows)


def _measure(options: argparse.Namespace, rows: list[Row]) -> int:
    from parts.gpu.tree import python_path

    record = _record(options)
    if record.unwritten:
        _refuse(record.unwritten, "name another place: --json FILE")
    with tempfile.TemporaryDirectory(prefix="rlcore-gpu-") as place:
        try:
            path = python_path(Path(place), options.wheels)
        except (ValueError, OSError) as error:
            _refuse(str(error))
        environment = {
            "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), path]),
            "TMPDIR": place,
            "TOKENIZERS_PARALLELISM": "false",
        }
        if options.quick:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        driver = Driver(
            record,
            Limits(options.row_limit, options.limit),
            environment,
            quick=options.quick,
            breaks=dict(options.breaks),
            say=lambda line: print(line, flush=True),
        )
        signal.signal(signal.SIGTERM, _terminated)
        try:
            wrong = _run(options, driver, record, rows)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            wrong = 130
        return _told(options, record, wrong)


def _run(options: argparse.Namespace, driver: Driver, record: Record, rows: list[Row]) -> int:
    """Run what is not done yet; return the exit code."""
    for row in rows:
        kept = record.row(row.full_name)
        if kept is not None and kept["status"] == "done" and row.part != MACHINE:
            continue
        device = _device(record)
        kept = driver.run(row)
        if row.part != MACHINE:
            continue
        if kept["status"] != "done":
            for line in kept.get("output", ()):
                print(line, file=sys.stderr)
            _forget(options, record)
            _refuse(
                f"this Python can't tell what it runs on: {kept.get('why', kept['status'])}",
                "call it with the Python that has torch with CUDA",
            )
        found = kept["figures"][0]
        if not options.quick and not found["device"]:
            _forget(options, record)
            _refuse("torch finds no CUDA device", "does it run at all? gpu.py --quick")
        if device is not None and device != found["device"]:
            _refuse(
                f"the figures of {options.json} are of {device}, and this is {found['device']}",
                "name another file: --json FILE",
            )
    names = {row.full_name for row in rows}
    bad = [r for r in record.data["rows"] if r["row"] in names and r["status"] not in FINE]
    return 1 if bad else 0


def _forget(options: argparse.Namespace, record: Record) -> None:
    """Remove the file where nothing but the machine's row has been tried."""
    if all(row["row"].startswith(f"{MACHINE}/") for row in record.data["rows"]):
        options.json.unlink(missing_ok=True)


def _device(record: Record) -> str | None:
    """Return the device of figures that were there before; None: there were none."""
    kept = record.row(f"{MACHINE}/device")
    figures = kept["figures"] if kept else []
    return figures[0]["device"] if figures else None


def _record(options: argparse.Namespace) -> Record:
    """Begin the file, or go on with it."""
    if options.json.exists() and not options.go_on:
        _refuse(
            f"{options.json} exists, and its figures would be lost",
            "--continue keeps its finished rows; --json FILE names another file",
        )
    before: dict[str, Any] = {}
    if options.json.exists():
        try:
            before = read_record(options.json)
        except ValueError as error:
            _refuse(str(error), "name another file: --json FILE")
        if before["quick"] != options.quick:
            _refuse(f"{options.json} is of another form: --quick there and here must be equal")
    made = {
        "command": shlex.join(["python", "benchmarks/gpu.py", *_words_of_interest(options)]),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "quick": options.quick,
        "commit": _commit(),
        "rows": before.get("rows", []),
    }
    record = Record(options.json, made)
    record.write()
    return record


def _words_of_interest(options: argparse.Namespace) -> list[str]:
    """Return the arguments that decide what is measured."""
    return [*options.parts, *(["--quick"] if options.quick else [])]


def _told(options: argparse.Namespace, record: Record, code: int) -> int:
    """Write the file once more, and say where it is; where it can't be, print all figures."""
    record.write()
    if not record.unwritten:
        print(f"figures: {options.json}")
        return code
    import json

    print(f"error: {record.unwritten}; all figures follow on standard output", file=sys.stderr)
    print(json.dumps(record.data), flush=True)
    return code or 1


def _gather(options: argparse.Namespace) -> int:
    from parts.gpu.wheels import MOST, gather

    try:
        size = gather(options.gather, options.for_python)
    except (RuntimeError, OSError) as error:
        _refuse(str(error))
    print(f"{size / 2**20:.1f} MiB of wheels for Python {options.for_python} in {options.gather}")
    if size > MOST:
        print(f"error: that is more than {MOST / 2**20:.0f} MiB", file=sys.stderr)
        return 1
    return 0


def _page(options: argparse.Namespace) -> int:
    from parts.gpu.page import written_page

    try:
        measured = read_record(options.json) if options.json.exists() else None
        options.page.write_text(written_page(options.page, measured), encoding="utf-8")
    except (ValueError, OSError) as error:
        _refuse(str(error))
    return 0


def _commit() -> str | None:
    """Return the commit of the tree; None where it is no clone."""
    try:
        done = subprocess.run(
            ["git", "-C", str(BENCHMARKS), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _terminated(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _refuse(message: str, hint: str = "") -> NoReturn:
    """End with one error, and what to do."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    sys.exit(2)


def _broken(text: str) -> tuple[str, str]:
    name, _, how = text.partition("=")
    if how not in BREAKS:
        raise argparse.ArgumentTypeError(f"PART=HOW, where HOW is one of {', '.join(BREAKS)}")
    return name, how


def _arguments() -> argparse.Namespace:
    this = "{}.{}".format(*sys.version_info)
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="parts: " + "; ".join(f"{name}: {what}" for name, what in PARTS.items()),
    )
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help="parts, or rows as PART/NAME; none: all")
    add("--json", type=Path, default=DEFAULT, metavar="FILE", help="the figures (gpu.json)")
    add("--continue", dest="go_on", action="store_true", help="keep the file's finished rows")
    add("--wheels", type=Path, metavar="FOLDER", help="what --gather left; they come first")
    add("--quick", action="store_true", help="on CPUs and tiny networks: figures mean nothing")
    add("--list", action="store_true", help="print the rows and when they would run")
    add("--limit", type=float, default=600.0, help="seconds of the whole (600)")
    add("--row-limit", type=float, default=90.0, help="seconds of a row (90)")
    add("--gather", type=Path, metavar="FOLDER", help="download wheels for a bare machine")
    add("--for-python", default=this, metavar="VERSION", help=f"of that machine ({this})")
    add("--page", type=Path, metavar="FILE", help="write the page from --json and the planner")
    add("--break", dest="breaks", type=_broken, action="append", default=[], metavar="PART=HOW",
        help=f"make rows fail on purpose: {', '.join(BREAKS)}")  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    if sys.version_info < SMALLEST:
        _refuse("Python {}.{} or newer is needed".format(*SMALLEST))
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # while the temporary folder is removed: the figures are written
        sys.exit(130)
