"""Make videos of episodes: captions, mosaics, MP4 files. Knows nothing of envs, only of frames.

Frames are uint8 `[H, W, 3]`, RGB. They are made one by one as the encoder requests them: a mosaic
of large frames as a whole would take gigabytes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rlcore.contracts.episodes import Film
from rlcore.contracts.errors import AssetError
from rlcore.files.atomic import replacing

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

GREEN, RED = (40, 180, 70), (210, 50, 50)
WHITE, GREY = (255, 255, 255), (24, 24, 24)
READABLE_SIDE = 256  # smaller frames are enlarged before anything is written beneath them
FONT_SIZE = 12
LINE_HEIGHT = 16
BORDER = 4
PREFERRED_CODECS = ("libx264", "mpeg4")
# Constant quality, so that a small clip is a small file; the index first, for browsers.
ENCODER_OPTIONS = {"libx264": {"crf": "24", "preset": "veryfast"}, "mpeg4": {}}
CONTAINER_OPTIONS = {"movflags": "+faststart"}


def caption(film: Film) -> list[np.ndarray]:
    """Write sentence, step, return so far and success on a strip beneath each frame.

    Returns:
        uint8 `[H', W', 3]` each, enlarged by a whole factor where frames are small.
    """
    footage = film.footage
    # the whole factor that makes the shorter side readable
    factor = max(1, math.ceil(READABLE_SIDE / min(footage.frames[0].shape[:2])))
    lines = _wrapped(film.sentence, footage.frames[0].shape[1] * factor)
    marks = zip(footage.frames, footage.steps, footage.returns, footage.successes, strict=True)
    return [
        _with_strip(
            frame.repeat(factor, axis=0).repeat(factor, axis=1),
            lines,
            (f"step {step}", f"return {total:.2f}", "success" if success else ""),
        )
        for frame, step, total, success in marks
    ]


def mosaic(
    films: Sequence[Sequence[np.ndarray]], successes: Sequence[bool]
) -> Iterator[np.ndarray]:
    """Several episodes side by side in a grid as square as it gets, row by row.

    Shorter films hold their last frame; the border is green where the episode succeeded and red
    where it did not; empty places are black.

    Args:
        films: frames of each episode; sizes may differ between episodes.
        successes: one per film.

    Yields:
        as many frames as the longest film has.
    """
    colours = [GREEN if success else RED for _, success in zip(films, successes, strict=True)]
    height = max(film[0].shape[0] for film in films) + 2 * BORDER
    width = max(film[0].shape[1] for film in films) + 2 * BORDER
    columns = math.ceil(math.sqrt(len(films)))
    rows = math.ceil(len(films) / columns)
    for t in range(max(len(film) for film in films)):
        grid = np.zeros((rows * height, columns * width, 3), dtype=np.uint8)
        for i, (film, colour) in enumerate(zip(films, colours, strict=True)):
            frame = film[min(t, len(film) - 1)]
            cell = grid[(i // columns) * height :, (i % columns) * width :]
            cell = cell[: len(frame) + 2 * BORDER, : frame.shape[1] + 2 * BORDER]
            cell[:] = colour
            cell[BORDER:-BORDER, BORDER:-BORDER] = frame
        yield grid


def write_video(path: Path, frames: Iterable[np.ndarray], fps: int = 20) -> None:
    """Write an MP4 that browsers and players open: H.264, yuv420p, even sizes.

    Where this build of FFmpeg has no H.264 encoder, MPEG-4 is written and a warning says so.

    Args:
        path: the file; folders are made.
        frames: uint8 `[H, W, 3]` of one size, at least one.
        fps: frames per second.

    Raises:
        ValueError: no frames, or others.
        AssetError: PyAV is missing or has neither encoder.
    """
    rest = iter(frames)
    first = next(rest, None)
    if first is None or first.dtype != np.uint8 or first.ndim != 3 or first.shape[2] != 3:
        got = "none" if first is None else f"{first.dtype} {list(first.shape)}"
        raise ValueError(f"a film is made of frames uint8 [H, W, 3], got {got}")
    codec = _codec()
    import av
    from av.video.stream import VideoStream

    with (
        replacing(path) as partial,
        av.open(str(partial), "w", format="mp4", options=CONTAINER_OPTIONS) as container,
    ):
        stream = container.add_stream(codec, rate=fps, options=ENCODER_OPTIONS[codec])
        assert isinstance(stream, VideoStream)  # by its codec
        stream.height, stream.width = _even(first).shape[:2]
        stream.pix_fmt = "yuv420p"
        for frame in chain([first], rest):
            picture = av.VideoFrame.from_ndarray(_even(frame), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))  # what the encoder still holds


def _codec() -> str:
    try:
        import av
    except ImportError as error:
        raise AssetError(
            f"videos need PyAV, but importing it failed: {error}",
            hint="pip install av, or set save_video: false",
        ) from error
    for name in PREFERRED_CODECS:
        if name in av.codecs_available:
            if name != PREFERRED_CODECS[0]:
                warnings.warn(
                    f"PyAV has no {PREFERRED_CODECS[0]}: videos are written with {name}, "
                    "which browsers may not play",
                    stacklevel=3,
                )
            return name
    raise AssetError(
        f"PyAV has none of the encoders {', '.join(PREFERRED_CODECS)}",
        hint="pip install --force-reinstall av, or set save_video: false",
    )


def _even(frame: np.ndarray) -> np.ndarray:
    """yuv420p halves the colour planes: repeat the last row or column of odd sizes."""
    more = ((0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0))
    return np.ascontiguousarray(np.pad(frame, more, mode="edge"))


@cache
def _font() -> ImageFont | FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.load_default(FONT_SIZE)


def _wrapped(sentence: str, width: int) -> list[str]:
    """The sentence in lines of at most `width` pixels."""
    lines: list[str] = []
    for word in sentence.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _font().getlength(longer) <= width - 8:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _with_strip(
    frame: np.ndarray, lines: Sequence[str], status: tuple[str, str, str]
) -> np.ndarray:
    """The frame with the sentence beneath it, then step, return and success in three thirds."""
    from PIL import Image, ImageDraw

    width = frame.shape[1]
    image = Image.new("RGB", (width, LINE_HEIGHT * (len(lines) + 1) + 4), GREY)
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((4, 2 + i * LINE_HEIGHT), line, fill=WHITE, font=_font())
    places = zip(status, (4, width // 3, width * 3 // 4), (WHITE, WHITE, GREEN), strict=True)
    for text, left, colour in places:
        draw.text((left, 2 + len(lines) * LINE_HEIGHT), text, fill=colour, font=_font())
    return np.concatenate([frame, np.asarray(image)])
