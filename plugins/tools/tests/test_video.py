"""Videos: what the grid shows where, and that a player gets a well-formed file."""

from dataclasses import replace

import av
import numpy as np
import pytest
from rlcore_tools.video import GREEN, RED, caption, mosaic, write_video

from rlcore.contracts.episodes import Footage, LabelledFootage
from rlcore.contracts.errors import AssetError
from rlcore.contracts.specs import Episode


def film(frames, size=(8, 6), value=0):
    """Frames of growing brightness: frame i is value + i."""
    shades = np.arange(frames, dtype=np.uint8)[:, None, None, None] + np.uint8(value)
    return np.broadcast_to(shades, (frames, *size, 3)).copy()


def episode(frames, size=(8, 6), value=0, returns=None, success_at=None):
    """A film with a frame after each step; it has succeeded from step `success_at` on."""
    steps = list(range(1, frames + 1))
    footage = Footage(
        Episode(0, 0),
        list(film(frames, size, value)),
        steps,
        returns or [0.0] * frames,
        [success_at is not None and step >= success_at for step in steps],
    )
    return LabelledFootage(footage, "push-v3", "push")


def test_mosaic_places_holds_and_colours():
    # three films of 8x6 with a border of 4: cells of 16x14 in a grid of 2x2
    films = [film(5), film(2, value=100), film(3, value=200)]
    grid = np.stack(list(mosaic(films, [True, False, True])))
    assert grid.shape == (5, 32, 28, 3)
    assert tuple(grid[0, 0, 0]) == GREEN
    assert tuple(grid[0, 0, 14]) == RED
    assert tuple(grid[0, 16, 0]) == GREEN
    assert [grid[t, 6, 6, 0] for t in range(5)] == [0, 1, 2, 3, 4]
    assert [grid[t, 6, 20, 0] for t in range(5)] == [100, 101, 101, 101, 101]  # last one held
    assert [grid[t, 22, 6, 0] for t in range(5)] == [200, 201, 202, 202, 202]
    assert not grid[:, 16:, 14:].any()  # the fourth place is empty


def test_mosaic_of_unequal_sizes_fits_the_largest():
    # the second cell is 4x10 and its border: 12x18, in a place of 16x18
    (grid,) = mosaic([film(1, (8, 6)), film(1, (4, 10), value=9)], [True, True])
    assert grid.shape == (16, 36, 3)
    assert grid[4, 22, 0] == 9
    assert not grid[12:, 18:].any()


def test_mosaic_needs_an_outcome_a_film():
    with pytest.raises(ValueError):
        list(mosaic([film(1), film(1)], [True]))


def test_caption_enlarges_and_marks_success_from_its_step_on():
    # 64x48 enlarged by ceil(256/48) = 6 to 384x288; one line of text and the status beneath
    captioned = np.stack(caption(episode(4, (64, 48), value=50, success_at=3)))
    assert captioned.shape[0] == 4
    assert captioned.shape[2] == 288
    assert captioned.shape[1] > 384
    assert (captioned[2, :384] == 52).all()  # the picture itself is untouched
    strip = captioned[:, 384:].astype(int)
    greenish = (strip[..., 1] > strip[..., 0] + 60).reshape(4, -1).any(axis=1)
    assert greenish.tolist() == [False, False, True, True]
    assert (strip > 200).reshape(4, -1).any(axis=1).all()  # white text on all


def test_caption_shows_the_return_so_far():
    """Equal but for the return of the second frame: the strips differ there, in the middle third
    of the last line (256 px wide: from 85 to 192), and nowhere else."""
    first = caption(episode(2, (256, 256), returns=[0.0, 0.25]))
    other = caption(episode(2, (256, 256), returns=[0.0, 1.75]))
    assert np.array_equal(first[0], other[0])
    rows, columns, _ = np.nonzero(first[1] != other[1])
    assert rows.min() >= 256 + 16 and columns.min() >= 85 and columns.max() < 192


def test_caption_wraps_long_sentences():
    short = caption(replace(episode(1, (256, 256)), instruction="go"))[0]
    long = caption(replace(episode(1, (256, 256)), instruction="go " * 60))[0]
    assert long.shape[0] > short.shape[0] + 16


def test_file_is_h264_for_browsers(tmp_path):
    path = tmp_path / "video" / "eval" / "first.mp4"
    source = film(7, (33, 47), value=40)  # odd sizes
    write_video(path, source, fps=10)
    assert [p.name for p in path.parent.iterdir()] == ["first.mp4"]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert (stream.width, stream.height) == (48, 34)
        assert float(stream.average_rate) == 10.0
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
    assert len(frames) == 7
    # lossy, but a grey of 40 + i stays near it
    for i, frame in enumerate(frames):
        assert abs(frame.astype(int).mean() - (40 + i)) < 4


@pytest.mark.parametrize(
    "bad",
    [np.zeros((2, 4, 4, 3)), np.zeros((2, 4, 4), np.uint8), np.zeros((0, 4, 4, 3), np.uint8)],
)
def test_other_arrays_are_refused(tmp_path, bad):
    with pytest.raises(ValueError):
        write_video(tmp_path / "x.mp4", bad)
    assert not (tmp_path / "x.mp4").exists()


def test_without_h264_it_warns_and_writes_mpeg4(tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", {"mpeg4"})
    with pytest.warns(UserWarning, match="libx264"):
        write_video(tmp_path / "x.mp4", film(3, (16, 16)))
    with av.open(str(tmp_path / "x.mp4")) as container:
        assert container.streams.video[0].codec_context.name == "mpeg4"


def test_without_any_encoder_it_is_an_asset_error(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", set())
    with refused(AssetError, "save_video"):
        write_video(tmp_path / "x.mp4", film(3, (16, 16)))
