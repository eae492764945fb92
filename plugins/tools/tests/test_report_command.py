"""`rlcore report`: which file it writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from internals import compose, to_yaml

from rlcore.cli.main import main
from rlcore.runs.folder import RunFolder


@pytest.fixture
def runs(log_path: Path) -> list[RunFolder]:
    made = [RunFolder.create(log_path, "run") for _ in range(2)]
    for folder in made:
        folder.write_config(to_yaml(compose(["env=toy"], require=())))
    return made


def test_one_run_has_its_report_in_its_folder(runs, elsewhere, capsys):
    assert main(["report", str(runs[0].path)]) == 0
    assert capsys.readouterr().out == f"{runs[0].report}\n"
    assert runs[0].report.read_text().startswith("<!doctype html>")
    assert list(elsewhere.iterdir()) == []


def test_several_are_compared_in_a_file_here_or_where_it_is_wanted(runs, elsewhere, capsys):
    paths = [str(run.path) for run in runs]
    assert main(["report", *paths]) == 0
    assert main(["report", *paths, "--output", "sub/both.html"]) == 0
    here = elsewhere / "report.html"
    both = elsewhere / "sub" / "both.html"
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.endswith(".html")] == [str(here), str(both)]
    assert "2 runs compared" in here.read_text()
    assert not runs[0].report.exists()


def test_an_error_names_the_wrong_argument(runs, elsewhere, capsys):
    run = str(runs[0].path)
    for words, named in (
        (["nowhere"], elsewhere / "nowhere"),
        ([str(elsewhere)], "config.yaml"),
        ([run, run], run),
        ([run, "-o", f"{runs[0].config}/x.html"], f"{runs[0].config}/x.html"),
        ([], "RUN"),
    ):
        assert main(["report", *words]) == 2
        assert str(named) in capsys.readouterr().err
