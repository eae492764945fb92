"""The run's folder: never overwritten, found again, clear errors."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.files.atomic import atomic_write, new_folder, sweep, write_text
from rlcore.runs.folder import RunFolder


def test_taken_names_get_a_number(tmp_path):
    names = [RunFolder.create(tmp_path, "run").name for _ in range(3)]
    assert names == ["run", "run-2", "run-3"]


def test_runs_that_start_together_get_a_folder_each(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: RunFolder.create(tmp_path, "run").path, range(24)))
    assert len(set(paths)) == 24
    assert all(path.is_dir() for path in paths)


def test_a_job_of_a_sweep_lies_deeper(tmp_path):
    folder = RunFolder.create(tmp_path, "sweep/0_lr=0.1")
    assert folder.path == tmp_path / "sweep" / "0_lr=0.1"


def test_a_folder_that_cannot_be_made_is_refused(refused, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with refused(ConfigError, tmp_path / "file", "runner.logger.log_path"):
        RunFolder.create(tmp_path / "file", "run")


def test_only_a_run_with_its_configuration_is_opened(refused, tmp_path):
    with refused(CheckpointError, tmp_path / "gone"):
        RunFolder.open(tmp_path / "gone")
    made = RunFolder.create(tmp_path, "run")
    with refused(CheckpointError, "config.yaml"):
        RunFolder.open(made.path)
    made.write_config("runner: {seed: 1}\n")
    opened = RunFolder.open(made.path)
    assert opened == made
    assert opened.config.read_text() == "runner: {seed: 1}\n"


def test_layout_of_a_run_folder(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.config == tmp_path / "config.yaml"
    assert folder.manifest == tmp_path / "manifest.json"
    assert folder.metrics == tmp_path / "metrics.jsonl"
    assert folder.tensorboard == tmp_path / "tensorboard"
    assert folder.checkpoints == tmp_path / "checkpoints"
    assert folder.video("train") == tmp_path / "video/train"
    assert folder.evaluations == tmp_path / "eval"
    assert folder.summary == tmp_path / "summary.json"
    assert folder.demonstrations == tmp_path / "demonstrations"


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    write_text(tmp_path / "a" / "file.txt", "old")
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "a" / "file.txt") as partial:
        partial.write_text("half")
        raise RuntimeError
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file.txt"]
    assert (tmp_path / "a" / "file.txt").read_text() == "old"


def test_a_folder_is_whole_or_not_there_and_never_replaced(tmp_path):
    (tmp_path / "it").mkdir()  # an empty one may be there
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".partial-{gone.pid}-it"
    left.write_text("what a killed one left, of whatever kind")
    with pytest.raises(RuntimeError), new_folder(tmp_path / "it") as partial:
        (partial / "half").write_text("half")
        raise RuntimeError
    assert not any((tmp_path / "it").iterdir())
    with new_folder(tmp_path / "it") as partial:
        (partial / "one").write_text("one")
    with pytest.raises(FileExistsError), new_folder(tmp_path / "it") as partial:
        (partial / "two").write_text("two")
    assert [path.name for path in tmp_path.iterdir()] == ["it"]
    assert [path.name for path in (tmp_path / "it").iterdir()] == ["one"]


def test_of_two_writers_of_a_folder_the_first_to_end_has_it(tmp_path):
    """The other one is another process: the number in its name is that of one that lives."""
    target = tmp_path / "it"
    other = tmp_path / f".partial-{os.getppid()}-it"
    other.mkdir()
    (other / "two").write_text("two")
    with new_folder(target) as partial:
        (partial / "one").write_text("one")
    assert (target / "one").read_text() == "one"
    assert (other / "two").read_text() == "two"
    with pytest.raises(OSError):
        other.rename(target)


def test_sweep_removes_partial_files_but_not_those_of_others(tmp_path):
    spared = {"a", f".partial-{os.getpid()}-report.html", "replay/t_0/.partial-7-episode.mp4"}
    for name in {"eval/.partial-1-x.parquet", ".partial-9-config.yaml"} | spared:
        write_text(tmp_path / name, "")
    (tmp_path / "checkpoints" / ".partial-1-step_000001" / "actor").mkdir(parents=True)
    sweep(tmp_path, spare=("replay", "report.html"))
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == spared
    assert not any((tmp_path / "checkpoints").iterdir())


def test_an_unfinished_report_is_swept_when_its_writer_has_ended(tmp_path):
    run = RunFolder.create(tmp_path, "run")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = run.path / f".partial-{gone.pid}-report.html"
    alive = run.path / f".partial-{os.getpid()}-report.html"
    for unfinished in (left, alive):
        unfinished.write_text("<html>")
    with run.locked():
        assert alive.exists() and not left.exists()
