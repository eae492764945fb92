"""What dies, hangs or fails during a real training run, and what becomes of the run.

    python benchmarks/faults.py [--quick] [--json PATH] [--markdown PATH] [--start FOLDER] [ROW ...]

Each row is `rlcore train experiment=quickstart_ppo` cut short, struck from outside in its third
update, and, where that ends it, `rlcore resume`. See docs/faults.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parts.command import Command
from parts.machine import Machine
from parts.outcome import success
from parts.rows import ROWS
from parts.strike import QUICKSTART, TOY, Result, Trial

from rlcore.placement import Inventory

START = (
    "collect.episodes_per_task=4",
    "sft.max_steps=300",
    "env.eval.trials_per_task=4",
    "env.eval.total_num_envs=8",
    "env.eval.video_cfg.save_video=false",
)
MEANING = "What a row does: [benchmarks](../benchmarks.md#faults)."
LONGEST = 1800.0  # seconds for a run that nothing disturbs


def main() -> int:
    """Run the rows and print the table; 1 if one did not go as docs/faults.md promises."""
    options = _arguments()
    machine = Machine.this(Inventory.local().nodes[0].cpus)
    results: dict[str, Result] = {}
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        work = Path(folder)
        trial = Trial(work, TOY if options.quick else quickstart(work, options.start))
        _say("undisturbed: the run all others are compared with")
        trial.undisturbed(LONGEST)
        whole = success(trial.whole)
        for name in options.rows or _rows(options.quick):
            _say(f"{name}: {ROWS[name].what}")
            try:
                results[name] = trial.run(ROWS[name])
            except RuntimeError as error:  # what was waited for never came; the others may do
                failed.append(name)
                _say(f"    FAILED: {error}")
                continue
            _say(f"    {results[name].verdict}")
            table = lines(list(results.values()), whole)
            if options.markdown is not None:  # anew after each row: a later one may take long
                page = [*_head(machine), *table]
                options.markdown.write_text("\n".join(page) + "\n", encoding="utf-8")
            if options.json is not None:
                text = json.dumps(_figures(options, machine, whole, results), indent=1)
                options.json.write_text(text + "\n", encoding="utf-8")
    print("\n".join([*machine.lines(), "", *lines(list(results.values()), whole)]))
    if failed:
        print(f"no figures of: {', '.join(failed)}")
    return int(bool(failed) or any(result.broken for result in results.values()))


def _head(machine: Machine) -> list[str]:
    """The beginning of the page of results."""
    command = " ".join(["python", "benchmarks/faults.py", *sys.argv[1:]])
    facts = [f"* {line}" for line in [f"commit {_commit()}", *machine.lines()]]
    return ["# Faults", "", "```", command, "```", "", *facts, "", MEANING, ""]


def _figures(
    options: Any, machine: Machine, whole: float, results: dict[str, Result]
) -> dict[str, Any]:
    return {
        "commit": _commit(),
        "quick": options.quick,
        "machine": asdict(machine),
        "success_undisturbed": whole,
        "rows": {
            name: asdict(result) | {"verdict": result.verdict} for name, result in results.items()
        },
    }


def quickstart(work: Path, start: Path | None) -> tuple[str, ...]:
    """quickstart_ppo cut short, from a policy that there is or one made here."""
    policy = start or make_start(work)
    return (*QUICKSTART, f"actor.model.model_path={policy.absolute()}")


def make_start(work: Path) -> Path:
    """quickstart_ppo's policy after a short supervised training."""
    _say("a start: demonstrations, supervised training")
    words = ["sft", "experiment=quickstart_ppo", *START]
    folder = work / "start"
    names = [f"runner.logger.log_path={work}", "runner.logger.experiment_name=start"]
    command = Command([*words, *names], folder, {})
    try:
        if command.wait(LONGEST) != 0:
            raise RuntimeError("".join(command.err))
    finally:
        command.end()
    return folder / "sft"


def lines(results: Sequence[Result], whole: float) -> list[str]:
    """The table, in Markdown."""
    head = (
        "struck", "what happened", "exit code", "seconds", "seconds to resume", "evaluation",
        "equal to undisturbed", "errors, noise", "processes left after 10 s, 60 s",
        "shared memory, partial files left",
    )  # fmt: skip
    rows = [["nothing", "", "0", "", "", f"{whole:.3f}", "", "", "", ""]]
    rows += [_cells(result) for result in results]
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def _cells(result: Result) -> list[str]:
    left = result.leftovers
    seconds = "" if result.resumed_after is None else f"{result.resumed_after:.1f}"
    alive = ", ".join(map(str, left.alive))
    if any(left.alive) and left.gone_after is not None:
        alive += f" (all gone after {left.gone_after:.0f} s)"
    return [
        result.what,
        result.happened.replace("|", r"\|"),
        str(result.exit_code),
        f"{result.seconds:.1f}",
        seconds,
        "none" if result.success is None else f"{result.success:.3f}",
        "bitwise" if not result.differences else "no: " + ", ".join(result.differences),
        f"{len(result.errors)}, {len(result.noise)}",
        alive,
        f"{len(left.shared_memory)}, {len(left.partial)}",
    ]


def _rows(quick: bool) -> list[str]:
    return [name for name, row in ROWS.items() if not (quick and row.simulators)]


def _commit() -> str:
    git = shutil.which("git")
    here = Path(__file__).parent
    command = [git or "git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; else all")
    parser.add_argument(
        "--quick", action="store_true", help="does it run? with toys: seconds mean nothing"
    )
    parser.add_argument("--start", type=Path, help="policy to start from; else one is trained")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--markdown", type=Path, help="write a page of results here")
    options = parser.parse_args()
    for name in options.rows:
        if name not in _rows(options.quick):
            parser.error(f"no row {name!r}; choose from {', '.join(_rows(options.quick))}")
    return options


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that runs are ended with us
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(main())
