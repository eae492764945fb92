"""A small run, killed at every point of the file system, gone on with, killed again, compared.

    python tests/e2e/crash_points.py [--shape NAME] [--sample N | --points K ...] [--jobs N]

record once --> the folder after every event k --> rebuilt --resume--> equal to the bit?
                                                          '--resume, killed at an event that k
                                                             draws --resume--> equal to the bit?

What is compared is all that the undisturbed run left: weights, optimizer, metrics, evaluations,
which checkpoints stayed and what names them, demonstrations, summary; times aside. Where a run
was killed before it had a configuration, `resume` has to say so, and the same command again begins
a new one beside it. Where it was killed after its summary, `resume` has to say that it is finished.

Everything runs in forks of a process that has imported all there is to import and has no threads,
so that going on costs its computation only. The processes that are killed end at once, in the
middle of whatever they do (`os._exit`). Not covered: pages that the disk has written although
nobody asked for it, names that come to the disk in another order than they were made.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
os.environ.update(ONE_THREAD, CUDA_VISIBLE_DEVICES="", COLUMNS="100")  # before anything is imported

from file_events import FOLDER, Recorder, State, Store, watch  # noqa: E402

IMPORTED = (
    "rlcore.cli.train",
    "rlcore.cli.resume",
    "rlcore.cli.report",
    "rlcore.learner.supervised",
    "rlcore.learner.update",
    "rlcore.loop.train",
    "rlcore.testing.toy_env",
    "rlcore.testing.toy_policy",
    "rlcore.track.report",
    "rlcore.workers.local_group",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.compat.proto.summary_pb2",
    "tensorboard.summary.writer.event_file_writer",
    "torch._dynamo",  # torch's optimizers import it when the first is made
)
LOGS, NAME = "logs", "run"
COMMON = (
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "algorithm.kl_beta=0.01",  # so that there are reference weights to restore
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
    "runner.keep_last=1",
    "runner.keep_best=true",
    f"runner.logger.log_path={LOGS}",
    f"runner.logger.experiment_name={NAME}",
    "cluster.backend=local",
    "cluster.torch_threads=1",
)
KILLED, RAISED = 99, 98
TOLD_WHOLE, SHORT = 4, 600  # failures shown with the folder; characters of the others
MOST_SECONDS = 120  # of one command; it takes one
UNNAMED_SECONDS = ("seconds", "started", "command", "time", "stands_on", "sha256_of_the_rest")
TEMPORARY = (".partial-", ".old-")


@dataclass(frozen=True)
class Shape:
    """A way to train that is killed.

    Attributes:
        command: what is recorded.
        before: what was done to the folder before that, undisturbed.
        again: repeat the command to go on, instead of `resume`.
    """

    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    again: bool = False


SHAPES = {
    "whole": Shape(("train", *COMMON)),
}


@dataclass(frozen=True)
class Ended:
    """How a command came out: its exit code, what it said, and the events it got to."""

    code: int
    said: str
    events: int


@dataclass
class Report:
    """What one point showed; no problems where all was well."""

    point: int
    problems: list[str] = field(default_factory=list)


def command(words: Sequence[str], place: Path, kill_at: int | None = None) -> Ended:
    """`rlcore WORDS` in a fork that works in `place`; it is killed before its event number
    `kill_at` (from 1)."""
    log, counted = place / "said.txt", place / "events.txt"
    counted.write_text("0")
    pid = os.fork()
    if not pid:
        _be_command(words, place, log, counted, kill_at)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return Ended(code, log.read_text(encoding="utf-8"), int(counted.read_text()))


def _be_command(
    words: Sequence[str], place: Path, log: Path, counted: Path, kill_at: int | None
) -> None:
    events = 0

    def tell(event: str, paths: list[Path]) -> None:
        nonlocal events
        events += 1
        if events == kill_at:
            os._exit(KILLED)

    code = RAISED
    try:
        signal.alarm(MOST_SECONDS)
        _speak_into(log)
        os.chdir(place)
        watch(place / LOGS, tell)
        code = importlib.import_module("rlcore.cli.main").main(list(words))
    except BaseException:
        traceback.print_exc()
    finally:
        counted.write_text(str(events))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _speak_into(log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)


# -- recording ------------------------------------------------------------------------------------


def record(shape: Shape, work: Path) -> tuple[list[State], Path]:
    """The states of the folder of logs while the command runs undisturbed, and the folder as it
    was at the end."""
    place = work / "recorded"
    (place / LOGS).mkdir(parents=True)
    for words in shape.before:
        ended = command(words, place)
        assert ended.code == 0, ended.said
    pid = os.fork()
    if not pid:
        _be_recorded(shape, work, place)
    _, status = os.waitpid(pid, 0)
    assert status == 0, (place / "said.txt").read_text()
    told = json.loads((work / "states.json").read_text())
    return [State(**one) for one in told], place


def _be_recorded(shape: Shape, work: Path, place: Path) -> None:
    code = RAISED
    try:
        _speak_into(place / "said.txt")
        os.chdir(place)
        recorder = Recorder(
            place / LOGS, Store(work / "store"), lambda name: "/tensorboard/" in name
        )
        watch(place / LOGS, recorder.tell)
        code = importlib.import_module("rlcore.cli.main").main(list(shape.command))
        recorder.end()
        (work / "states.json").write_text(json.dumps([asdict(state) for state in recorder.states]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# -- what a run left ------------------------------------------------------------------------------


def traces(run: Path, recorded: Path) -> dict[str, Any]:
    """All that a run left and that has to be equal, by the name of its file; paths in the present
    place and in that of the recorded run are the same."""
    from rlcore.track.sameness import untimed
    from rlcore.track.trackers import read_metrics

    found: dict[str, Any] = {}
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if name.startswith("tensorboard/") or name == "report.html":
            continue
        if path.is_dir():
            found[name] = FOLDER
        elif name == "metrics.jsonl":
            found[name] = untimed(read_metrics(path))
        elif path.suffix in (".json", ".yaml"):
            text = path.read_text(encoding="utf-8")
            for there, logs in ((run, run.parent), (recorded / LOGS / NAME, recorded / LOGS)):
                text = text.replace(str(there), "<run>").replace(str(logs), "<logs>")
            found[name] = _untimed(_parsed(text, path.suffix))
        else:
            found[name] = sha256(path.read_bytes()).hexdigest()
    return found


def _parsed(text: str, suffix: str) -> Any:
    import yaml

    return json.loads(text) if suffix == ".json" else yaml.safe_load(text)


def _untimed(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_untimed(value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    left_out = (*UNNAMED_SECONDS, "resume_dir")
    return {key: _untimed(value) for key, value in tree.items() if key not in left_out}


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """What is not as it should be, a sentence each."""
    for name in sorted(found.keys() | wanted.keys()):
        if name not in found:
            yield f"{name} is missing"
        elif name not in wanted:
            what = "is left over" if any(t in name for t in TEMPORARY) else "should not be there"
            yield f"{name} {what}"
        elif found[name] != wanted[name]:
            yield f"{name} differs: {_parting(found[name], wanted[name])}"


def _parting(found: Any, wanted: Any, path: str = "") -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in [*wanted, *found]:
            if found.get(key) != wanted.get(key):
                return _parting(found.get(key), wanted.get(key), f"{path}.{key}")
    if isinstance(found, list) and isinstance(wanted, list):
        for number, (one, other) in enumerate(zip(found, wanted, strict=False)):
            if one != other:
                return _parting(one, other, f"{path}[{number}]")
        return f"{path} has {len(found)} entries instead of {len(wanted)}"
    return f"{path} {str(found)[:200]} instead of {str(wanted)[:200]}".strip()


# -- one point ------------------------------------------------------------------------------------


class Points:
    """The states of a shape's folder, and what becomes of each."""

    def __init__(self, shape: Shape, work: Path) -> None:
        self._shape, self._work = shape, work
        self._store = Store(work / "store")
        self.states, self._recorded = record(shape, work)
        self._wanted = traces(self._recorded / LOGS / NAME, self._recorded)

    def judge(self, point: int) -> Report:
        """Go on from a point, and once more with a second kill."""
        report, place = Report(point), self._work / "points" / str(point)
        state = self.states[point]
        try:
            self._rebuild(state, place)
            ended = self._go_on(place)
            report.problems += [f"resumed: {p}" for p in self._problems(state, place, ended)]
            if ended.events:
                draw = int(sha256(f"second kill {point}".encode()).hexdigest(), 16)
                kill_at = 1 + draw % ended.events
                self._rebuild(state, place)
                if self._go_on(place, kill_at).code == KILLED:
                    words = f"killed again at event {kill_at} of {ended.events}, resumed"
                    ended = self._go_on(place)
                    found = self._problems(state, place, ended)
                    report.problems += [f"{words}: {problem}" for problem in found]
        except Exception:
            report.problems.append(traceback.format_exc())
        shutil.rmtree(place, ignore_errors=True)
        return report

    def _rebuild(self, state: State, place: Path) -> None:
        self._store.rebuild(state.tree, place / LOGS)

    def _go_on(self, place: Path, kill_at: int | None = None) -> Ended:
        run = _last_run(place)
        begun = (run / "config.yaml").is_file()
        if begun and not self._shape.again:
            return command(["resume", str(run)], place, kill_at)
        if run.exists() and not begun:
            refused = command(["resume", str(run)], place)
            assert refused.code == 2 and "config.yaml" in refused.said, refused.said
        return command(self._shape.command, place, kill_at)

    def _problems(self, state: State, place: Path, ended: Ended) -> list[str]:
        run = _last_run(place)
        finished = (run / "summary.json").is_file() and "is finished" in ended.said
        if ended.code != (2 if finished else 0) or "Traceback" in ended.said:
            return [f"it ended with {ended.code} and said:\n{ended.said[-3000:]}"]
        if finished:
            command(["report", str(run)], place)
        if not (run / "report.html").is_file():
            return ["there is no report"]
        return list(differences(traces(run, self._recorded), self._wanted))

    def describe(self, point: int) -> str:
        """The state of the folder, for whoever looks into a failure."""
        state = self.states[point]
        lines = [f"point {point} of {len(self.states)}: {state.label}"]
        for name, entry in sorted(state.tree.items()):
            if entry != FOLDER:
                lines.append(f"    {name}: {len(self._store.get(entry))} bytes")
        return "\n".join(lines)


def _last_run(place: Path) -> Path:
    """The newest folder of a run that got as far as a configuration; the first if none did."""
    runs = sorted((place / LOGS).glob(f"{NAME}*"), key=lambda path: (len(path.name), path.name))
    begun = [run for run in runs if (run / "config.yaml").is_file()]
    return (begun or [place / LOGS / NAME])[-1]


# -- all points -----------------------------------------------------------------------------------


def chosen(count: int, sample: int) -> list[int]:
    """As many points as asked for, one of each of as many equal stretches, drawn by key."""
    sample = min(sample, count)
    edges = [count * i // sample for i in range(sample + 1)]
    draws = [int(sha256(f"point {i}".encode()).hexdigest(), 16) for i in range(sample)]
    return [low + d % (high - low) for low, high, d in zip(edges, edges[1:], draws, strict=False)]


def judge_all(points: Points, numbers: Sequence[int], work: Path, jobs: int) -> list[Report]:
    """The reports of some points, from several processes."""
    processes = []
    for job in range(jobs):
        pid = os.fork()
        if not pid:
            try:
                with (work / f"reports-{job}.jsonl").open("w") as file:
                    for number in numbers[job::jobs]:
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


def warm_up() -> None:
    """Have in memory whatever a command would take time to get."""
    for name in IMPORTED:
        importlib.import_module(name)
    manifest = importlib.import_module("rlcore.track.manifest")
    manifest.build_manifest(seeds={}, device="", protocol=None, render_settings={})
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
        numbers = options.points or chosen(count, options.sample or count)
        if options.list:
            print("\n".join(f"{i} {state.label}" for i, state in enumerate(points.states)))
            return 0
        reports = judge_all(points, numbers, work, options.jobs)
        bad = [report for report in reports if report.problems]
        for report in bad[:TOLD_WHOLE]:
            print(points.describe(report.point))
            for problem in report.problems:
                print(f"  {problem}")
            print(f"  again: {sys.executable} {__file__} --shape {options.shape} "
                  f"--points {report.point}\n")  # fmt: skip
        for report in bad[TOLD_WHOLE:]:
            print(f"point {report.point}: {points.states[report.point].label}\n"
                  f"  {report.problems[0][-SHORT:]}")  # fmt: skip
        assert [report.point for report in reports] == sorted(numbers), "a process was lost"
        print(f"{options.shape}: {len(bad)} of {len(numbers)} points (of {count}) failed, "
              f"{time.monotonic() - began:.0f} s")  # fmt: skip
        return 1 if bad else 0
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


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
