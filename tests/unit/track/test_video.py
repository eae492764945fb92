"""Videos: what the grid shows where, and that a player gets a well-formed file."""

import av
import numpy as np
import pytest

from rlcore.errors import AssetError
from rlcore.track.video import (
    GREEN,
    RED,
    Film,
    caption,
    mosaic,
    write_mosaic,
    write_video,
)


def film(frames, size=(8, 6), value=0):
    """Frames of growing brightness: frame i is value + i."""
    shades = np.arange(frames, dtype=np.uint8)[:, None, None, None] + np.uint8(value)
    return np.broadcast_to(shades, (frames, *size, 3)).copy()


def test_mosaic_places_holds_and_colours():
    # three films of 8x6 with a border of 2: cells of 12x10 in a grid of 2x2
    grid = mosaic([film(5), film(2, value=100), film(3, value=200)], [True, False, True], 2)
    assert grid.shape == (5, 24, 20, 3)
    assert tuple(grid[0, 0, 0]) == GREEN
    assert tuple(grid[0, 0, 10]) == RED
    assert tuple(grid[0, 12, 0]) == GREEN
    assert [grid[t, 5, 5, 0] for t in range(5)] == [0, 1, 2, 3, 4]
    assert [grid[t, 5, 15, 0] for t in range(5)] == [100, 101, 101, 101, 101]  # last one held
    assert [grid[t, 17, 5, 0] for t in range(5)] == [200, 201, 202, 202, 202]
    assert not grid[:, 12:, 10:].any()  # the fourth place is empty


def test_mosaic_of_unequal_sizes_fits_the_largest():
    grid = mosaic([film(1, (8, 6)), film(1, (4, 10), value=9)], [True, True], border=1)
    assert grid.shape == (1, 10, 24, 3)
    assert grid[0, 1, 13, 0] == 9
    assert not grid[0, 6:, 12:].any()


def test_mosaic_needs_an_outcome_a_film():
    with pytest.raises(ValueError, match="shorter"):
        mosaic([film(1), film(1)], [True])


def test_caption_enlarges_and_marks_success_from_its_step_on():
    # 64x48 enlarged by ceil(256/48) = 6 to 384x288; one line of text and the status beneath
    captioned = caption(film(4, (64, 48), value=50), "push", success_step=3)
    assert captioned.shape[0] == 4
    assert captioned.shape[2] == 288
    assert captioned.shape[1] > 384
    assert (captioned[2, :384] == 52).all()  # the picture itself is untouched
    strip = captioned[:, 384:].astype(int)
    greenish = (strip[..., 1] > strip[..., 0] + 60).reshape(4, -1).any(axis=1)
    assert greenish.tolist() == [False, False, True, True]
    assert (strip > 200).reshape(4, -1).any(axis=1).all()  # white text on all


def test_caption_wraps_long_sentences():
    short = caption(film(1, (256, 256)), "go")
    long = caption(film(1, (256, 256)), "go " * 60)
    assert long.shape[1] > short.shape[1] + 16


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


def test_write_mosaic_of_episodes(tmp_path):
    films = [Film(film(3, (16, 16)), "reach", True), Film(film(5, (16, 16)), "push", False)]
    for info in (True, False):
        write_mosaic(tmp_path / f"{info}.mp4", films, fps=20, info=info)
        with av.open(str(tmp_path / f"{info}.mp4")) as container:
            assert len(list(container.decode(video=0))) == 5


@pytest.mark.parametrize(
    "bad",
    [np.zeros((2, 4, 4, 3)), np.zeros((2, 4, 4), np.uint8), np.zeros((0, 4, 4, 3), np.uint8)],
)
def test_other_arrays_are_refused(tmp_path, bad):
    with pytest.raises(ValueError, match="a film is uint8"):
        write_video(tmp_path / "x.mp4", bad)
    assert not (tmp_path / "x.mp4").exists()


def test_without_h264_it_says_so_and_writes_mpeg4(tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", {"mpeg4"})
    with pytest.warns(UserWarning, match="no libx264"):
        write_video(tmp_path / "x.mp4", film(3, (16, 16)))
    with av.open(str(tmp_path / "x.mp4")) as container:
        assert container.streams.video[0].codec_context.name == "mpeg4"


def test_without_any_encoder_it_is_an_asset_error(tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", set())
    with pytest.raises(AssetError, match="encoders") as caught:
        write_video(tmp_path / "x.mp4", film(3, (16, 16)))
    assert "save_video" in caught.value.hint
