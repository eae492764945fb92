"""Data sets that are whole files and wrong all the same: each is one error, or counted aloud."""

from __future__ import annotations

import io
import json
import math
import shutil
import struct
import zlib
from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_cases import DESCRIPTION, SPEC, changed_info, described, encode, foreign
from PIL import Image
from rlcore_data_lerobot.layout import expand_template
from rlcore_data_lerobot.values import InvalidValueError

from rlcore.cli.main import main
from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, RunWarning, UserError
from rlcore.contracts.specs import ActionChannel, CameraSpec
from rlcore.demonstrations.datasets import format_of

KEY = "observation.images.top"
LISTED = "meta/episodes/chunk-000/file-000.parquet"
VERSIONS = pytest.mark.parametrize("version", ["v2.1", "v3.0"])


def read(tmp_path, text=DESCRIPTION, spec=SPEC):
    """Every demonstration and its frames, after the checks that a run makes."""
    file = described(tmp_path, text)
    form = format_of(file)
    form.check_folder(file, spec, CollectConfig(), seed=0)
    learned = list(form.read(file).split(0.0, seed=0)[0])
    return learned, [dict(one.frames) for one in learned]


def refused(tmp_path, *words, kind=CheckpointError, **named):
    """The one error, which names what is wrong and does not blame the copy."""
    with pytest.raises(kind) as caught:
        read(tmp_path, **named)
    error = caught.value
    assert not error.errors
    for word in words:
        assert str(word) in error.message, error.message
    assert "damaged" not in error.message and "copy or download" not in (error.hint or "")
    return error


def change_tables(path, change):
    for file in sorted(path.glob("data/*/*.parquet")):
        pq.write_table(change(pq.read_table(file)), file)


def change_column(path, name, change, kind=None):
    def changed(table):
        column = pa.array(change(table[name].to_pylist()), kind)
        return table.set_column(table.column_names.index(name), name, column)

    change_tables(path, changed)


def change_listed(path, change):
    file = path / LISTED
    pq.write_table(pa.Table.from_pylist(change(pq.read_table(file).to_pylist())), file)


def as_pictures(path, cell):
    """Frames in the tables: `cell` makes the bytes of one from a row's number in its table."""
    features = json.loads((path / "meta/info.json").read_text())["features"]
    features[KEY]["dtype"] = "image"
    changed_info(path, features=features)

    def with_frames(table):
        cells = [{"bytes": cell(row), "path": None} for row in range(len(table))]
        return table.append_column(KEY, pa.array(cells))

    change_tables(path, with_frames)


def file_of(picture, form="PNG", **options):
    content = io.BytesIO()
    Image.fromarray(picture).save(content, form, **options)
    return content.getvalue()


# -- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [-1.0, -0.9, -0.6, -0.3, 0.3, 0.6, 0.9])
def test_episodes_that_do_not_begin_on_a_frame_are_refused(tmp_path, frames):
    """Each begins so many frames off the one before, as clocks that drift apart have it. The frame
    that is nearest is of another row, sooner or later."""
    path = foreign(tmp_path / "pots", "v3.0")
    encode(path / f"videos/{KEY}/chunk-000/file-000.mp4", range(15), "libx264", 30)

    def drifted(rows):
        for number, row in enumerate(rows):
            row[f"videos/{KEY}/from_timestamp"] += number * frames / 30
        return rows

    change_listed(path, drifted)
    refused(tmp_path, "file-000.mp4")


def test_times_that_are_rounded_name_their_frames(tmp_path):
    path = foreign(tmp_path / "pots", "v3.0")
    wanted = read(tmp_path)[1]
    change_column(path, "timestamp", lambda times: [round(time, 2) for time in times])
    name = f"videos/{KEY}/from_timestamp"
    change_listed(path, lambda rows: [{**row, name: round(row[name], 3)} for row in rows])
    for ours, theirs in zip(read(tmp_path)[1], wanted, strict=True):
        np.testing.assert_array_equal(ours["front"], theirs["front"])


def test_frames_of_no_row_are_said(tmp_path):
    path = foreign(tmp_path / "pots", "v3.0")
    encode(path / f"videos/{KEY}/chunk-000/file-000.mp4", range(15), "libx264", 30)
    name = f"videos/{KEY}/from_timestamp"
    change_listed(
        path,
        lambda rows: [
            {**row, name: row[name] + (number > 0) / 30} for number, row in enumerate(rows)
        ],
    )
    file = described(tmp_path)
    (remark,) = format_of(file).read(file).summary().remarks
    assert "before episode 1, its video has frames that belong to no row" in remark


@VERSIONS
@pytest.mark.parametrize(
    "clock",
    [
        lambda times: [1.7e9 + time for time in times],
        lambda times: [time + 1 for time in times],
        lambda times: [time + 1 / 30 for time in times],
        lambda times: [2 * time for time in times],
        lambda times: [*times[:-1], 1e300],
        lambda times: [-1.0 - time for time in reversed(times)],
    ],
)
def test_rows_of_another_clock(tmp_path, version, clock):
    path = foreign(tmp_path / "pots", version)
    change_column(path, "timestamp", clock, pa.float64())
    error = refused(tmp_path)
    assert "timestamp" in error.hint


@VERSIONS
@pytest.mark.parametrize("rate", [15, 24, 60, Fraction(30000, 1001)])
def test_videos_of_another_clock(tmp_path, version, rate):
    """Of 29.97 frames a second, row 99 is a tenth of a frame away."""
    path = foreign(tmp_path / "pots", version)
    if rate == Fraction(30000, 1001):
        return long_ones_of_another_clock(tmp_path, path, rate)
    for file in path.rglob("*.mp4"):
        encode(file, range(12 if version == "v3.0" else 5), "libx264", rate)
    error = refused(tmp_path, ".mp4", f"{rate} frames a second", "says 30")
    assert "timestamp" in error.hint


def long_ones_of_another_clock(tmp_path, path, rate):
    if (path / "meta/tasks.jsonl").exists():
        return
    encode(path / f"videos/{KEY}/chunk-000/file-000.mp4", range(100), "libx264", rate,
           lambda number: np.full((64, 96, 3), number, np.uint8))  # fmt: skip
    rows = {"qpos": [[0.0] * 3] * 100, "action": [[0.0] * 3] * 100, "task_index": [0] * 100,
            "timestamp": [row / 30 for row in range(100)], "episode_index": [0] * 100,
            "frame_index": range(100)}  # fmt: skip
    pq.write_table(pa.table(rows), path / "data/chunk-000/file-000.parquet")
    change_listed(path, lambda listed: [{**listed[0], "length": 100}])
    changed_info(path, total_episodes=1, total_frames=100)
    refused(tmp_path, "29.97 frames a second", "says 30")


@pytest.mark.parametrize("start", [1e300, -1.0, "0", math.inf])
def test_a_start_that_is_no_time_of_a_video(tmp_path, start):
    path = foreign(tmp_path / "pots", "v3.0")
    name = f"videos/{KEY}/from_timestamp"
    change_listed(path, lambda rows: [{**row, name: start} for row in rows])
    refused(tmp_path, "from_timestamp of episode 0", start)


@pytest.mark.parametrize("fps", [math.nan, 0, math.inf, -30, None, True, "30"])
def test_a_rate_that_is_none(tmp_path, fps):
    changed_info(foreign(tmp_path / "pots", "v2.1"), fps=fps)
    refused(tmp_path, "info.json", "fps", fps)


# -- actions ------------------------------------------------------------------------------------


def test_actions_that_are_cut_are_counted(tmp_path):
    """0.01 i m times 40 are 0.4 i: beyond 1 in rows 3 and 4, that is in three rows of twelve."""
    foreign(tmp_path / "pots", "v3.0")
    text = DESCRIPTION.replace("scale: 20", "scale: 40")
    file = described(tmp_path, text)
    summary = format_of(file).read(file).summary()
    (remark,) = summary.remarks
    assert "actions.ee_delta_position: 3 of 24 entries (12.5%)" in remark
    assert "[-1, 1]" in remark and "to 1.6" in remark
    actions = read(tmp_path, text)[0][0].actions
    np.testing.assert_allclose(actions[:, 0], [0, 0.4, 0.8, 1, 1], rtol=1e-6)


@VERSIONS
def test_actions_of_another_unit_are_refused(tmp_path, version):
    """Times 100, -0.02 is -2 in twelve rows and 0.01 i is above 1 in six: 18 of 24."""
    foreign(tmp_path / "pots", version)
    error = refused(
        tmp_path, "actions.ee_delta_position: 18 of 24 entries (75.0%)", kind=ConfigError,
        text=DESCRIPTION.replace("scale: 20", "scale: 100"),
    )  # fmt: skip
    assert "degrees" in error.hint and "actions.ee_delta_position.scale" in error.hint


@pytest.mark.parametrize(
    ("value", "key"),
    [("scale: 0", "scale"), ("scale: .nan", "scale"), ("scale: -.inf", "scale"),
     ("scale: 1.0e-300", "scale"), ("scale: 1.0e+300", "scale"), (f"scale: 1{'0' * 400}", "scale"),
     ("scale: 20, offset: .inf", "offset"), ("scale: 20, range: [1, -1]", "range"),
     ("scale: 20, range: [.nan, 1]", "range"), ("scale: 20, range: [-1, .inf]", "range")],
)  # fmt: skip
def test_a_description_of_numbers_that_are_none(tmp_path, value, key):
    foreign(tmp_path / "pots", "v2.1")
    text = DESCRIPTION.replace("scale: 20", value)
    refused(tmp_path, f"actions.ee_delta_position.{key}", kind=ConfigError, text=text)


# -- rows ---------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize("pictures", [False, True])
def test_rows_are_read_in_the_order_of_their_frame_index(tmp_path, version, pictures):
    path = foreign(tmp_path / "pots", version)
    if pictures:
        as_pictures(path, lambda row: file_of(np.full((64, 96, 3), 20 * row, np.uint8)))
    learned, frames = read(tmp_path)
    draw = np.random.default_rng(0)
    change_tables(path, lambda table: table.take(draw.permutation(len(table))))
    again, frames_again = read(tmp_path)
    for ours, theirs in zip(again, learned, strict=True):
        np.testing.assert_array_equal(ours.actions, theirs.actions)
        np.testing.assert_array_equal(ours.states, theirs.states)
    for ours, theirs in zip(frames_again, frames, strict=True):
        np.testing.assert_array_equal(ours["front"], theirs["front"])
    one = again[0].frames.read([1, 3])["front"]
    np.testing.assert_array_equal(one, frames[0]["front"][[1, 3]])


@VERSIONS
@pytest.mark.parametrize(
    "numbers",
    [
        lambda old: [0, 0, *old[2:]],
        lambda old: [number + 1 for number in old],
        lambda old: [2 * number for number in old],
        lambda old: [-1, *old[1:]],
        lambda old: [math.nan, *map(float, old[1:])],
        lambda old: list(map(str, old)),
    ],
)
def test_rows_that_are_not_each_once(tmp_path, version, numbers):
    path = foreign(tmp_path / "pots", version)
    change_column(path, "frame_index", numbers)
    refused(tmp_path, "frame_index", ".parquet")


@pytest.mark.parametrize(
    ("name", "change", "kind"),
    [
        ("action", lambda rows: [rows[0][:1], rows[0] + rows[1][:2], *rows[2:]], None),
        ("action", lambda rows: [[1, 2, 3]] * len(rows), pa.list_(pa.timestamp("us"))),
        ("timestamp", lambda rows: [int(1e6 * one) for one in rows], pa.timestamp("us")),
        ("timestamp", lambda rows: [int(1e3 * one) for one in rows], pa.duration("ms")),
        ("qpos", lambda rows: [[1e300, 0, 0], *rows[1:]], None),
        ("action", lambda rows: [[0, -1e39, 0], *rows[1:]], pa.list_(pa.float64())),
        ("task_index", lambda rows: [math.nan for _ in rows], None),
        ("task_index", lambda rows: [-1 for _ in rows], None),
        ("task_index", lambda rows: [0.5 for _ in rows], None),
        ("task_index", lambda rows: [2**62 for _ in rows], None),
        ("episode_index", lambda rows: [math.nan for _ in rows], None),
    ],
)
@VERSIONS
def test_columns_of_other_things(tmp_path, version, name, change, kind):
    path = foreign(tmp_path / "pots", version)
    change_column(path, name, change, kind)
    refused(tmp_path, name, ".parquet")


def test_a_number_of_a_sentence_that_is_not_there(tmp_path):
    path = foreign(tmp_path / "pots", "v2.1")
    change_column(path, "task_index", lambda rows: [9 for _ in rows])
    refused(tmp_path, "tasks.jsonl", "number 9", "episode 0")


def test_no_sentence_at_all(tmp_path):
    """The list is empty where a collection was killed before its first episode."""
    path = foreign(tmp_path / "pots", "v2.1")
    (path / "meta/tasks.jsonl").write_text("")
    refused(tmp_path, "tasks.jsonl", "no sentence of number 0", "episode 0")
    (path / "meta/episodes.jsonl").write_text("")
    changed_info(path, total_episodes=0, total_frames=0)
    file = described(tmp_path)
    assert len(format_of(file).read(file)) == 0


def test_one_row_without_a_time(tmp_path):
    """It ascends, as there is nothing to compare it with."""
    path = foreign(tmp_path / "pots", "v3.0")
    change_tables(path, lambda table: table.slice(0, 1))
    change_column(path, "timestamp", lambda _: [math.nan])
    change_listed(path, lambda rows: [{**rows[0], "length": 1}])
    changed_info(path, total_episodes=1, total_frames=1)
    refused(tmp_path, "timestamp of episode 0")


# -- how many -----------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize("count", [0, 1, 4])
def test_episodes_that_are_not_as_many_as_is_said(tmp_path, version, count):
    changed_info(foreign(tmp_path / "pots", version), total_episodes=count)
    refused(tmp_path, f"says {count} episodes, here are 3")


@VERSIONS
def test_rows_that_are_not_as_many_as_is_said(tmp_path, version):
    changed_info(foreign(tmp_path / "pots", version), total_frames=5)
    with pytest.warns(RunWarning, match=r"total_frames 5, .* have 12"):
        learned, _ = read(tmp_path)
    assert sum(len(one.actions) for one in learned) == 12


def test_an_episode_that_is_listed_twice(tmp_path):
    path = foreign(tmp_path / "pots", "v3.0")
    change_listed(path, lambda rows: [*rows, rows[1]])
    changed_info(path, total_episodes=4)
    refused(tmp_path, "episode 1 is listed 2 times")
    path = foreign(tmp_path / "of_lines" / "pots", "v2.1")
    lines = path / "meta/episodes.jsonl"
    lines.write_text(lines.read_text() + lines.read_text().splitlines()[2] + "\n")
    refused(tmp_path / "of_lines", "episode 2 is listed 2 times")


def test_a_length_that_is_not_that_of_the_rows(tmp_path):
    path = foreign(tmp_path / "pots", "v3.0")
    change_listed(path, lambda rows: [{**rows[0], "length": 6}, *rows[1:]])
    changed_info(path, total_frames=13)
    refused(tmp_path, "episode 0 has 5 rows, meta says 6")


def judged(path, good):
    features = json.loads((path / "meta/info.json").read_text())["features"]
    features["next.success"] = {"dtype": "bool", "shape": [1], "names": None}
    changed_info(path, features=features)
    change_tables(
        path,
        lambda table: table.append_column(
            "next.success", pa.array([good(one) for one in table["episode_index"].to_pylist()])
        ),
    )


@VERSIONS
def test_what_is_learned_from_is_counted(tmp_path, version):
    """The second episode is two demonstrations, as it has two sentences."""
    path, file = foreign(tmp_path / "pots", version), described(tmp_path)
    summary = format_of(file).read(file).summary()
    assert (summary.demonstrations, summary.episodes) == (4, 3)
    judged(path, lambda episode: episode == 1)
    summary = format_of(file).read(file).summary()
    assert (summary.demonstrations, summary.episodes) == (2, 3)
    assert len(read(tmp_path)[0]) == 2


def test_no_episode_that_succeeded(tmp_path):
    judged(foreign(tmp_path / "pots", "v3.0"), lambda _: False)
    error = refused(tmp_path, "3 episodes", "next.success", kind=ConfigError)
    assert "episodes_per_task" not in error.hint


def test_success_that_is_neither_true_nor_false(tmp_path):
    judged(foreign(tmp_path / "pots", "v3.0"), lambda _: math.nan)
    refused(tmp_path, "next.success of episode 0 is nan")


@pytest.mark.long
def test_a_run_says_what_it_learns_from(tmp_path, capfd):
    path = foreign(tmp_path / "pots", "v3.0")
    judged(path, lambda episode: episode != 1)
    text = """\
data: pots
cameras: {top: {from: observation.images.top, size: [16, 16]}}
states: {position: {from: "qpos[a, b]", scale: 1}}
actions: {ee_delta_position: {from: "action[0:2]", scale: 40}}
"""
    # rows 3 and 4 of the first episode are above 1; the second is not learned from
    settings = (
        "env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local",
        "env.train.total_num_envs=2", "env.eval.total_num_envs=2", "env.eval.trials_per_task=1",
        "sft.max_steps=1", "sft.val_fraction=0", f"collect.path={described(tmp_path, text)}",
        f"runner.logger.log_path={tmp_path}/logs", "runner.logger.logger_backends=[]",
    )  # fmt: skip
    assert main(["sft", *settings]) == 0
    said = "".join(capfd.readouterr())
    assert "2 demonstrations of 3 episodes from" in said
    assert "warning: " in said and "2 of 16 entries (12.5%)" in said


# -- sentences ----------------------------------------------------------------------------------


def write_sentences(path, version, texts):
    if version == "v3.0":
        table = pa.table({"task_index": list(range(len(texts))), "task": pa.array(texts)})
        pq.write_table(table, path / "meta/tasks.parquet")
        return
    lines = (json.dumps({"task_index": i, "task": text}) for i, text in enumerate(texts))
    (path / "meta/tasks.jsonl").write_text("\n".join(lines))


@VERSIONS
@pytest.mark.parametrize("text", ["", "  \n", None])
def test_sentences_that_say_nothing(tmp_path, version, text):
    path = foreign(tmp_path / "pots", version)
    write_sentences(path, version, ["lift the pot", text])
    refused(tmp_path, "meta/tasks.", "number 1", "episode 1", repr(text))


@pytest.mark.parametrize("text", [3, math.nan, ["lift"], True])
def test_sentences_that_are_no_text(tmp_path, text):
    path = foreign(tmp_path / "pots", "v2.1")
    write_sentences(path, "v2.1", ["lift the pot", text])
    refused(tmp_path, "meta/tasks.jsonl", "number 1", "episode 1")


@pytest.mark.parametrize(
    "columns",
    [
        {"task_index": [0, 1], "tasks": ["lift it", "put it"]},
        {"instruction": ["lift it", "put it"], "task_index": [0, 1]},
        {"task": ["lift it", "put it"], "__index_level_0__": [0, 1]},
        {"task_index": [1, 0], "task": ["put it", "lift it"], "note": ["a", "b"]},
        {"task_index": [0, 1], "__index_level_0__": ["lift it", "put it"], "note": ["a", "b"]},
        {"task_index": [0.0, 1.0], "task": ["lift it", "put it"]},
    ],
)
def test_sentences_in_columns_of_other_names(tmp_path, columns):
    path = foreign(tmp_path / "pots", "v3.0")
    pq.write_table(pa.table(columns), path / "meta/tasks.parquet")
    assert {one.instruction for one in read(tmp_path)[0]} == {"lift it", "put it"}
    (path / "meta/tasks.parquet").unlink()
    if "__index_level_0__" in columns or isinstance(columns["task_index"][0], float):
        return  # forms of tables alone
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (path / "meta/tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert {one.instruction for one in read(tmp_path)[0]} == {"lift it", "put it"}


@pytest.mark.parametrize(
    "columns",
    [
        {"task_index": [0, 1], "english": ["lift", "put"], "german": ["heben", "setzen"]},
        {"task_index": [0, 1]},
        {"task": ["lift", "put"]},
        {"task": ["lift", "put"], "a": [0, 1], "b": [1, 0]},
        {"task_index": [0, 0], "task": ["lift", "put"]},
        {"task_index": [math.nan, 1.0], "task": ["lift", "put"]},
    ],
)
def test_sentences_that_may_be_any_column(tmp_path, columns):
    path = foreign(tmp_path / "pots", "v3.0")
    pq.write_table(pa.table(columns), path / "meta/tasks.parquet")
    refused(tmp_path, "tasks.parquet")


# -- cameras ------------------------------------------------------------------------------------


def without_second(name):
    def change(rows):
        for column in ("chunk_index", "file_index", "from_timestamp"):
            for number, row in enumerate(rows):
                absent = number == 1
                row[f"videos/{name}/{column}"] = None if absent else row.get(
                    f"videos/{name}/{column}", 0.0 if column == "from_timestamp" else 0
                )  # fmt: skip
        return rows

    return change


def test_a_camera_that_an_episode_lacks(tmp_path):
    path = foreign(tmp_path / "pots", "v3.0")
    features = json.loads((path / "meta/info.json").read_text())["features"]
    changed_info(path, features={**features, "observation.images.wrist": features[KEY]})
    assert len(read(tmp_path)[0]) == 4  # it is in no list of episodes
    change_listed(path, without_second("observation.images.wrist"))
    assert len(read(tmp_path)[0]) == 4  # nothing asks for it
    change_listed(path, without_second(KEY))
    refused(tmp_path, "episode 1", "'front'", KEY)


def test_depth_is_no_camera(tmp_path):
    path = foreign(tmp_path / "pots", "v2.1")
    as_pictures(path, lambda row: file_of(np.full((64, 96), 1000 + row, np.uint16)))
    refused(tmp_path, "I;16", "depth")


@pytest.mark.parametrize("flag", ["is_depth_map", "video.is_depth_map"])
def test_what_is_called_depth_is_no_camera(tmp_path, flag):
    path = foreign(tmp_path / "pots", "v2.1")
    features = json.loads((path / "meta/info.json").read_text())["features"]
    features[KEY]["info"] = {flag: True}
    changed_info(path, features=features)
    refused(tmp_path, "cameras.front.from", "depth", kind=ConfigError)


def test_a_video_of_depth_is_no_camera(tmp_path):
    path = foreign(tmp_path / "pots", "v2.1")
    for file in path.rglob("*.mp4"):
        with av.open(str(file), "w", format="matroska") as out:
            stream = out.add_stream("ffv1", rate=30)
            stream.width, stream.height, stream.pix_fmt = 96, 64, "gray16le"
            for _ in range(5):
                depth = av.VideoFrame.from_ndarray(np.zeros((64, 96), np.uint16), "gray16le")
                out.mux(stream.encode(depth))
            out.mux(stream.encode(None))
    refused(tmp_path, "gray16le", "depth")


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:0"])
def test_pictures_are_those_of_pillow_to_the_bit(tmp_path, sampling):
    """As LeRobot's reader decodes them: what upsamples colours otherwise is off by 2 of 255."""
    noise = np.random.default_rng(0).integers(0, 255, (12, 8, 12, 3), np.uint8)
    files = [
        file_of(one.repeat(8, 0).repeat(8, 1), "JPEG", quality=90, subsampling=sampling)
        for one in noise
    ]
    as_pictures(foreign(tmp_path / "pots", "v3.0"), lambda row: files[row])
    _, frames = read(tmp_path)
    ours = np.concatenate([one["front"] for one in frames])
    theirs = np.stack([np.asarray(Image.open(io.BytesIO(one))) for one in files])
    np.testing.assert_array_equal(ours, theirs)


# -- what a stranger may have made --------------------------------------------------------------


@pytest.mark.parametrize(
    "template",
    ["data/{chunk_index:04000000000d}", "data/{chunk_index.real}", "data/{chunk_index!r}",
     "data/{}", "data/{file_index:>30}", "data/{secret}", "data/{file_index", "data/{{0}}",
     "/etc/{file_index}", "data/../../{file_index}", "data/" + "{file_index:099d}" * 100],
)  # fmt: skip
@pytest.mark.parametrize("key", ["data_path", "video_path"])
def test_templates_of_paths_are_no_formats_of_python(tmp_path, key, template):
    changed_info(foreign(tmp_path / "pots", "v3.0"), **{key: template})
    refused(tmp_path, "meta/")
    older = template.replace("chunk_index", "episode_chunk").replace("file_index", "episode_index")
    changed_info(foreign(tmp_path / "lines" / "pots", "v2.1"), **{key: older})
    refused(tmp_path / "lines", "meta/")


def test_templates_that_are_expanded():
    values = {"chunk_index": 7, "video_key": "images.{x}"}
    assert expand_template("a/{chunk_index:03d}/{chunk_index}-{video_key}.mp4", values) == (
        "a/007/7-images.{x}.mp4"
    )
    for template in ("{chunk_index:0100d}", "{video_key:03d}", "}"):
        with pytest.raises(InvalidValueError):
            expand_template(template, values)


@pytest.mark.parametrize("name", ["frame_index", "action"])
def test_tables_that_grow_far_beyond_their_file(tmp_path, name):
    """A few thousand bytes: two million rows of a number, or two million of a list in one row."""
    path = foreign(tmp_path / "pots", "v3.0")
    file = path / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file)
    many = np.zeros(2_000_000)
    if name == "action":
        rows = [many, *table["action"].to_pylist()[1:]] if len(table) else []
        rows = [np.zeros(6_000_000), *rows[1:]]
        table = table.set_column(1, name, pa.array(rows, pa.list_(pa.float32())))
    else:
        rows = {one: many.astype(int) for one in table.column_names if one.endswith("index")}
        vector = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(6_000_000, np.float32)), 3)
        table = pa.table({**rows, "timestamp": many, "qpos": vector, "action": vector})
    pq.write_table(table, file)
    assert file.stat().st_size < 200_000
    refused(tmp_path, "file-000.parquet", "in memory")


def test_texts_that_grow_far_beyond_their_file(tmp_path):
    path = foreign(tmp_path / "pots", "v3.0")
    text = "x" * 1_000_000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), [text])
    table = pa.table({"task_index": range(10_000), "task": texts})
    pq.write_table(table, path / "meta/tasks.parquet")
    before = pa.total_allocated_bytes()
    assert {one.instruction for one in read(tmp_path)[0]} == {text}
    assert pa.total_allocated_bytes() - before < 64 << 20


def bomb(side):
    def chunk(kind, content):
        tail = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + tail

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99))


@pytest.mark.parametrize("side", [1_000_000, 10_000, 1_000])
def test_pictures_that_are_larger_than_is_said(tmp_path, side):
    as_pictures(foreign(tmp_path / "pots", "v3.0"), lambda _: bomb(side))
    text = DESCRIPTION.replace(KEY, f"{{from: {KEY}, size: [64, 96]}}")
    refused(tmp_path, "file-000.parquet", "pixels", text=text)


def test_videos_that_are_larger_than_is_said(tmp_path):
    path = foreign(tmp_path / "pots", "v3.0")
    features = json.loads((path / "meta/info.json").read_text())["features"]
    features[KEY]["shape"] = [8, 8, 3]
    changed_info(path, features=features)
    text = DESCRIPTION.replace(KEY, f"{{from: {KEY}, size: [64, 96]}}")
    refused(tmp_path, ".mp4", "64 x 96", text=text)


@pytest.mark.parametrize("size", ["[0, 0]", "[-1, 96]", "[1000000, 1000000]", "[64.5, 96]"])
def test_sizes_that_no_picture_has(tmp_path, size):
    foreign(tmp_path / "pots", "v3.0")
    text = DESCRIPTION.replace(KEY, f"{{from: {KEY}, size: {size}}}")
    refused(tmp_path, "cameras.front.size", kind=ConfigError, text=text)


@pytest.mark.parametrize(
    "playlist",
    ["#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{other}\n#EXT-X-ENDLIST\n",
     "ffconcat version 1.0\nfile '{other}'\n"],
)  # fmt: skip
def test_a_playlist_is_no_video(tmp_path, playlist):
    """It names a file outside of the data set, which is not opened."""
    path = foreign(tmp_path / "pots", "v2.1")
    other = shutil.copy(next(path.rglob("*000000.mp4")), tmp_path / "secret.mp4")
    for file in path.rglob("*.mp4"):
        file.write_text(playlist.format(other=other))
    with pytest.raises(CheckpointError, match="episode_00000"):
        read(tmp_path)
    changed_info(path, video_path="videos/{video_key}-{episode_index}.m3u8")
    for number in range(3):
        file = path / f"videos/{KEY}-{number}.m3u8"
        file.write_text(playlist.format(other=other))
    with pytest.raises(CheckpointError, match="m3u8"):
        read(tmp_path)


@pytest.mark.long
def test_errors_are_those_of_users(tmp_path):
    """Whatever one value of the descriptions becomes, nothing else is raised."""
    values = (None, True, -1, 1e300, math.nan, "x", [], {}, 2**70)
    for version in ("v2.1", "v3.0"):
        path = foreign(tmp_path / version / "pots", version)
        info = json.loads((path / "meta/info.json").read_text())
        for key in info:
            for value in values:
                (path / "meta/info.json").write_text(json.dumps({**info, key: value}))
                try:
                    read(path.parent)
                except UserError:
                    continue
        (path / "meta/info.json").write_text(json.dumps(info))
        for key in ("dtype", "shape", "names", "info"):
            for value in values:
                features = json.loads(json.dumps(info["features"]))
                features[KEY][key] = value
                changed_info(path, features=features)
                try:
                    read(path.parent)
                except UserError:
                    continue


def test_another_env_is_still_another_env(tmp_path):
    """What comes first is whether the description fits the env."""
    foreign(tmp_path / "pots", "v3.0")
    spec = replace(
        SPEC, cameras=(CameraSpec("wrist", 64, 96),), actions=(ActionChannel("gripper", 1),)
    )
    with pytest.raises(ConfigError, match=r"pots\.yaml"):
        read(tmp_path, spec=spec)
