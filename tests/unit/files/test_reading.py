"""Small files are read whatever they turn out to be: an error at once, never a wait."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rlcore.files.reading import (
    MAX_LINE_BYTES,
    MAX_NODES,
    MAX_YAML_BYTES,
    UnreadableError,
    check_yaml,
    parse_json,
    read_bytes,
    read_json,
    read_lines,
    read_text,
    read_yaml,
)

pytestmark = pytest.mark.timeout(120)  # what waits, waits for ever


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "kind"),
    [(pipe, "a pipe or"), (endless, "or a device"), (os.mkdir, "a folder")],
)
@pytest.mark.parametrize("read", [read_bytes, read_text, read_json, read_yaml, read_lines])
def test_what_is_no_file_is_not_read(tmp_path, read, make, kind):
    make(tmp_path / "x")
    with pytest.raises(UnreadableError, match=f"it is .*{kind}.*, not a file"):
        list(read(tmp_path / "x"))


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "blob").write_text("[1]")
    (tmp_path / "x").symlink_to("blob")
    assert read_json(tmp_path / "x") == [1]


def test_line_ends_are_those_of_any_system(tmp_path):
    (tmp_path / "x").write_bytes(b"a\r\nb\rc\n")
    assert read_text(tmp_path / "x") == "a\nb\nc\n"


def test_a_file_of_a_terabyte_is_refused(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)  # takes no room
    with pytest.raises(UnreadableError, match="larger than 16 MiB"):
        read_json(tmp_path / "x")
    with pytest.raises(UnreadableError, match="larger than 128 KiB"):
        read_yaml(tmp_path / "x")
    with pytest.raises(UnreadableError, match="a line is longer than 1 MiB"):
        list(read_lines(tmp_path / "x"))


def test_a_file_may_have_the_largest_size(tmp_path):
    (tmp_path / "x").write_bytes(b"a" * 10)
    assert len(read_bytes(tmp_path / "x", most=10)) == 10
    with pytest.raises(UnreadableError):
        read_bytes(tmp_path / "x", most=9)


def test_lines_end_where_they_are_whole(tmp_path):
    (tmp_path / "x").write_bytes(b"one\ntwo\r\nthr")
    assert list(read_lines(tmp_path / "x")) == ["one", "two"]
    (tmp_path / "x").write_bytes(b"a" * MAX_LINE_BYTES)
    assert list(read_lines(tmp_path / "x")) == []


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 100_000, "{", "\0", ""])
def test_no_json(text):
    with pytest.raises(UnreadableError):
        parse_json(text)


def bomb(levels: int) -> str:
    """Ten times as many values each level: 10 ** levels."""
    lines = ["a0: &a0 x"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


def test_aliases_that_expand_to_more_than_memory_holds_are_refused(tmp_path):
    (tmp_path / "x").write_text(bomb(12))
    with pytest.raises(UnreadableError, match="aliases expand to more than"):
        read_yaml(tmp_path / "x")


def test_values_are_counted_as_often_as_they_are_repeated():
    # a list of n entries, twice: 2 n + 2 lists, 2 names, 1 mapping
    def twice(n: int) -> str:
        return f"a: &a [{', '.join('1' * n)}]\nb: *a"

    n = (MAX_NODES - 5) // 2
    check_yaml(twice(n))
    with pytest.raises(UnreadableError):
        check_yaml(twice(n + 1))


def test_merged_mappings_are_counted_too():
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 10)]
    with pytest.raises(UnreadableError, match="aliases expand"):
        check_yaml("\n".join(lines))


@pytest.mark.parametrize("text", ["a: &a [*a]", "&a {b: *a}", "a: &a\n  b: [1, {c: *a}]"])
def test_a_value_that_holds_itself(text):
    with pytest.raises(UnreadableError, match="aliases expand to more than"):
        check_yaml(text)


@pytest.mark.parametrize("text", ["a: " + "[" * 60_000, "a: " + "{a: " * 30_000, "- " * 60_000])
def test_values_too_deep_in_each_other(tmp_path, text):
    (tmp_path / "x").write_text(text)
    assert len(text) < MAX_YAML_BYTES
    with pytest.raises(UnreadableError, match="too deep"):
        read_yaml(tmp_path / "x")


def test_aliases_that_share_a_value_are_fine(tmp_path):
    (tmp_path / "x").write_text("a: &a {b: 1}\nc: *a\n")
    assert read_yaml(tmp_path / "x") == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_json, '{"a": {"b": 1, "c": 2, "b": 3}}'),
        (read_yaml, "a: {b: 1, c: 2, b: 3}"),
        (read_yaml, "a:\n  b: 1\n  c: 2\n  b: 3\n"),
    ],
)
def test_a_key_that_appears_twice_is_refused_where_that_is_asked(tmp_path, read, text):
    (tmp_path / "x").write_text(text)
    assert read(tmp_path / "x") == {"a": {"b": 3, "c": 2}}
    with pytest.raises(UnreadableError, match="'b' appears twice"):
        read(tmp_path / "x", once=True)


@pytest.mark.parametrize("text", ["a: 2026-13-45", "a: [", "a: @", "a: 1\n---\nb: 2"])
def test_no_yaml(tmp_path, text):
    (tmp_path / "x").write_text(text)
    with pytest.raises(UnreadableError):
        read_yaml(tmp_path / "x")


def test_an_empty_yaml_file(tmp_path):
    (tmp_path / "x").write_text("")
    assert read_yaml(tmp_path / "x") is None


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.getcwd []", "!!python/name:os.system"])
def test_tags_that_make_objects_are_refused(tmp_path, tag):
    (tmp_path / "x").write_text(f"a: {tag}")
    with pytest.raises(UnreadableError):
        read_yaml(tmp_path / "x")


def test_files_that_are_read_stay_open_for_nobody(tmp_path):
    (tmp_path / "x").write_text("1")
    read_json(tmp_path / "x")
    with pytest.raises(UnreadableError):
        read_json(tmp_path / "x", most=0)
    if sys.platform == "linux":  # elsewhere nobody tells
        open_ones = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        assert tmp_path / "x" not in [each.resolve() for each in open_ones]
