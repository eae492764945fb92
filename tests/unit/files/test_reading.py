"""Small files of any content are read, or refused at once, without waiting."""

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

pytestmark = pytest.mark.timeout(120)  # a read that waits never ends


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "kind"),
    [(pipe, "pipe"), (endless, "device"), (os.mkdir, "folder")],
)
@pytest.mark.parametrize("read", [read_bytes, read_text, read_json, read_yaml, read_lines])
def test_only_a_regular_file_is_read(tmp_path, read, make, kind):
    make(tmp_path / "x")
    with pytest.raises(UnreadableError, match=kind):
        list(read(tmp_path / "x"))


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "blob").write_text("[1]")
    (tmp_path / "x").symlink_to("blob")
    assert read_json(tmp_path / "x") == [1]


def test_line_ends_are_those_of_any_system(tmp_path):
    (tmp_path / "x").write_bytes(b"a\r\nb\rc\n")
    assert read_text(tmp_path / "x") == "a\nb\nc\n"


def test_a_file_of_a_terabyte_is_refused(refused, tmp_path):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)  # takes no room
    with refused(UnreadableError, "16 MiB"):
        read_json(tmp_path / "x")
    with refused(UnreadableError, "128 KiB"):
        read_yaml(tmp_path / "x")
    with refused(UnreadableError, "1 MiB"):
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
def test_invalid_json_is_refused(text):
    with pytest.raises(UnreadableError):
        parse_json(text)


def bomb(levels: int) -> str:
    """Repeat each level ten times in the next: 10 ** levels values."""
    lines = ["a0: &a0 x"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


def test_values_are_counted_as_often_as_they_are_repeated():
    # a list of n entries, twice: 2 n + 2 lists, 2 names, 1 mapping
    def twice(n: int) -> str:
        return f"a: &a [{', '.join('1' * n)}]\nb: *a"

    n = (MAX_NODES - 5) // 2
    check_yaml(twice(n))
    with pytest.raises(UnreadableError):
        check_yaml(twice(n + 1))


def merges(levels: int) -> str:
    """Merge ten mappings in each level."""
    lines = ["a0: &a0 {k: v}"]
    lines += [
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, levels + 1)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [bomb(12), merges(9), "a: &a [*a]", "&a {b: *a}"],
    ids=["lists", "merged mappings", "a list in itself", "a mapping in itself"],
)
def test_aliases_that_expand_to_too_many_values_are_refused(refused, tmp_path, text):
    (tmp_path / "x").write_text(text)
    with refused(UnreadableError, "aliases", MAX_NODES):
        read_yaml(tmp_path / "x")


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 60_000, "a: " + "{a: " * 30_000, "- " * 60_000],
    ids=["lists", "mappings", "block lists"],
)
def test_values_too_deep_in_each_other_are_refused(refused, tmp_path, text):
    (tmp_path / "x").write_text(text)
    assert len(text) < MAX_YAML_BYTES
    with refused(UnreadableError, "deep"):
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
def test_a_key_that_appears_twice_is_refused_on_request(refused, tmp_path, read, text):
    (tmp_path / "x").write_text(text)
    assert read(tmp_path / "x") == {"a": {"b": 3, "c": 2}}
    with refused(UnreadableError, "'b'"):
        read(tmp_path / "x", once=True)


@pytest.mark.parametrize("text", ["a: 2026-13-45", "a: [", "a: @", "a: 1\n---\nb: 2"])
def test_invalid_yaml_is_refused(tmp_path, text):
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


def test_a_file_is_closed_after_it_was_read(tmp_path):
    (tmp_path / "x").write_text("1")
    read_json(tmp_path / "x")
    with pytest.raises(UnreadableError):
        read_json(tmp_path / "x", most=0)
    if sys.platform == "linux":  # other systems have no list of open files
        descriptors = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        assert tmp_path / "x" not in [descriptor.resolve() for descriptor in descriptors]
