"""Measure what docs/benchmarks.md shows, and write its table anew.

    python benchmarks/bench.py [--quick] [--only PART ...] [--page PATH]

Each part is a benchmark of this folder, run as a process of its own, one after another; together
they take about 20 minutes. A part that fails is named in the table, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parts.machine import Machine

from rlcore.placement import Inventory

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "benchmarks.md"
BEGIN = "<!-- measured: begin -->"
END = "<!-- measured: end -->"
VERSIONS = ("mani-skill", "metaworld", "mujoco", "numpy", "ray", "robosuite", "sapien", "torch")


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        title: what was measured.
        ours, peer: figures with units.
        peer_name: what ours is compared with.
        ratio: ours to the peer's, or the reverse where less is better.
        aim: what the ratio should be.
    """

    title: str
    ours: str
    peer: str
    peer_name: str
    ratio: float
    aim: str

    def markdown(self) -> str:
        cells = (
            self.title,
            self.ours,
            f"{self.peer_name}: {self.peer}",
            f"**{self.ratio:.2f}**",
            self.aim,
        )
        return f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class Part:
    """A benchmark and the rows that its figures give.

    Attributes:
        words: script of this folder and its arguments.
        rows: from its JSON to rows.
        quick: arguments that show whether it runs.
    """

    words: tuple[str, ...]
    rows: Callable[[Mapping[str, Any]], list[Row]]
    quick: tuple[str, ...] = ("--quick",)


def rollout_rows(figures: Mapping[str, Any]) -> list[Row]:
    speeds = figures["env_steps_per_second"]
    ratios = figures["ratios"]
    title = "rollout of `quickstart_ppo`, random weights"
    ours = f"{speeds['ours']:.0f} env steps/s"
    bound = f"{speeds['bound']:.0f}"
    peer = f"{speeds['peer']:.0f}"
    return [
        Row(title, ours, bound, "every core does useful work", ratios["ours/bound"], ">= 0.85"),
        Row(title, ours, peer, "gymnasium's AsyncVectorEnv", ratios["ours/peer"], ">= 15"),
    ]


def update_rows(figures: Mapping[str, Any]) -> list[Row]:
    return [
        Row(
            "PPO's update, `pi0_tiny`, one thread",
            f"{figures['ours']:.2f} CPU s",
            f"{figures['bare']:.2f} CPU s",
            "a bare PyTorch loop",
            figures["ratios"]["ours/bare"],
            "<= 1.05",
        )
    ]


def ways_rows(figures: Mapping[str, Any]) -> list[Row]:
    ours, *habits = figures["costs"]
    seconds = {name: cost["rollout"] + cost["update"] for name, cost in figures["costs"].items()}
    return [
        Row(
            "a rollout and an update of `quickstart_ppo`",
            f"{seconds[ours]:.1f} CPU s",
            f"{seconds[habit]:.1f} CPU s",
            f"RLinf's way, {habit}",
            figures["ratios"]["cpu"][habit],
            ">= 3" if habit == habits[-1] else "",
        )
        for habit in habits
    ]


def libero_rows(figures: Mapping[str, Any]) -> list[Row]:
    return [
        Row(
            "LIBERO's vector env, two cameras, 128 px",
            f"{figures['ours']['per_second']:.1f} env steps/s",
            f"{figures['peer']['per_second']:.1f}",
            "AsyncVectorEnv over LIBERO's own env",
            figures["ratio"],
            ">= 3",
        )
    ]


def maniskill_rows(figures: Mapping[str, Any]) -> list[Row]:
    return [
        Row(
            "ManiSkill's vector env on CPUs, PushCube, 224 px",
            f"{figures['ours']:.1f} env steps/s",
            f"{figures['peer']:.1f}",
            "AsyncVectorEnv over ManiSkill's own env",
            figures["ratio"],
            ">= 3",
        )
    ]


def serve_rows(figures: Mapping[str, Any]) -> list[Row]:
    cost = figures["milliseconds"]
    return [
        Row(
            "a request to `rlcore serve`, `pi0_small`, one thread",
            f"{cost['served']:.1f} CPU ms",
            f"{cost['direct']:.1f} CPU ms",
            "the same policy called directly",
            cost["served"] / cost["direct"],
            "<= 1.05",
        )
    ]


PARTS = {
    "rollout": Part(("rollout.py",), rollout_rows),
    "update": Part(("update.py",), update_rows),
    "ways": Part(("ways.py", "--repeats", "1"), ways_rows),
    "libero": Part(("env_libero.py", "--stand-ins", "--envs", "2"), libero_rows),
    "maniskill": Part(("env_maniskill.py",), maniskill_rows),
    "serve": Part(
        ("serve.py", "--threads", "1"), serve_rows, ("--model", "pi0_tiny", "--requests", "2")
    ),
}


def run_part(part: Part, quick: bool) -> list[Row]:
    """Run a part.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="rlcore-bench-") as folder:
        out = Path(folder) / "figures.json"
        script, *words = part.words
        command = [sys.executable, str(FOLDER / script), *words, *(part.quick if quick else ())]
        subprocess.run([*command, "--json", str(out)], check=True, stdin=subprocess.DEVNULL)
        return part.rows(json.loads(out.read_text(encoding="utf-8")))


def table(machine: Machine, rows: list[str]) -> str:
    """Return the text between the page's two markers."""
    versions = ", ".join(
        f"{name} {machine.versions[name]}" for name in VERSIONS if name in machine.versions
    )
    date = datetime.now(UTC).date().isoformat()
    return "\n".join(
        [
            BEGIN,
            "",
            f"`make bench` on {date}: {machine.cpu}, {machine.cores} cores,"
            f" {machine.memory_gib} GiB, load {machine.load} before the start,"
            f" Python {machine.python}, {versions}.",
            "",
            "| what | rlcore | compared with | ratio | aim |",
            "|---|---|---|---|---|",
            *rows,
            "",
            END,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="does it run? figures mean nothing")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument(
        "--page",
        type=Path,
        help="page whose table is replaced; default: docs/benchmarks.md, if all parts run",
    )
    options = parser.parse_args()
    machine = Machine.this(sum(node.cpus for node in Inventory.local().nodes))
    rows = []
    failed = []
    for name in options.only:
        print(f"== {name}", flush=True)
        try:
            rows += [row.markdown() for row in run_part(PARTS[name], options.quick)]
        except (subprocess.CalledProcessError, OSError, ValueError, KeyError) as error:
            failed.append(name)
            rows.append(f"| {name} | failed: {type(error).__name__} | | | |")
            print(f"{name}: {error}", file=sys.stderr)
    whole = options.only == list(PARTS) and not options.quick
    page = options.page or (PAGE if whole else None)
    measured = table(machine, rows)
    if page is None:
        print(measured)
    else:
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{measured}{after}", encoding="utf-8")
        print(f"written to {page}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
