"""What a rollout gains by `render_detail=pixel`: rollouts with either detail, by turns, in one run.

    python benchmarks/frames_rollout.py [--rollouts N] [experiment=quickstart_ppo] [key=value ...]

See docs/benchmarks.md for what each figure means.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from statistics import median

DETAILS = ("exact", "pixel")


def main() -> None:
    """Measure, and print a line for each pair of rollouts and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("overrides", nargs="*", help="a recipe and changes to it")
    parser.add_argument("--rollouts", type=int, default=5, help="of each detail")
    options = parser.parse_args()
    os.environ.setdefault("LP_NUM_THREADS", "1")
    measure(options.overrides or ["experiment=quickstart_ppo"], options.rollouts)
    sys.stdout.flush()
    os._exit(0)  # software GL complains in its exit handlers


def measure(overrides: list[str], rollouts: int) -> None:
    """Both details keep their workers, and play updates with the same starts."""
    from parts.ours import rollout_of

    from rlcore.config.compose import compose
    from rlcore.training.assembly import assemble
    from rlcore.workers.backend import make_group

    print("env steps | CPU s: exact | pixel | ratio | a wall second: exact | pixel | ratio")
    cpu, wall = [], []
    with ExitStack() as open_:
        sides = []
        for detail in DETAILS:
            keys = [f"env.{side}.render_detail={detail}" for side in ("train", "eval")]
            assembly = assemble(compose([*overrides, "cluster.backend=local", *keys]))
            group = open_.enter_context(make_group(assembly.worker_specs))
            group.start()
            rollout_of(group, assembly, 0)  # warms up
            sides.append((group, assembly))
        for update in range(1, rollouts + 1):
            exact, pixel = (rollout_of(*side, update) for side in sides)
            used = [sum(one.cpu.values()) / one.env_steps for one in (exact, pixel)]
            cpu.append(used[0] / used[1])
            wall.append(pixel.speed / exact.speed)
            print(
                f"{exact.env_steps}, {pixel.env_steps} | {used[0] * exact.env_steps:.2f} "
                f"| {used[1] * pixel.env_steps:.2f} | {cpu[-1]:.2f} "
                f"| {exact.speed:.0f} | {pixel.speed:.0f} | {wall[-1]:.2f}",
                flush=True,
            )
        print(
            f"env steps of pixel over those of exact, medians: "
            f"{median(cpu):.2f} a CPU second, {median(wall):.2f} a second"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
