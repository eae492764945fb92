"""Videos of episodes: captions, mosaics, MP4 files. Knows nothing of envs, only of frames.

Legend: F frames, H and W pixels; a film is uint8 `[F, H, W, 3]`, RGB.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlcore.errors import AssetError
from rlcore.track.files import replacing

GREEN, RED = (40, 180, 70), (210, 50, 50)
WHITE, GREY = (255, 255, 255), (24, 24, 24)
READABLE_SIDE = 256  # smaller frames are enlarged before anything is written beneath them
FONT_SIZE = 12
LINE_HEIGHT = 16
PREFERRED_CODECS = ("libx264", "mpeg4")


@dataclass(frozen=True)
class Film:
    """One recorded episode.

    Attributes:
        frames: uint8 `[F, H, W, 3]`.
        sentence: its task description.
        success: whether it succeeded.
    """

    frames: np.ndarray
    sentence: str
    success: bool


def write_mosaic(path: Path, films: Sequence[Film], *, fps: int, info: bool) -> None:
    """Write several episodes into one MP4, each with its sentence, step and success if `info`.

    Raises:
        AssetError: this machine can't encode videos.
    """
    shown = [
        caption(film.frames, film.sentence, len(film.frames) if film.success else None)
        if info
        else film.frames
        for film in films
    ]
    write_video(path, mosaic(shown, [film.success for film in films]), fps)


def caption(film: np.ndarray, sentence: str, success_step: int | None = None) -> np.ndarray:
    """Write sentence, step and success on a strip beneath each frame.

    Args:
        film: uint8 `[F, H, W, 3]`; frame i was taken after step i + 1.
        sentence: the task description; wrapped to the width.
        success_step: the step at which the episode succeeded, None if it did not.

    Returns:
        uint8 `[F, H', W', 3]`, enlarged by a whole factor where frames are small.
    """
    film = _enlarged(film)
    lines = _wrapped(sentence, film.shape[2])
    captioned = []
    for i, frame in enumerate(film):
        succeeded = success_step is not None and i + 1 >= success_step
        status = (f"step {i + 1}", "success" if succeeded else "")
        captioned.append(np.concatenate([frame, _strip(film.shape[2], lines, status)]))
    return np.stack(captioned)


def mosaic(films: Sequence[np.ndarray], successes: Sequence[bool], border: int = 4) -> np.ndarray:
    """Several episodes side by side in a grid as square as it gets, row by row.

    Shorter films hold their last frame; the border is green where the episode succeeded and red
    where it did not; empty places are black.

    Args:
        films: uint8 `[F_i, H_i, W_i, 3]`, at least one.
        successes: one a film.
        border: pixels.

    Returns:
        uint8 `[max F_i, H', W', 3]`.
    """
    framed = [
        _bordered(film, GREEN if success else RED, border)
        for film, success in zip(films, successes, strict=True)
    ]
    length = max(len(film) for film in framed)
    height = max(film.shape[1] for film in framed)
    width = max(film.shape[2] for film in framed)
    columns = math.ceil(math.sqrt(len(framed)))
    rows = math.ceil(len(framed) / columns)
    grid = np.zeros((length, rows * height, columns * width, 3), dtype=np.uint8)
    for i, film in enumerate(framed):
        top, left = (i // columns) * height, (i % columns) * width
        held = np.concatenate([film, np.repeat(film[-1:], length - len(film), axis=0)])
        grid[:, top : top + film.shape[1], left : left + film.shape[2]] = held
    return grid


def write_video(path: Path, film: np.ndarray, fps: int = 20) -> None:
    """Write an MP4 that browsers and players open: H.264, yuv420p, even sizes.

    Where this build of FFmpeg has no H.264 encoder, MPEG-4 is written and a warning says so.

    Raises:
        ValueError: not uint8 `[F, H, W, 3]` with at least one frame.
        AssetError: PyAV is missing or has neither encoder.
    """
    if film.dtype != np.uint8 or film.ndim != 4 or film.shape[3] != 3 or len(film) == 0:
        raise ValueError(f"a film is uint8 [F, H, W, 3], got {film.dtype} {list(film.shape)}")
    import imageio.v3 as iio

    codec = _codec()
    with replacing(path) as partial:
        iio.imwrite(
            partial,
            _even(film),
            plugin="pyav",
            extension=path.suffix,
            codec=codec,
            fps=fps,
            out_pixel_format="yuv420p",
        )


def _codec() -> str:
    try:
        import av
    except ImportError as error:
        raise AssetError(
            f"videos need PyAV, which can't be imported: {error}",
            hint='pip install "imageio[pyav]", or set save_video: false',
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


def _even(film: np.ndarray) -> np.ndarray:
    """yuv420p halves the colour planes: repeat the last row or column of odd sizes."""
    odd_height, odd_width = film.shape[1] % 2, film.shape[2] % 2
    return np.pad(film, ((0, 0), (0, odd_height), (0, odd_width), (0, 0)), mode="edge")


def _enlarged(film: np.ndarray) -> np.ndarray:
    """Whole-number nearest enlargement until the shorter side is readable."""
    factor = max(1, math.ceil(READABLE_SIDE / min(film.shape[1:3])))
    return film.repeat(factor, axis=1).repeat(factor, axis=2)


def _bordered(film: np.ndarray, colour: tuple[int, int, int], border: int) -> np.ndarray:
    frames, height, width = film.shape[:3]
    framed = np.empty((frames, height + 2 * border, width + 2 * border, 3), dtype=np.uint8)
    framed[:] = colour
    framed[:, border : border + height, border : border + width] = film
    return framed


def _wrapped(sentence: str, width: int) -> list[str]:
    """The sentence in lines of at most `width` pixels."""
    from PIL import ImageFont

    font = ImageFont.load_default(FONT_SIZE)
    lines: list[str] = []
    for word in sentence.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width - 8:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _strip(width: int, lines: Sequence[str], status: tuple[str, str]) -> np.ndarray:
    """uint8 `[H, width, 3]`: the sentence, then step and success."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(FONT_SIZE)
    image = Image.new("RGB", (width, LINE_HEIGHT * (len(lines) + 1) + 4), GREY)
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((4, 2 + i * LINE_HEIGHT), line, fill=WHITE, font=font)
    step, success = status
    draw.text((4, 2 + len(lines) * LINE_HEIGHT), step, fill=WHITE, font=font)
    draw.text((width // 2, 2 + len(lines) * LINE_HEIGHT), success, fill=GREEN, font=font)
    return np.asarray(image)
