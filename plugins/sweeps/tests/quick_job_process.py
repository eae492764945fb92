"""Stands for a job's process: makes a run's folder and its summary, unless its seed says otherwise.

    python quick_job_process.py PARENT CORES VERB [WORDS]

seed 20 fails with an error, 30 dies by SIGKILL and 40 waits for a signal (once), 50 dies by SIGKILL
after its summary, 60 stops itself by SIGSTOP (once), others end well.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

FIGURES = {
    "success_before": {"rate": 0.25, "n": 4, "lo": 0.0456, "hi": 0.6994},
    "success_after": {"rate": 0.75, "n": 4, "lo": 0.3006, "hi": 0.9544},
    "paired_difference": {"mean": 0.5, "lo": -0.1, "hi": 1.0},
    "seconds": {"update": 1.5},
}


def main(cores: str, words: list[str]) -> int:
    """Do what the seed asks for; returns the exit code."""
    values = dict(word.split("=", 1) for word in words if "=" in word)
    verb = words[0]
    resumed = words[0] == "resume"
    if resumed:
        folder = Path(words[1])
    else:
        place = (values[f"runner.logger.{key}"] for key in ("log_path", "experiment_name"))
        folder = Path(*(each.strip("'") for each in place))
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(json.dumps(values))
    seed = json.loads((folder / "config.yaml").read_text()).get("runner.seed", "0")
    with (folder / "seen.txt").open("a") as seen:
        print(words[0], cores, values.get("cluster.torch_threads"), file=seen)
    if seed == "20":
        print("warning: odd\nerror: env worker 0 died\n  hint: look", file=sys.stderr)
        return 2
    if seed == "30" and not resumed:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == "40" and not resumed:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
        (folder / "waits").touch()
        time.sleep(60)
    if seed == "60" and not resumed:
        os.kill(os.getpid(), signal.SIGSTOP)
    if verb == "eval":
        from rlcore.runs.tables import EpisodeResult, write_results

        rows = [EpisodeResult("press", n, 0, n > 0, 1.0, 5, "greedy", "p") for n in range(4)]
        (folder / "eval").mkdir()
        write_results(folder / "eval/eval.parquet", rows)
    if "GREETING" in os.environ:
        print(os.environ["GREETING"])
    partial = folder / ".summary.json"  # as a run does: a table may be read at any moment
    partial.write_text(json.dumps(FIGURES | {"seed": int(seed)}))
    partial.rename(folder / "summary.json")
    if seed == "50":
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2], sys.argv[3:]))
