"""Files for what libraries print in workers: places that can't be written do no harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlcore.workers.output import OutputFile, remove_empty, stderr_to

PROCESS = """
import os, sys
from pathlib import Path
from rlcore.workers.output import redirect_process
redirect_process(Path(sys.argv[1]))
print("printed")
sys.stderr.write("written\\n")
sys.stdout.flush()
os.write(2, b"by C code\\n")
"""


def speak(log: Path) -> str:
    """Return what stays of the output of a process that is redirected to `log`."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, str(log)], capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def test_a_process_writes_all_its_output_to_its_log(tmp_path: Path):
    log = tmp_path / "workers" / "env_0.log"
    assert speak(log) == ""
    assert sorted(log.read_text().splitlines()) == ["by C code", "printed", "written"]


@pytest.mark.parametrize("fault", ["no run folder", "folder is a file", "log is a folder"])
def test_a_process_keeps_its_output_where_the_log_cannot_be_written(tmp_path: Path, fault: str):
    """Root may write anywhere, so files in the way stand for a folder that is read-only."""
    folder = tmp_path / "run" / "workers"
    if fault == "folder is a file":
        folder.parent.mkdir()
        folder.touch()
    elif fault == "log is a folder":
        (folder / "env_0.log").mkdir(parents=True)
    kept = speak(folder / "env_0.log")
    assert sorted(kept.splitlines()) == ["by C code", "printed", "written"]
    assert folder.parent.exists() == (fault != "no run folder")


def test_the_file_of_standard_error_has_what_a_library_uses_of_a_stream(tmp_path: Path):
    log = tmp_path / "workers" / "local.log"
    with stderr_to(OutputFile(log)):
        assert sys.stderr.encoding.lower() == "utf-8" and sys.stderr.errors == "replace"
        assert sys.stderr.writable() and not sys.stderr.isatty()
        assert not log.parent.exists()  # nothing was written yet
        print("text \ud800", end=" ", file=sys.stderr)
        sys.stderr.buffer.write("µ ".encode())
        sys.stderr.writelines(["more ", "lines\n"])
        os.write(sys.stderr.fileno(), b"descriptor\n")
    assert log.read_text("utf-8") == "text ? µ more lines\ndescriptor\n"


def test_text_for_a_removed_folder_is_dropped(tmp_path: Path):
    run = tmp_path / "run"
    run.mkdir()
    shutil.rmtree(run)
    with stderr_to(OutputFile(run / "workers" / "local.log")):
        print("lost", file=sys.stderr, flush=True)
        sys.stderr.buffer.write(b"lost")
        os.write(sys.stderr.fileno(), b"lost")
    assert not run.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_text_for_a_full_disk_is_dropped():
    with stderr_to(OutputFile(Path("/dev/full"))):
        assert sys.stderr.write("lost\n") == 5
        print("lost", file=sys.stderr, flush=True)


def test_logs_that_cannot_be_removed_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "workers"
    folder.mkdir()
    for name in ("env_0.log", "env_1.log", "env_2.log"):
        (folder / name).touch()
    (folder / "env_3.log").write_text("printed")
    unlink = Path.unlink
    asked: list[str] = []

    def refuse_the_first(path: Path, missing_ok: bool = False) -> None:
        asked.append(path.name)
        if len(asked) == 1:
            raise PermissionError(1, "not permitted")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse_the_first)
    remove_empty(folder)
    assert sorted(asked) == ["env_0.log", "env_1.log", "env_2.log"]
    assert {log.name for log in folder.iterdir()} == {asked[0], "env_3.log"}
    remove_empty(tmp_path / "never created")
