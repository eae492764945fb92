"""What grows with the number of machines: messages, weight sync, divided updates, env workers.

    python benchmarks/scaling.py [--quick] [--only NAME ...] [--json PATH] [key=value ...]

docs/results/scaling.md has the figures; docs/scaling.md says what follows from them for 8, 64 and
256 accelerators.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

MIB = 2**20
FRAMES = 16 * 48 * 48 * 3  # bytes: what a stage of quickstart_ppo shows its policy at once
PATIENT = "cluster.timeouts.start=1000"  # the machine may be busy
WORKERS = {1: "0:0", 2: "0-1:0-1", 4: "0-1:0-3"}
"""Env workers on the first two cores, which they share."""


def main() -> None:
    """Measure one part after another, and print a table of each."""
    options = _arguments()
    os.environ.setdefault("LP_NUM_THREADS", "1")  # software rendering, as rlcore train has it
    from parts.machine import Machine

    from rlcore.placement import Inventory

    machine = Machine.this(Inventory.local().nodes[0].cpus)
    print("\n".join(machine.lines()))
    figures: dict[str, Any] = {"machine": asdict(machine), "overrides": options.overrides}
    for name in options.only:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        lines, figures[name] = PARTS[name](options)
        print("\n" + "\n".join(lines), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def queues(options: argparse.Namespace) -> tuple[list[str], Any]:
    """Messages a second of one process of queues."""
    from parts.queues import measure_queues
    from rlcore_ray.cluster import cluster_session

    from rlcore.config.schema import ClusterConfig

    with cluster_session(ClusterConfig()):
        found = [
            measure_queues(pairs, 20 if options.quick else 500, FRAMES)
            for pairs in ((1,) if options.quick else (1, 2))
        ]
    return [
        "queues      messages a second    CPU us a message    a core would carry",
        *(
            f"  {one.pairs} workers{one.messages / one.wall:18.0f}"
            f"{1e6 * one.cpu / one.messages:20.0f}{one.rate:22.0f}"
            for one in found
        ),
    ], [asdict(one) for one in found]


def sync(options: argparse.Namespace) -> tuple[list[str], Any]:
    """Seconds of a weight sync by size and way."""
    from parts.transfers import measure_transfer, table

    sizes = (MIB,) if options.quick else (MIB, 16 * MIB, 256 * MIB)
    found = [measure_transfer(size, 1 if options.quick else 5) for size in sizes]
    return table(found), [asdict(one) for one in found]


def divided(options: argparse.Namespace) -> tuple[list[str], Any]:
    """Seconds of an update with copies and with parts."""
    from parts.divided import measure_updates, table

    found = measure_updates(*((64, 1) if options.quick else (1024, 5)))
    return table(found), {name: asdict(one) for name, one in found.items()}


def workers(options: argparse.Namespace) -> tuple[list[str], Any]:
    """Env steps a second of a rollout with 1, 2 and 4 env workers."""
    from parts.ours import measure_rollouts, median

    from rlcore.config.compose import compose
    from rlcore.training.assembly import assemble

    toy = ["env=toy", "model=toy", "algorithm=ppo"]
    chosen = [*(toy if options.quick else ["experiment=quickstart_ppo"]), PATIENT]
    counts = (1, 2) if options.quick else tuple(WORKERS)
    found = {}
    for count in counts:
        env = f"env: '{WORKERS[count]}'"
        placed = "cluster.component_placement={" + env + ", rollout: 0, actor: 0}"
        assembly = assemble(compose([*chosen, placed, *options.overrides]))
        found[count] = median(measure_rollouts(assembly, 1 if options.quick else 3))
    first = next(iter(found.values()))
    return [
        "env workers   env steps a second        CPU us a step, channel   env worker   simulators",
        *(
            f"  {count:<12}{one.speed:18.0f}{one.speed / first.speed:6.2f} x"
            + "".join(
                f"{1e6 * one.cpu.get(role, 0.0) / one.env_steps:{width}.0f}"
                for role, width in (("channel", 23), ("env worker", 13), ("simulators", 13))
            )
            for count, one in found.items()
        ),
    ], {count: asdict(one) for count, one in found.items()}


PARTS: dict[str, Callable[[argparse.Namespace], tuple[list[str], Any]]] = {
    "queues": queues,
    "sync": sync,
    "divided": divided,
    "workers": workers,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "overrides", nargs="*", help="changes to experiment=quickstart_ppo, for the env workers"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="does it run? figures mean nothing")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser.parse_intermixed_args()


if __name__ == "__main__":
    main()
