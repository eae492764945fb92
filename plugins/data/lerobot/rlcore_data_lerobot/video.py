"""Decode frames one after another, and encode them. uint8 `[H, W, 3]`, RGB; needs PyAV alone."""

from __future__ import annotations

import io
import math
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import numpy as np

from rlcore.files.damaged_files import blaming
from rlcore_data_lerobot.index import require

NEAR = 4
"""Frames up to which a later one is decoded to; key frames behind that are looked for."""
KEPT_OPEN = 8
"""Videos of a thread that stay open: one with an hour in it takes as long to open as ten frames."""
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
        fps: frames a second, of the times.
        size: (height, width) to scale to; None: as it is.

    Raises:
        CheckpointError: it is missing or damaged, or has no frame at one of them.
    """
    require(file)
    with blaming(file, av.FFmpegError):
        try:
            about = file.stat()
            video = _opened(file, about.st_mtime_ns, about.st_size, threading.get_ident())
            for time in times:
                yield _pixels(video.at(time, fps), size)
        except Exception:
            _opened.cache_clear()  # where it stands is not known
            raise


class _Video:
    """An open video, which remembers where it stands."""

    def __init__(self, file: Path) -> None:
        self._container = av.open(str(file))
        self._stream = self._container.streams.video[0]
        self._stream.thread_count = 1  # others decode beside it
        self._frames = self._container.decode(self._stream)
        self._entries = self._stream.index_entries
        # fractions in the container, which are slow to compute with for each frame
        self._rate = float(self._stream.average_rate or 0)
        self._tick = float(self._stream.time_base or 1)
        self._last = -math.inf  # time of the frame that was given last

    def at(self, time: float, fps: float) -> av.VideoFrame:
        """The frame nearest to a time. Raises ValueError where there is none."""
        rate = max(fps, self._rate)
        half = 0.5 / rate
        again = self._last > time - half
        far = again or self._is_far(time, rate)
        frame = self._sought(time, half) if far else next(self._frames, None)
        while frame is not None and (frame.time is None or frame.time <= time - half):
            frame = next(self._frames, None)
        if frame is None or frame.time is None or frame.time >= time + half:
            begin = (self._stream.start_time or 0) * self._tick
            begins = f", as it begins at {begin:.4f} s" if time < begin else ""
            raise ValueError(f"it has no frame at {time:.4f} s{begins}")
        self._last = frame.time
        return frame

    def _is_far(self, time: float, rate: float) -> bool:
        """Whether a key frame leads to a time faster than the frames in between."""
        key = self._entries.search_timestamp(int(time / self._tick))
        return key < 0 or self._entries[key].timestamp * self._tick > self._last + NEAR / rate

    def _sought(self, time: float, half: float) -> av.VideoFrame | None:
        """The first frame behind the key frame that leads to a time. The index may name a later
        one, as it counts in the order of decoding; HEVC has frames before their key frame."""
        place = int((time + half / 2) / self._tick)  # times in files are rounded
        while True:
            self._container.seek(place, stream=self._stream)
            self._frames = self._container.decode(self._stream)
            frame = next(self._frames, None)
            key = self._entries.search_timestamp(place)
            if key <= 0 or (frame and frame.time is not None and frame.time < time + half):
                return frame
            place = self._entries[key].timestamp - 1


@lru_cache(KEPT_OPEN)
def _opened(file: Path, modified: int, size: int, thread: int) -> _Video:
    """A video of one thread, as it is now."""
    return _Video(file)


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
    if sys.platform == "linux":
        policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    with av.open(str(file), "w", format="mp4") as container:
        stream: Any = container.add_stream(CODEC, rate=fps, options=dict(OPTIONS))
        stream.pix_fmt, stream.thread_count = PIXELS, 1
        for pixels in frames:
            if first:
                stream.height, stream.width = pixels.shape[:2]
                first = False
            packets = stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24"))
            if sys.platform == "linux" and os.sched_getscheduler(0) != policy:
                # root's encoder takes real-time priority for the thread that calls it, for good,
                # and whatever that starts afterwards has it too and lets nothing else run
                os.sched_setscheduler(0, policy, priority)
            container.mux(packets)
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
