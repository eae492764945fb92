"""Decode frames one after another, and encode them. uint8 `[H, W, 3]`, RGB; needs PyAV alone."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import blaming, damaged

FAR = 2.0
"""Seconds between two frames from which the key frame before the second one is looked for: frames
in between are decoded else."""
CODEC, PIXELS = "libsvtav1", "yuv420p"
OPTIONS = {"g": "2", "crf": "30", "preset": "12"}
"""What LeRobot encodes with by default: a key frame every second frame, so any is near."""

os.environ.setdefault("SVT_LOG", "1")  # the encoder tells of its settings otherwise


def decoded(
    file: Path, times: Sequence[float], fps: float, size: tuple[int, int] | None = None
) -> Iterator[np.ndarray]:
    """The frames of a video at `times`, one at a time, so that one is held and not all.

    A frame is taken for the time that it is nearest to, less than half a frame away: times in
    files are rounded, and videos of odd rates never agree to 1e-4 s.

    Args:
        file: the video.
        times: seconds, ascending.
        fps: frames a second.
        size: (height, width) to scale to; None: as it is.

    Raises:
        CheckpointError: it is missing or damaged, or has no frame at one of them.
    """
    if not file.exists():
        raise CheckpointError(f"the data set is incomplete: {file} is missing")
    wanted = iter(times)
    time = next(wanted, None)
    half = 0.5 / fps
    with blaming(file, av.FFmpegError), av.open(str(file)) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1  # others decode beside it
        at = -FAR if time is not None and time > half else 0.0
        frames = container.decode(stream)
        while time is not None:
            if time - at >= FAR and stream.time_base is not None:
                container.seek(max(int((time - half) / stream.time_base), 0), stream=stream)
                frames, at = container.decode(stream), time
            frame = next(frames, None)
            if frame is None or (frame.time is not None and frame.time >= time + half):
                raise damaged(file, f"it has no frame at {time:.4f} s")
            if frame.time is not None and frame.time > time - half:
                yield _pixels(frame, size)
                at, time = time, next(wanted, None)


def image(content: bytes, size: tuple[int, int] | None = None) -> np.ndarray:
    """The frame of a PNG or JPEG. Raises av.FFmpegError or ValueError for other bytes."""
    with av.open(io.BytesIO(content), "r") as container:
        frame = next(container.decode(video=0), None)
    if frame is None:
        raise ValueError("it holds no image")
    return _pixels(frame, size)


def _pixels(frame: av.VideoFrame, size: tuple[int, int] | None) -> np.ndarray:
    if size is not None and size != (frame.height, frame.width):
        frame = frame.reformat(width=size[1], height=size[0], format="rgb24", interpolation="AREA")
    return frame.to_ndarray(format="rgb24")


def encode(file: Path, frames: Iterable[np.ndarray], fps: int) -> dict[str, Any]:
    """Write a video; returns what LeRobot says of one."""
    first = True
    with av.open(str(file), "w", format="mp4") as container:
        stream: Any = container.add_stream(CODEC, rate=fps, options=dict(OPTIONS))
        stream.pix_fmt, stream.thread_count = PIXELS, 1
        for pixels in frames:
            if first:
                stream.height, stream.width = pixels.shape[:2]
                first = False
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return about(fps, stream.height, stream.width)


def about(fps: int, height: int, width: int) -> dict[str, Any]:
    """What `info.json` says of a video that :func:`encode` writes."""
    return {
        "video.height": height,
        "video.width": width,
        "video.channels": 3,
        "video.codec": "av1",
        "video.pix_fmt": PIXELS,
        "video.is_depth_map": False,
        "video.fps": fps,
        "video.g": int(OPTIONS["g"]),
        "video.crf": int(OPTIONS["crf"]),
        "has_audio": False,
    }


def png(pixels: np.ndarray) -> bytes:
    """A frame without loss."""
    context = av.CodecContext.create("png", "w")
    context.height, context.width = pixels.shape[:2]
    context.pix_fmt = "rgb24"
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
    return b"".join(bytes(packet) for packet in [*context.encode(frame), *context.encode(None)])
