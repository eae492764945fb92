"""What the recorder of file events sees, of a script with a few of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, os, sys
from pathlib import Path
from file_events import Recorder, Store
base, folder = Path(sys.argv[1]), Path(sys.argv[1]) / "run"
recorder = Recorder(folder, Store(base / "store"), "ignored")
recorder.watch()
folder.mkdir()
with (folder / "log").open("a") as log:
    log.write("abcd"); log.flush()
    os.fsync(log.fileno())
    log.write("ef"); log.flush()
    (folder / "ignored").write_text("x")
    (folder / ".new").write_text("1234")
    (folder / ".new").rename(folder / "new")
    (base / "elsewhere").write_text("x")
    os.truncate(folder / "log", 1)
    log.write("ghi"); log.flush()
    os.remove("new", dir_fd=os.open(folder, os.O_RDONLY))
recorder.end()
names = {entry: (base / "store" / entry) for one in recorder.states for entry in one.tree.values()}
read = {entry: path.read_text() for entry, path in names.items() if path.is_file()}
states = [[state.label, {n: read.get(e, e) for n, e in state.tree.items() if n != "ignored"}]
          for state in recorder.states]
print(json.dumps(states))
"""


def test_states_of_a_folder(tmp_path: Path):
    words = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    whole = "abcdef"
    assert json.loads(done.stdout) == [
        ["after the start", {}],
        ["after open log, log empty", {"log": ""}],
        ["after open log, log written by half", {"log": "ab"}],
        ["after open log", {"log": "abcd"}],
        ["after fsync log, log written by half", {"log": "abcde"}],
        ["after fsync log", {"log": whole}],
        ["after open .new, .new empty", {"log": whole, ".new": ""}],
        ["after open .new, .new written by half", {"log": whole, ".new": "12"}],
        ["after open .new", {"log": whole, ".new": "1234"}],
        ["after os.rename .new -> new", {"log": whole, "new": "1234"}],
        ["after os.rename .new -> new, what was not flushed lost", {"log": "abcd", "new": ""}],
        ["after os.truncate log, log cut", {"log": "a", "new": "1234"}],
        ["after os.truncate log, log written by half", {"log": "ag", "new": "1234"}],
        ["after os.truncate log", {"log": "aghi", "new": "1234"}],
        ["after os.remove new", {"log": "aghi"}],
    ]
