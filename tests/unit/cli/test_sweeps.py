"""Sweeps: folders, the table at the end, and what can be gone on with."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from rlcore.cli import verbs
from rlcore.cli.main import main
from rlcore.config.compose import load, to_yaml
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import WorkerError
from rlcore.run_folder.folder import RunFolder
from rlcore.session.assembly import Assembly

TRAIN = [
    *("train", "env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=1"),
    *("cluster.backend=local", "cluster.component_placement={env: 0, rollout: 0, actor: 0}"),
]
FIGURES = {
    "success_before": {"rate": 0.25, "n": 4, "lo": 0.0456, "hi": 0.6994},
    "success_after": {"rate": 0.75, "n": 4, "lo": 0.3006, "hi": 0.9544},
    "paired_difference": {"mean": 0.5, "lo": -0.1, "hi": 1.0},
    "seed": 1,
    "seconds": {"rollout": 1.5},
    "env_steps": 8,
    "episodes": 4,
    "versions": {},
}


class Loop:
    """Stands for rlcore.training: makes a run's folder and its summary, unless it is to fail."""

    def __init__(self) -> None:
        self.configs: list[RunConfig] = []
        self.errors: dict[int, BaseException] = {}
        self.caveats: dict[int, str] = {}

    def run(self, assembly: Assembly) -> None:
        config = assembly.config
        self.configs.append(config)
        logger = config.runner.logger
        folder = RunFolder.create(logger.log_path, logger.experiment_name)
        folder.write_config(to_yaml(config))
        if config.runner.seed in self.errors:
            raise self.errors[config.runner.seed]
        said = self.caveats.get(config.runner.seed)
        folder.summary.write_text(json.dumps(FIGURES | ({"caveat": said} if said else {})))


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr(verbs, "load_target", lambda target: made.run)
    return made


@pytest.fixture
def sweep(loop: Loop, log_path: Path):
    """`sweep(*words)`: the exit code of a sweep of training runs below `log_path`."""
    return lambda *words: main([*TRAIN, f"runner.logger.log_path={log_path}", "-m", *words])


def rows(text: str) -> list[list[str]]:
    """Cells of a table's rows."""
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_runs_have_folders_of_their_own(sweep, log_path):
    assert sweep("runner.seed=1,2") == 0
    assert sorted(path.name for path in (log_path / "run").iterdir()) == [
        "0-seed-1", "1-seed-2", "sweep.txt",
    ]  # fmt: skip
    assert load(log_path / "run/1-seed-2/config.yaml").runner.seed == 2


def test_a_second_sweep_mixes_with_none_and_lies_in_no_run(sweep, loop, log_path):
    RunFolder.create(log_path, "run")
    assert sweep("runner.seed=1,2") == 0
    assert sweep("runner.seed=1,2") == 0
    assert [config.runner.logger.experiment_name for config in loop.configs] == [
        "run-2/0-seed-1", "run-2/1-seed-2", "run-3/0-seed-1", "run-3/1-seed-2",
    ]  # fmt: skip


def test_a_table_ends_it_and_stands_beside_the_runs(sweep, log_path, capsys):
    assert sweep("runner.seed=1,2") == 0
    said, written = capsys.readouterr().out, (log_path / "run/sweep.txt").read_text()
    assert f"{written}written to {log_path}/run/sweep.txt\n" in said
    assert f"compare them: rlcore report {log_path}/run\n" in written
    first, second = rows(written)
    assert (first[0], first[1], first[-1]) == ("0", "runner.seed=1", "0-seed-1")
    assert second[2:5] == [
        "0.250 (0.046 .. 0.699)", "0.750 (0.301 .. 0.954)", "+0.500 (-0.100 .. +1.000)",
    ]  # fmt: skip
    assert second[5].isdigit()


def test_what_figures_are_not_stands_below_them(sweep, loop, log_path):
    loop.caveats = {1: "a rehearsal", 2: "a rehearsal"}
    assert sweep("runner.seed=1,2") == 0
    assert "┘\na rehearsal\ncompare them" in (log_path / "run/sweep.txt").read_text()
    assert sweep("runner.seed=0,1,2") == 0
    assert "┘\njob 1, 2: a rehearsal\n" in (log_path / "run-2/sweep.txt").read_text()


def test_the_next_command_compares_them(sweep, log_path, elsewhere, capsys):
    assert sweep("runner.seed=1,2") == 0
    capsys.readouterr()
    assert main(["report", str(log_path / "run")]) == 0
    assert "2 runs compared" in (elsewhere / "report.html").read_text()


def test_where_their_place_is_swept_there_is_a_table_in_each(sweep, log_path, elsewhere, capsys):
    """Not above them: that may be anybody's folder."""
    assert sweep("runner.logger.experiment_name=a,b") == 0
    assert sorted(path.name for path in log_path.iterdir()) == ["a", "b"]
    assert f"written to {log_path}/a/sweep.txt, {log_path}/b/sweep.txt\n" in capsys.readouterr().out
    assert (log_path / "a/sweep.txt").read_text() == (log_path / "b/sweep.txt").read_text()
    assert main(["report", str(log_path / "a"), str(log_path / "b")]) == 0  # as it says


def test_a_job_that_fails_does_not_stop_the_others(sweep, loop, log_path, capsys):
    loop.errors[2] = WorkerError("env worker 0 died", hint="look")
    assert sweep("runner.seed=1,2,-3,4") == 1
    assert [config.runner.seed for config in loop.configs] == [1, 2, 4]
    failed = (
        "2 of 4 jobs failed:\n"
        "  1 runner.seed=2: env worker 0 died\n"
        "  2 runner.seed=-3: runner.seed must be at least 0, got -3\n"
    )
    written = (log_path / "run/sweep.txt").read_text()
    assert capsys.readouterr().err.endswith(failed) and written.endswith(failed)
    assert [row[-1] for row in rows(written)] == [
        "0-seed-1", "1-seed-2 failed", "failed", "3-seed-4",
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), ZeroDivisionError()])
def test_what_an_interrupted_sweep_can_go_on_with(sweep, loop, log_path, capsys, ending):
    loop.errors[2] = ending
    with contextlib.suppress(ZeroDivisionError):  # a bug keeps its traceback
        assert sweep("runner.seed=1,2,3", "rollout.forward_batch=7") == 130
    written = (log_path / "run/sweep.txt").read_text()
    assert written in capsys.readouterr().out
    assert [row[-1] for row in rows(written)] == ["0-seed-1", "1-seed-2 interrupted", "not started"]
    assert f"resume job 1: rlcore resume {log_path}/run/1-seed-2\n" in written
    (line,) = [line for line in written.splitlines() if line.startswith("run job 2 alone: ")]
    assert "rlcore train env=toy model=toy" in line
    assert line.endswith(
        " runner.seed=3 rollout.forward_batch=7 runner.logger.experiment_name=run/2-seed-3"
    )


def test_a_killed_sweep_has_left_its_table(sweep, loop, log_path, monkeypatch):
    """As the file stands while job 1 runs; nothing is written after a SIGKILL."""
    seen = []
    make = RunFolder.write_config
    monkeypatch.setattr(
        RunFolder,
        "write_config",
        lambda folder, text: (
            seen.append((log_path / "run/sweep.txt").read_text()), make(folder, text)
        ),
    )  # fmt: skip
    sweep("runner.seed=1,2,3")
    assert [row[-1] for row in rows(seen[1])] == ["0-seed-1", "1-seed-2 running", "not started"]
    assert f"resume job 1: rlcore resume {log_path}/run/1-seed-2\n" in seen[1]


def test_nothing_is_made_where_nothing_runs(sweep, log_path, capsys):
    assert sweep("runner.seed=-1,-2") == 1
    assert sweep("runner.seed=1,2", "--dry-run") == 0
    assert sweep("runner.seed=1,2", "--cfg", "job") == 0
    assert "experiment_name: run/1-seed-2" in capsys.readouterr().out
    assert list(log_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["resume", "replay"])
def test_one_run_is_resumed_at_a_time(elsewhere, capsys, verb):
    assert main([verb, ".", "-m", "runner.max_epochs=3,4"]) == 2
    assert "one run at a time: --multirun is not possible" in capsys.readouterr().err
