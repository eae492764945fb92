"""Damaged files: one error names the file and the cause."""

import pytest

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_on, read_mapping


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[1]", None])
def test_an_unreadable_file_is_refused(refused, tmp_path, content):
    path = tmp_path / "facts.json"
    if content is not None:
        path.write_bytes(content)
    with refused(CheckpointError, "facts.json", text=False):  # the text of the JSON library
        read_mapping(path)


@pytest.mark.parametrize(
    ("take", "word"),
    [
        (lambda values: values["seed"], "'seed'"),
        (lambda values: values["names"][3], "IndexError"),
        (lambda values: values["names"].items(), "AttributeError"),
        (lambda values: len(values["count"]), "TypeError"),
    ],
    ids=["a key is missing", "a shorter list", "no mapping", "a number"],
)
def test_values_of_another_kind_are_refused(refused, tmp_path, take, word):
    path = tmp_path / "facts.json"
    path.write_text('{"names": ["a"], "count": 1}')
    with refused(CheckpointError, "facts.json", word, text=False), damaged_on(path):
        take(read_mapping(path))


def test_only_the_listed_errors_are_blamed_on_the_file(refused, tmp_path):
    """A bug keeps its traceback; the errors of a library are passed in."""
    with pytest.raises(ZeroDivisionError), damaged_on(tmp_path):
        1 / 0  # noqa: B018
    with refused(CheckpointError, tmp_path), damaged_on(tmp_path, ZeroDivisionError):
        1 / 0  # noqa: B018
