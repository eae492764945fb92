"""A small run, killed at every point of the file system, gone on with, killed again, compared.

    python tests/e2e/crash_points.py [--shape NAME] [--sample N | --points K ...] [--jobs N]

record once --> the folder after every event k --> rebuilt --resume--> equal to the bit?
                                                          '--resume, killed at an event that k
                                                             draws --resume--> equal to the bit?

Compared is all that the undisturbed run left: weights, optimizer, metrics, evaluations, which
checkpoints stayed and what names them, demonstrations, summary; times aside. Where a run was killed
before it had a configuration, `resume` has to say so, and the same command again begins a new one
beside it. Where it was killed after its summary, `resume` has to say that it is finished.

What is killed ends at once, in the middle of whatever it does (`os._exit`). Not covered: contents
that come to the disk although nobody flushed them, names that do in another order than they were
made.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

# before anything that reads it is imported
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
os.environ.update(dict.fromkeys(ONE_THREAD, "1"), CUDA_VISIBLE_DEVICES="", COLUMNS="100")
os.environ["OBJC_DISABLE_INITIALIZE_FORK_SAFETY"] = "YES"  # macOS: a fork may do anything here

# as pytest does for tests: this file is also run as a script
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from file_events import FOLDER, State, Store  # noqa: E402
from forked_commands import KILLED, LOGS, RAISED, Ended, command, record  # noqa: E402

IMPORTED = (
    "rlcore.cli.train",
    "rlcore.cli.resume",
    "rlcore_tools.cli.report",
    "rlcore.learner.supervised",
    "rlcore.learner.update",
    "rlcore.training.train",
    "rlcore_testing.toy_env",
    "rlcore_testing.toy_policy",
    "rlcore_tools.report",
    "rlcore.workers.local_group",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.compat.proto.summary_pb2",
    "tensorboard.summary.writer.event_file_writer",
    "torch._dynamo",  # torch's optimizers import it when the first is made
)
NAME = "run"
COMMON = (
    "env=toy",
    "model=toy",
    "sft.enabled=true",
    "sft.max_steps=60",
    "collect.episodes_per_task=2",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1",
    "rollout.forward_batch=4",
    "actor.model.hidden=16",
    "actor.micro_batch_size=16",
    "actor.global_batch_size=32",
    "actor.optim.lr=3e-3",  # the best is made twice, by the first update and by the third
    "actor.optim.lr_warmup_steps=9",
    "runner.max_epochs=4",
    "runner.val_check_interval=2",
    "runner.save_interval=1",
    "runner.keep_best=true",
    f"runner.logger.log_path={LOGS}",
    f"runner.logger.experiment_name={NAME}",
    "runner.logger.logger_backends=[tensorboard]",
    "cluster.backend=local",
    "cluster.torch_threads=1",
)
PPO = ("algorithm=ppo", "algorithm.kl_beta=0.01")  # so that there are reference weights to restore
REFUSED = 2
TOLD_WHOLE, SHORT = 4, 600  # failures shown with the folder; characters of the others


@dataclass(frozen=True)
class Shape:
    """A command that is killed, and how one goes on.

    Attributes:
        command: what is recorded.
        before: what was done to the folder before that, undisturbed.
        repeat: the command is repeated to go on; where it is refused, or not to be repeated, it is
            `resume RUN`. A new run that was killed after its summary is not begun again.
        more: parts of the folder in which more may lie than the undisturbed run left.
    """

    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    repeat: bool = False
    more: str | None = None


SHAPES = {
    "whole": Shape(("train", *COMMON, *PPO, "sft.save_interval=25", "runner.keep_last=1")),
    "auto": Shape(
        ("train", *COMMON, *PPO, "runner.keep_last=2", "runner.auto_resume=true"), repeat=True
    ),
    "groups": Shape(
        (
            "train",
            *COMMON,
            "algorithm=grpo",
            "algorithm.group_size=4",
            "runner.val_before_train=false",
            "runner.val_check_interval=-1",
            "runner.save_interval=2",
        )
    ),
    "replay": Shape(
        (
            "train",
            *COMMON,
            "algorithm=rft",
            "algorithm.policy_ema=0.2",
            "algorithm.steps=6",
            "algorithm.batch_size=16",
            "env.train.total_num_envs=24",
            "runner.keep_last=2",
        )
    ),
    "edits": Shape(  # networks that act, lagged ones, failures in the replay, all evaluations
        (
            "train",
            *COMMON,
            "env.*.tasks=[reach-left,reach-up]",
            "env.forgetting.tasks=[reach-down]",
            "env.forgetting.trials_per_task=1",
            "env.validation.trials_per_task=2",
            "algorithm=expo",
            "algorithm.critic_steps=6",
            "algorithm.critics=2",
            "algorithm.batch_size=16",
            "algorithm.warmup=1",
            "algorithm.samples=2",
            "algorithm.imitation_steps=4",
            "algorithm.imitation_batch_size=16",
            "env.train.total_num_envs=24",
            "runner.keep_last=2",
        )
    ),
    "noise": Shape(  # DSRL: a frozen flow policy, and networks that choose its noise
        (
            "train",
            *(word for word in COMMON if not word.startswith(("model=", "sft.", "actor.model."))),
            "model=pi0_tiny",
            "actor.model.num_action_chunks=2",
            "algorithm=dsrl",
            "algorithm.start=1",
            "algorithm.steps=2",
            "algorithm.batch_size=4",
            "algorithm.heads=2",
            "runner.max_epochs=3",
            "runner.keep_last=2",
        )
    ),
    "plateau": Shape(  # rounds of supervised training, until success stops rising
        (
            "train",
            *COMMON,
            *PPO,
            "sft.until=plateau",
            "sft.max_steps=4",
            "sft.save_interval=3",
            "sft.max_doublings=2",
            "sft.lr_warmup_steps=2",
            "sft.control=demonstrations",
            "env.eval.total_num_envs=40",
            "runner.max_epochs=1",
        )
    ),
    "data": Shape(  # demonstrations that lie beside the run
        ("train", *COMMON, *PPO, "runner.max_epochs=2", f"collect.path={LOGS}/data"),
        before=(
            (
                "collect",
                *COMMON,
                *PPO,
                f"collect.output={LOGS}/data",
                "runner.logger.experiment_name=collected",
            ),
        ),
    ),
    "older": Shape(
        ("resume", f"{LOGS}/{NAME}/checkpoints/step_000001", "runner.keep_last=1"),
        before=(("train", *COMMON, *PPO, "runner.max_epochs=3"),),
        repeat=True,
        more="checkpoints/superseded/",
    ),
}


@dataclass
class Report:
    """What one point showed; no problems where all was well."""

    point: int
    problems: list[str] = field(default_factory=list)


class Points:
    """The states of a shape's folder, and what becomes of each."""

    def __init__(self, shape: Shape, work: Path) -> None:
        self._shape, self._work = shape, work
        self._store = Store(work / "store")
        self._recorded = work / "recorded"
        (self._recorded / LOGS).mkdir(parents=True)
        for words in shape.before:
            ended = command(words, self._recorded)
            assert ended.code == 0, ended.said
        self.states: list[State] = record(shape.command, self._recorded, self._store)
        self._wanted = self._traces(self._recorded)

    def judge(self, point: int) -> Report:
        """Go on from a point, and once more with a second kill."""
        report, place = Report(point), self._work / "points" / str(point)
        try:
            self._rebuild(point, place)
            ended = self._go_on(place)
            report.problems += [f"resumed: {problem}" for problem in self._problems(place, ended)]
            if ended.events:
                kill_at = 1 + _draw(f"second kill {point}") % ended.events
                self._rebuild(point, place)
                if self._go_on(place, kill_at).code == KILLED:
                    words = f"killed again at event {kill_at} of {ended.events}, resumed"
                    found = self._problems(place, self._go_on(place))
                    report.problems += [f"{words}: {problem}" for problem in found]
        except Exception:
            report.problems.append(traceback.format_exc())
        shutil.rmtree(place, ignore_errors=True)
        return report

    def describe(self, point: int) -> str:
        """The state of the folder, for whoever looks into a failure."""
        state = self.states[point]
        lines = [f"point {point} of {len(self.states)}: {state.label}"]
        for name, entry in sorted(state.tree.items()):
            if entry != FOLDER:
                lines.append(f"    {name}: {len(self._store.get(entry))} bytes")
        return "\n".join(lines)

    def _rebuild(self, point: int, place: Path) -> None:
        self._store.rebuild(self.states[point].tree, place / LOGS)

    def _go_on(self, place: Path, kill_at: int | None = None) -> Ended:
        run = last_run(place)
        begun = (run / "config.yaml").is_file()
        if self._shape.repeat:
            if (run / "summary.json").is_file() and not self._shape.before:
                return command(["resume", str(run)], place)  # is refused: the run is finished
            ended = command(self._shape.command, place, kill_at)
            if ended.code != REFUSED:
                return ended
        if begun:
            return command(["resume", str(run)], place, kill_at)
        if run.exists():
            refused = command(["resume", str(run)], place)
            assert refused.code == REFUSED and "config.yaml" in refused.said, refused.said
        return command(self._shape.command, place, kill_at)

    def _problems(self, place: Path, ended: Ended) -> list[str]:
        run = last_run(place)
        finished = (run / "summary.json").is_file() and "is finished" in ended.said
        if ended.code != (REFUSED if finished else 0) or "Traceback" in ended.said:
            return [f"it ended with {ended.code} and said:\n{ended.said[-3000:]}"]
        if finished:
            command(["report", str(run)], place)
        if not (run / "report.html").is_file():
            return ["there is no report"]
        last = max((run / "attempts").iterdir())
        for name in ("config.yaml", "manifest.json"):
            if (last / name).read_bytes() != (run / name).read_bytes():
                return [f"{name} is not that of the last attempt, {last.name}"]
        from run_traces import differences

        return [
            text
            for text in differences(self._traces(place), self._wanted)
            if not (self._shape.more and text.startswith(self._shape.more) and "left over" in text)
        ]

    def _traces(self, place: Path) -> dict[str, object]:
        from run_traces import traces  # imports more than may be imported at the top

        there = self._recorded / LOGS
        run = last_run(place)
        places = [
            (run, "<run>"),
            (run.parent, "<logs>"),
            (there / NAME, "<run>"),
            (there, "<logs>"),
        ]
        return traces(run, *places)


def last_run(place: Path) -> Path:
    """The newest folder of a run that got as far as a configuration; the first if none did."""
    runs = sorted((place / LOGS).glob(f"{NAME}*"), key=lambda path: (len(path.name), path.name))
    begun = [run for run in runs if (run / "config.yaml").is_file()]
    return (begun or [place / LOGS / NAME])[-1]


def chosen(count: int, sample: int) -> list[int]:
    """As many points as asked for, drawn by key, one of each of as many equal stretches."""
    sample = min(sample, count)
    edges = [count * i // sample for i in range(sample + 1)]
    return [low + _draw(f"point {low}") % (high - low) for low, high in pairwise(edges)]


def judge_all(points: Points, numbers: Sequence[int], work: Path, jobs: int) -> list[Report]:
    """The reports of some points, from several processes; short of some where one was lost."""
    parent, processes = os.getpid(), []
    for job in range(jobs):
        pid = os.fork()
        if not pid:
            try:
                with (work / f"reports-{job}.jsonl").open("w") as file:
                    for number in numbers[job::jobs]:
                        if os.getppid() != parent:
                            break
                        file.write(json.dumps(asdict(points.judge(number))) + "\n")
                        file.flush()
                os._exit(0)
            finally:
                os._exit(RAISED)
        processes.append(pid)
    for pid in processes:
        os.waitpid(pid, 0)
    lines = [line for job in range(jobs) for line in (work / f"reports-{job}.jsonl").open()]
    return sorted((Report(**json.loads(line)) for line in lines), key=lambda one: one.point)


def tell(points: Points, reports: Sequence[Report], shape: str) -> None:
    """Print what failed: the first few with the folder they began from."""
    for number, report in enumerate(reports):
        if number < TOLD_WHOLE:
            print(points.describe(report.point), *report.problems, sep="\n  ")
            print(f"  again: {sys.executable} {__file__} --shape {shape} --points {report.point}\n")
        else:
            label, problem = points.states[report.point].label, report.problems[0][-SHORT:]
            print(f"point {report.point}: {label}\n  {problem}")


def warm_up() -> None:
    """Have in memory whatever a command would take time to get."""
    for name in IMPORTED:
        importlib.import_module(name)
    manifest = importlib.import_module("rlcore.runs.manifest")
    toy = importlib.import_module("rlcore_testing.toy_settings")
    specs = {"eval": toy.env_spec(toy.ToyEnvConfig())}
    manifest.build_manifest(seeds={}, device="", protocol=None, specs=specs, code=manifest.code())
    gc.freeze()  # so that collections in forks don't copy all of it


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 where every point came out well."""
    options = _parser().parse_args(arguments)
    began = time.monotonic()
    warm_up()
    work = Path(tempfile.mkdtemp(prefix="rlcore-crash-points-", dir=options.work))
    try:
        points = Points(SHAPES[options.shape], work)
        count = len(points.states)
        if options.list:
            print(*(f"{i} {state.label}" for i, state in enumerate(points.states)), sep="\n")
            return 0
        numbers = options.points or chosen(count, options.sample or count)
        reports = judge_all(points, numbers, work, options.jobs)
        bad = [report for report in reports if report.problems]
        tell(points, bad, options.shape)
        lost = len(numbers) - len(reports)
        seconds = time.monotonic() - began
        print(f"{options.shape}: {len(numbers)} of {count} points, {len(bad)} failed, {lost} were "
              f"not judged, {seconds:.0f} s")  # fmt: skip
        return 1 if bad or lost else 0
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


def _draw(key: str) -> int:
    return int(sha256(key.encode()).hexdigest(), 16)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, default="whole")
    parser.add_argument("--sample", type=int, help="how many points, spread over the run")
    parser.add_argument("--points", type=int, nargs="+", help="these alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--work", type=Path, help="a folder to work in")
    parser.add_argument("--keep", action="store_true", help="leave what was worked on")
    parser.add_argument("--list", action="store_true", help="only say which points there are")
    return parser


if __name__ == "__main__":
    sys.exit(main())
