"""Whatever is wrong with a file, one error names the file and says what."""

import pytest

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_on, read_json, read_mapping


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "Expecting property name"),
        (b"\xff", "it is not UTF-8 text"),
        (b"[1]", "it holds no mapping of names to values"),
    ],
)
def test_a_file_that_can_not_be_read(tmp_path, content, said):
    path = tmp_path / "facts.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"facts\.json is damaged or incomplete \({said}"):
        read_mapping(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(CheckpointError, match=r"facts\.json is damaged .*No such file"):
        read_json(tmp_path / "facts.json")


@pytest.mark.parametrize(
    ("take", "said"),
    [
        (lambda values: values["seed"], "it lacks 'seed'"),
        (lambda values: values["names"][3], "IndexError"),
        (lambda values: values["names"].items(), "AttributeError"),
        (lambda values: len(values["count"]), "TypeError"),
    ],
)
def test_values_that_are_not_as_expected(tmp_path, take, said):
    path = tmp_path / "facts.json"
    path.write_text('{"names": ["a"], "count": 1}')
    with pytest.raises(CheckpointError, match=said), damaged_on(path):
        take(read_mapping(path))


def test_only_what_it_was_asked_for_is_blamed_on_the_file(tmp_path):
    """A bug stays a bug; a library's own kind of error is named."""
    with pytest.raises(ZeroDivisionError), damaged_on(tmp_path):
        1 / 0  # noqa: B018
    with (
        pytest.raises(CheckpointError, match="division by zero"),
        damaged_on(tmp_path, ZeroDivisionError),
    ):
        1 / 0  # noqa: B018
