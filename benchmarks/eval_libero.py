"""Episodes a minute of LIBERO's evaluation, by `rlcore eval` and by the published loop, in one run.

    python benchmarks/eval_libero.py [--suite libero_object] [--tasks 2] [--trials 2] [--steps 280]
        [--size 256] [--envs 4] [--stand-ins] [--json PATH] [--quick]

Both play the same starts with a policy that takes no time, so that the loop is what is measured.
See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

REPLAN_STEPS = 5  # openpi's: actions executed of each chunk
INPUT_SIZE = 224  # of its model's images
AIM = 3.0


@dataclass(frozen=True)
class Cost:
    """What an evaluation cost.

    Attributes:
        starts: task and trial of each episode that was played, in order.
        env_steps: their steps, without those that wait after a reset.
        cpu: CPU seconds of all processes.
        wall: seconds.
    """

    starts: list[tuple[str, int]]
    env_steps: int
    cpu: float
    wall: float

    @property
    def episodes(self) -> int:
        return len(self.starts)

    @property
    def per_cpu_minute(self) -> float:
        return 60 * self.episodes / self.cpu

    @property
    def per_minute(self) -> float:
        return 60 * self.episodes / self.wall


def play_published_loop(
    tasks: Sequence[str], trials: Sequence[int], steps: int, size: int, assets: str
) -> Cost:
    """Play episodes as openpi's and vla-eval's clients do: one env, one episode after another.

    An env per task is made once. Each reset compiles the model and waits ten steps. Every step
    draws both cameras and resizes their frames. The process must be new, and have MuJoCo's
    variables.
    """
    from parts.libero_peer import CAMERAS, PeerEnv
    from PIL import Image

    def model_inputs(observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        images = {
            name: np.asarray(
                Image.fromarray(np.ascontiguousarray(observation[name])).resize(
                    (INPUT_SIZE, INPUT_SIZE), Image.Resampling.BILINEAR
                )
            )
            for name in CAMERAS
        }
        return {**images, "state": observation["state"]}

    def instant_policy(inputs: dict[str, np.ndarray]) -> np.ndarray:
        return np.zeros((REPLAN_STEPS, 7), dtype=np.float32)

    cpu = 0.0
    wall = 0.0
    env_steps = 0
    starts: list[tuple[str, int]] = []
    for task in tasks:
        env = PeerEnv(task, size, Path(assets), first_trial=trials[0])
        # as rlcore's, the time begins when the env is there
        cpu -= time.process_time()
        wall -= time.perf_counter()
        for _ in trials:
            observation, info = env.reset()
            starts.append((task, info["trial"]))
            plan: deque[np.ndarray] = deque()
            for _ in range(steps):
                inputs = model_inputs(observation)
                if not plan:
                    plan.extend(instant_policy(inputs))
                observation, _, solved, _, _ = env.step(plan.popleft())
                env_steps += 1
                if solved:
                    break
        cpu += time.process_time()
        wall += time.perf_counter()
        env.close()
    return Cost(starts, env_steps, cpu, wall)


def play_ours(words: Sequence[str]) -> Cost:
    """Play the episodes of `rlcore eval` on workers that have started."""
    from parts.ours import cpu_by_process, cpu_used

    from rlcore.config.compose import compose
    from rlcore.rollout.messages import GatherOrder
    from rlcore.rollout.schedule import evaluation_columns
    from rlcore.training.assembly import assemble
    from rlcore.training.evaluate import EVAL_UPDATE
    from rlcore.training.gather import gather
    from rlcore.workers.backend import make_group

    assembly = assemble(compose(words))
    env = assembly.env_specs["eval"]
    columns = evaluation_columns(env, assembly.config.env.eval)
    order = GatherOrder(
        side="eval",
        columns=columns,
        phase="eval",
        update=EVAL_UPDATE,
        deterministic=True,
        keep=False,
    )
    with make_group(assembly.worker_specs) as group:
        group.start()
        before = cpu_by_process()
        begin = time.perf_counter()
        gathered = gather(group, assembly, order)
        wall = time.perf_counter() - begin
        cpu = cpu_used(before, cpu_by_process())
    played = sorted(outcome.episode for outcome in gathered.outcomes)
    starts = [(env.tasks[episode.task], episode.trial) for episode in played]
    return Cost(starts, gathered.env_steps, cpu, wall)


def main() -> None:
    """Play both, one after another, and print the ratio."""
    from parts.machine import Machine
    from rlcore_env_libero.assets import assets_folder
    from rlcore_env_libero.installed import libero_folder
    from rlcore_env_libero.quiet import load_libero
    from rlcore_env_libero.suites import SUITES
    from rlcore_mujoco.gl import choose_gl
    from rlcore_stand_ins.libero.write import write_stand_ins

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--suite", default="libero_object", choices=list(SUITES))
    parser.add_argument("--tasks", type=int, default=2, help="of the suite, its first ones")
    parser.add_argument("--trials", type=int, default=2, help="episodes of each task")
    parser.add_argument("--steps", type=int, default=280, help="time limit, without the wait")
    parser.add_argument("--size", type=int, default=256, help="height and width of frames")
    parser.add_argument("--envs", type=int, default=4, help="of rlcore")
    parser.add_argument("--stand-ins", action="store_true", help="in place of LIBERO's assets")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--quick", action="store_true", help="does it run? figures mean nothing")
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.trials, options.steps, options.size = 1, 2, 10, 32
    machine = Machine.this(len(os.sched_getaffinity(0)))
    variables = {"MUJOCO_GL": choose_gl() or "", "LP_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for name, value in variables.items():
        os.environ.setdefault(name, value)  # for the peer's process as for ours
    stand_ins = str(options.stand_ins).lower()
    tasks = SUITES[options.suite][: options.tasks]
    words = [
        "env=libero",
        "model=toy",
        "algorithm=ppo",
        "runner.only_eval=true",
        "actor.model.hidden=1",
        f"actor.model.num_action_chunks={REPLAN_STEPS}",
        f"env.train.suite={options.suite}",
        f"env.eval.suite={options.suite}",
        f"env.eval.tasks=[{','.join(tasks)}]",
        f"env.eval.trials_per_task={options.trials}",
        f"env.eval.max_episode_steps={options.steps}",
        f"env.train.image_size={options.size}",
        f"env.eval.image_size={options.size}",
        f"env.eval.total_num_envs={options.envs}",
        f"env.train.stand_ins={stand_ins}",
        f"env.eval.stand_ins={stand_ins}",
    ]
    with tempfile.TemporaryDirectory(prefix="rlcore-libero-") as folder:
        assets = Path(folder) if options.stand_ins else assets_folder(None)
        if options.stand_ins:
            load_libero(libero_folder())  # whose classes say what they need
            write_stand_ins(Path(folder))
        ours = play_ours(words)
        trials = sorted({trial for _, trial in ours.starts})
        # two GL contexts in one process would be in each other's way
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as process:
            peer = process.submit(
                play_published_loop, tasks, trials, options.steps, options.size, str(assets)
            ).result()
    cpu_ratio = ours.per_cpu_minute / peer.per_cpu_minute
    ratio = ours.per_minute / peer.per_minute
    what = "stand-ins" if options.stand_ins else "LIBERO's assets"
    rows: dict[str, Cost] = {"rlcore eval": ours, "published loop": peer}
    print(
        *machine.lines(),
        f"{options.suite}, {what}: two cameras at {options.size} px, {options.steps} steps",
        f"{'episodes a minute':18}{'episodes':>9}{'env steps':>10}{'of CPU':>9}{'of wall':>9}",
        *(
            f"{name:18}{cost.episodes:9d}{cost.env_steps:10d}{cost.per_cpu_minute:9.2f}"
            f"{cost.per_minute:9.2f}"
            for name, cost in rows.items()
        ),
        f"{'ratio':37}{cpu_ratio:9.2f}{ratio:9.2f}   (aim {AIM:g}; wall needs a quiet machine)",
        sep="\n",
    )
    if options.json is not None:
        figures: dict[str, Any] = {
            "machine": asdict(machine),
            "ours": {**asdict(ours), "per_minute": ours.per_minute},
            "peer": {**asdict(peer), "per_minute": peer.per_minute},
            "cpu_ratio": cpu_ratio,
            "ratio": ratio,
        }
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
