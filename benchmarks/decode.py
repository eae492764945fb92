"""Frames a second of the reader of LeRobot's videos against PyAV alone, and what training waits.

    python benchmarks/decode.py [--frames N] [--repeats N] [--size N] [--train] [--json PATH]

The reader and PyAV decode the same video in turn, in this process and single-threaded, by the
process's CPU clock: all frames in order, and frames drawn at random, each by itself, for which PyAV
seeks in a video that it keeps open. With --train, the quickstart's model learns from the
quickstart's demonstrations, in videos: with the default memory for decoded frames, and without any,
so that each frame is decoded each time it is drawn. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median

import av
import numpy as np
from parts.machine import Machine
from rlcore_data_lerobot.video import decode_video

from rlcore.cli.main import main as rlcore

FPS = 30
DRAWN = 200
SEED = 0
VIDEOS = {
    "AV1, g 2": ("libsvtav1", {"g": "2", "crf": "30", "preset": "12"}),
    "h264, g 2": ("libx264", {"g": "2", "crf": "30"}),
    "hevc, g 2": ("libx265", {"crf": "30", "x265-params": "log-level=none:keyint=2:no-open-gop=1"}),
    "h264, g 250": ("libx264", {}),
}
"""As LeRobot encodes in its three codecs, and as x264 does when nothing is said."""
TRAIN = (
    "experiment=quickstart", "cluster.backend=local", "sft.max_steps=100", "runner.seed=0",
    "runner.logger.logger_backends=[]", "env.eval.trials_per_task=1", "env.eval.total_num_envs=4",
    "env.eval.max_episode_steps=10", "env.eval.video_cfg.save_video=false",
)  # fmt: skip


def main() -> None:
    options = _arguments()
    machine = Machine.this(cores=1)
    with tempfile.TemporaryDirectory() as folder:
        rates = {
            name: rates_of(_encoded(Path(folder), name, options), options.frames, options.repeats)
            for name in VIDEOS
        }
        waits = waiting(Path(folder)) if options.train else {}
    for line in (*machine.lines(), "", *table(rates), "", *told(waits)):
        print(line)
    if options.json is not None:
        found = {"machine": asdict(machine), "frames_per_cpu_second": rates, "training": waits}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def rates_of(video: Path, frames: int, repeats: int) -> dict[str, float]:
    """Frames a CPU-second of each way, medians of repeats that take turns."""
    times = [number / FPS for number in range(frames)]
    drawn = np.random.default_rng(SEED).choice(times, DRAWN).tolist()
    ways: dict[str, tuple[int, Callable[[], None]]] = {
        "in order, PyAV": (frames, lambda: bare_in_order(video)),
        "in order, reader": (frames, lambda: _all(decode_video(video, times, FPS))),
        "drawn, PyAV": (DRAWN, lambda: bare_drawn(video, drawn)),
        "drawn, reader": (DRAWN, lambda: [_all(decode_video(video, [one], FPS)) for one in drawn]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):
        for name, (_, run) in ways.items():
            begin = time.process_time()
            run()
            if repeat:  # the first one warms up
                seconds[name].append(time.process_time() - begin)
    return {name: count / median(seconds[name]) for name, (count, _) in ways.items()}


def bare_in_order(video: Path) -> None:
    """All frames, as PyAV's own documentation decodes them."""
    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        for frame in container.decode(stream):
            frame.to_ndarray(format="rgb24")


def bare_drawn(video: Path, times: list[float]) -> None:
    """Each frame from the key frame before it."""
    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        for at in times:
            place = int((at + 0.25 / FPS) / stream.time_base)
            container.seek(place, stream=stream)
            for frame in container.decode(stream):
                if frame.time > at - 0.5 / FPS:
                    frame.to_ndarray(format="rgb24")
                    break


def waiting(folder: Path) -> dict[str, dict[str, float]]:
    """Seconds of supervised training, and those that it waited for frames, by the data."""
    found = {}
    for name, form, memory in (
        ("our format, in memory", "safetensors", None),
        ("AV1, 4 GB kept", "lerobot", 4.0),
        ("AV1, nothing kept", "lerobot", 0.0),
    ):
        data = f"collect.path={folder}/{form}"
        logs = f"runner.logger.log_path={folder}/logs"
        if not (folder / form).exists():
            _run("collect", "experiment=quickstart", "cluster.backend=local", logs,
                 f"collect.output={folder}/{form}",
                 "collect.episodes_per_task=6", f"collect.format={form}")  # fmt: skip
        run = f"{form}-{memory}"
        _run("sft", *TRAIN, data, logs, f"runner.logger.experiment_name={run}",
             *([] if memory is None else [f"sft.memory_gb={memory}"]))  # fmt: skip
        history = json.loads((folder / "logs" / run / "sft.json").read_text())
        found[name] = {key: history[key] for key in ("steps", "seconds", "waited")}
    return found


def table(rates: dict[str, dict[str, float]]) -> list[str]:
    """Lines for people."""
    lines = [f"{'frames a CPU-second':20}{'PyAV':>8}{'reader':>8}{'ratio':>7}"]
    for name, one in rates.items():
        for way in ("in order", "drawn"):
            alone, ours = one[f"{way}, PyAV"], one[f"{way}, reader"]
            lines.append(f"{name + ', ' + way:20}{alone:8.0f}{ours:8.0f}{ours / alone:7.2f}")
    return lines


def told(waits: dict[str, dict[str, float]]) -> list[str]:
    """Lines for people."""
    return [
        f"{name:22} {one['steps']:.0f} steps in {one['seconds']:.1f} s, of which it waited "
        f"{one['waited']:.2f} s ({one['waited'] / one['seconds']:.1%})"
        for name, one in waits.items()
    ]


def _encoded(folder: Path, name: str, options: argparse.Namespace) -> Path:
    """A video of a textured picture that moves, with noise as cameras have it."""
    codec, settings = VIDEOS[name]
    file, size = folder / f"{name}.mp4", options.size
    draw = np.random.default_rng(SEED)
    picture = draw.integers(0, 256, (size, size, 3), np.uint8).repeat(4, 0).repeat(4, 1)
    with av.open(str(file), "w") as container:
        stream = container.add_stream(codec, rate=FPS, options=settings)
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        for number in range(options.frames):
            y, x = (2 * number) % size, (3 * number) % size
            noise = draw.integers(-4, 5, (size, size, 3))
            pixels = (picture[y : y + size, x : x + size] + noise).clip(0, 255).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return file


def _all(frames) -> None:  # type: ignore[no-untyped-def]
    for _ in frames:
        pass


def _run(*words: str) -> None:
    if rlcore(list(words)) != 0:
        raise SystemExit(f"rlcore {' '.join(words)} failed")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", type=int, default=224, help="height and width of frames")
    parser.add_argument("--train", action="store_true", help="also what training waits")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
