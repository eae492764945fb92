"""Make videos of episodes: captions, mosaics, MP4 files. Knows frames, not envs.

Frames are uint8 `[H, W, 3]`, RGB. The frames of a mosaic are generated one at a time as the encoder
requests them, because all of them together could take gigabytes.
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

from rlcore.contracts.episodes import LabelledFootage
from rlcore.contracts.errors import AssetError
from rlcore.files.atomic import atomic_write

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

GREEN = (40, 180, 70)
RED = (210, 50, 50)
WHITE = (255, 255, 255)
GREY = (24, 24, 24)
READABLE_SIDE = 256  # pixels; frames with a shorter side are enlarged before they get a caption
FONT_SIZE = 12
LINE_HEIGHT = 16
BORDER = 4
PREFERRED_CODECS = ("libx264", "mpeg4")
# Constant quality keeps files of small clips small. The index comes first in the file, so that
# browsers can start to play before the download ends.
ENCODER_OPTIONS = {"libx264": {"crf": "24", "preset": "veryfast"}, "mpeg4": {}}
CONTAINER_OPTIONS = {"movflags": "+faststart"}


def caption(film: LabelledFootage) -> list[np.ndarray]:
    """Add a strip with instruction, step, return so far and success below each frame.

    Returns:
        frames uint8 `[H', W', 3]`; small frames are enlarged by an integer factor.
    """
    footage = film.footage
    # the smallest integer factor that makes the shorter side readable
    factor = max(1, math.ceil(READABLE_SIDE / min(footage.frames[0].shape[:2])))
    lines = _wrap_text(film.instruction, footage.frames[0].shape[1] * factor)
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
    """Yield frames that show several episodes in a nearly square grid, filled row by row.

    Shorter films hold their last frame. The border is green if the episode succeeded and red if
    not. Empty cells are black.

    Args:
        films: frames of each episode; sizes may differ between episodes.
        successes: whether the episode of each film succeeded.

    Yields:
        frames uint8 `[H', W', 3]`, as many as the longest film has.
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
    """Write an MP4 file that browsers and players can play: H.264, yuv420p, even sizes.

    If PyAV's FFmpeg has no H.264 encoder, MPEG-4 is written, with a warning.

    Args:
        path: path of the file; missing folders are created.
        frames: at least one frame uint8 `[H, W, 3]`, all of one size.
        fps: frames per second.

    Raises:
        ValueError: there is no frame, or the first has another dtype or shape.
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
        atomic_write(path) as partial,
        av.open(str(partial), "w", format="mp4", options=CONTAINER_OPTIONS) as container,
    ):
        stream = container.add_stream(codec, rate=fps, options=ENCODER_OPTIONS[codec])
        assert isinstance(stream, VideoStream)  # the codec is one of video
        stream.height, stream.width = _even(first).shape[:2]
        stream.pix_fmt = "yuv420p"
        for frame in chain([first], rest):
            picture = av.VideoFrame.from_ndarray(_even(frame), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))  # flush the encoder


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
    """Return a frame with even sides, repeating the last row or column of an odd one.

    yuv420p stores colour at half resolution, so it needs even sizes.
    """
    padding = ((0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0))
    return np.ascontiguousarray(np.pad(frame, padding, mode="edge"))


@cache
def _font() -> ImageFont | FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.load_default(FONT_SIZE)


def _wrap_text(sentence: str, width: int) -> list[str]:
    """Return the sentence in lines that fit `width` pixels; a longer word has its own line."""
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
    """Return the frame with a strip below it: lines of text, then step, return and success."""
    from PIL import Image, ImageDraw

    width = frame.shape[1]
    image = Image.new("RGB", (width, LINE_HEIGHT * (len(lines) + 1) + 4), GREY)
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((4, 2 + i * LINE_HEIGHT), line, fill=WHITE, font=_font())
    columns = zip(status, (4, width // 3, width * 3 // 4), (WHITE, WHITE, GREEN), strict=True)
    for text, x, colour in columns:
        draw.text((x, 2 + len(lines) * LINE_HEIGHT), text, fill=colour, font=_font())
    return np.concatenate([frame, np.asarray(image)])
