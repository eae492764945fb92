"""Decode frames one after another, and encode them. uint8 `[H, W, 3]`, RGB.

Videos are decoded by PyAV, single pictures by Pillow, as LeRobot's reader does: JPEG does not
define its pixels to the bit. Files may come from a stranger: only containers that hold their frames
themselves are opened (a playlist names other files), and pictures have at most as many pixels as
the data set says.
"""

from __future__ import annotations

import io
import math
import os
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from rlcore.files.damaged_files import damaged_on
from rlcore_data_lerobot.index import (
    INFO,
    LARGEST_NUMBER,
    LARGEST_PICTURE,
    Unfit,
    contradicted,
    require,
)

NEAR = 4
"""Frames up to which a later one is decoded to; key frames behind that are looked for."""
KEPT_OPEN = 8
"""Videos of a thread that stay open: one with an hour in it takes as long to open as ten frames."""
CODEC, PIXELS = "libsvtav1", "yuv420p"
CONTAINERS = {"format_whitelist": "mov,mp4,matroska,webm,avi", "protocol_whitelist": "file"}
"""What FFmpeg may open, and how."""
PICTURES = ("PNG", "JPEG")
EIGHT_BIT = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""Pillow's modes of pictures whose pixels a camera may have; those of depth have 16 or 32 bits."""
TOLERANCE, ROUNDED = 0.05, 1e-3
"""How far a frame may be from its time where the rows' times are those of their numbers: parts of a
frame, and seconds in any case, as containers round to milliseconds."""
HOUR = 3600.0  # in seconds: a video that ends so much too early was not cut short
CLOCK = (
    "timestamp counts seconds from the episode's start, from_timestamp from the video's: correct "
    "what differs, or convert the data set again; the files themselves are whole"
)
DEPTH = "a depth map is no camera: leave the feature out of cameras"
OPTIONS = {"g": "2", "crf": "30", "preset": "12"}
"""What LeRobot encodes with by default: a key frame every second frame, so any is near."""

os.environ.setdefault("SVT_LOG", "1")  # the encoder tells of its settings otherwise


def decoded(
    file: Path,
    times: Sequence[float],
    fps: float,
    size: tuple[int, int] | None = None,
    *,
    slack: Sequence[float] | None = None,
    most: int = LARGEST_PICTURE,
) -> Iterator[np.ndarray]:
    """Yield the frames of a video at `times`; only one is in memory at a time.

    For each time, it is the nearest frame, which must be less than half a frame away.

    Args:
        file: the video.
        times: seconds, ascending.
        fps: frames a second, of the times.
        size: (height, width) to scale to; None: as it is.
        slack: seconds that each time is away from its row's number / fps. A frame may be as far
            from its time, plus :data:`TOLERANCE`; None: up to half a frame.
        most: pixels of a frame.

    Raises:
        CheckpointError: it is missing or damaged, has no frame at one of them, or is no video of a
            camera.
    """
    with _open_video(file, most) as video:
        for number, time in enumerate(times):
            far = math.inf if slack is None else slack[number]
            yield _pixels(video.at(time, fps, far), size)


def about_video(file: Path, most: int = LARGEST_PICTURE) -> tuple[float, float]:
    """Return the end of a video in seconds (infinite if unknown) and its frames per second.

    Raises:
        CheckpointError: see :func:`decoded`.
    """
    with _open_video(file, most) as video:
        return video.end, video.rate


@contextmanager
def _open_video(file: Path, most: int) -> Iterator[_Video]:
    require(file)
    with damaged_on(file, av.FFmpegError):
        try:
            about = file.stat()
            yield _opened(file, most, about.st_mtime_ns, about.st_size, threading.get_ident())
        except Exception:
            _opened.cache_clear()  # where it stands is not known
            raise


class _Video:
    """An open video that keeps its decoding position."""

    def __init__(self, file: Path, most: int) -> None:
        self._file = file
        # of an absolute path nothing is taken for a protocol
        self._container = av.open(str(file.absolute()), container_options=dict(CONTAINERS))
        self._stream = self._container.streams.video[0]
        self._stream.thread_count = 1  # others decode beside it
        self._require_camera(most)
        self._stream.codec_context.options = {"max_pixels": str(most)}  # it may change its size
        self._frames = self._container.decode(self._stream)
        self._entries = self._stream.index_entries
        # fractions in the container, which are slow to compute with for each frame
        self.rate = float(self._stream.average_rate or 0)
        self._tick = float(self._stream.time_base or 1)
        self._begin = (self._stream.start_time or 0) * self._tick
        self._last = -math.inf  # time of the frame that was given last

    def _require_camera(self, most: int) -> None:
        width, height = self._stream.width, self._stream.height
        if width * height > most:
            raise contradicted(
                self._file,
                f"its frames are {height} x {width}, the data set says {most} pixels at most",
                "correct the feature's shape in meta/info.json",
            )
        pixels = self._stream.codec_context.pix_fmt or ""
        if pixels.startswith("gray") and pixels not in ("gray", "gray8"):
            raise contradicted(self._file, f"its frames are {pixels}, numbers of depth", DEPTH)

    @property
    def end(self) -> float:
        """Return the time in seconds at which the last frame ends; infinite if unknown."""
        if self._stream.duration:
            return self._begin + self._stream.duration * self._tick
        return self._container.duration / av.time_base if self._container.duration else math.inf

    def _nothing_at(self, time: float, fps: float, nearest: float | None) -> Exception:
        """The error for a time at which there is no frame: the video is cut short, or runs by
        another clock."""
        says = f"it has no frame at {time:.4f} s"
        if nearest is None and time < self.end + HOUR and same_clock(self.rate, fps):
            return ValueError(says)
        if time < self._begin:
            says += f", as it begins at {self._begin:.4f} s"
        elif nearest is not None:
            says += f", the nearest is at {nearest:.4f} s"
        says += f"; it has {self.rate:g} frames a second, {INFO} says {fps:g}"
        return contradicted(self._file, says, CLOCK)

    def at(self, time: float, fps: float, far: float = math.inf) -> av.VideoFrame:
        """Return the frame nearest to a time, at most `far` plus :data:`TOLERANCE` away.

        Raises:
            ValueError: it ends before.
            CheckpointError: no frame is near enough.
        """
        if not abs(time) <= LARGEST_NUMBER:  # FFmpeg's numbers hold no more
            raise self._nothing_at(time, fps, self._last)
        rate = max(fps, self.rate)
        half = 0.5 / rate
        again = self._last > time - half
        seek = again or self._is_far(time, rate)
        frame = self._sought(time, half) if seek else next(self._frames, None)
        while frame is not None and (frame.time is None or frame.time <= time - half):
            frame = next(self._frames, None)
        if frame is None or frame.time is None:
            raise self._nothing_at(time, fps, None)
        if abs(frame.time - time) >= min(half, far + max(TOLERANCE / rate, ROUNDED)):
            raise self._nothing_at(time, fps, frame.time)
        self._last = frame.time
        return frame

    def _is_far(self, time: float, rate: float) -> bool:
        """Return whether seeking to a key frame is faster than decoding the frames in between."""
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


def same_clock(rate: float, fps: float) -> bool:
    """Return whether a video of `rate` frames per second (0: unknown) has one for each row."""
    return not rate or abs(rate / fps - 1) < 0.02


@lru_cache(KEPT_OPEN)
def _opened(file: Path, most: int, modified: int, size: int, thread: int) -> _Video:
    """Open a video, cached by file state and thread."""
    return _Video(file, most)


def image(
    content: bytes, size: tuple[int, int] | None = None, *, most: int = LARGEST_PICTURE
) -> np.ndarray:
    """Decode a PNG or JPEG with Pillow to a frame.

    Raises:
        ValueError: it is damaged, or none of these.
        Unfit: it is one of depth, or larger than `most` pixels.
    """
    try:
        with Image.open(io.BytesIO(content), formats=PICTURES) as picture:
            if picture.width * picture.height > most:
                raise Unfit(
                    f"a picture is {picture.height} x {picture.width}, the data set says {most} "
                    "pixels at most"
                )
            if picture.mode not in EIGHT_BIT:
                raise Unfit(f"a picture has pixels {picture.mode}, numbers of depth; {DEPTH}")
            # as the library `datasets` does, by which LeRobot reads
            pixels = np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
    except UnidentifiedImageError:
        raise ValueError("it holds no PNG or JPEG") from None
    except Image.DecompressionBombError as error:
        raise Unfit(str(error)) from None
    except (OSError, SyntaxError, struct.error, zlib.error) as error:
        raise ValueError(f"it holds no PNG or JPEG: {error}") from None
    if size is None or size == pixels.shape[:2]:
        return pixels
    return _pixels(av.VideoFrame.from_ndarray(pixels, format="rgb24"), size)


def _pixels(frame: av.VideoFrame, size: tuple[int, int] | None) -> np.ndarray:
    if size is not None and size != (frame.height, frame.width):
        frame = frame.reformat(width=size[1], height=size[0], format="rgb24", interpolation="AREA")
    return frame.to_ndarray(format="rgb24")


def encode(file: Path, frames: Iterable[np.ndarray], fps: int) -> dict[str, Any]:
    """Write a video; return LeRobot's `info` of it (:func:`about`)."""
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
    """Return the entry of `info.json` for a video that :func:`encode` writes."""
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
    """Encode a frame as PNG."""
    context = av.CodecContext.create("png", "w")
    context.height, context.width = pixels.shape[:2]
    context.pix_fmt = "rgb24"
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
    return b"".join(bytes(packet) for packet in [*context.encode(frame), *context.encode(None)])
