"""`rlcore report`: which file it writes, and what it says where it can't."""

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
    same = " and ".join(paths) + " have logged no metrics"
    both = elsewhere / "sub" / "both.html"
    assert capsys.readouterr().out == f"{here}\n{same}\n{both}\n{same}\n"
    assert "2 runs compared" in here.read_text()
    assert not runs[0].report.exists()


def test_errors_are_sentences(runs, elsewhere, capsys):
    assert main(["report", "nowhere"]) == 2
    assert main(["report", str(elsewhere)]) == 2
    assert main(["report", str(runs[0].path), str(runs[0].path)]) == 2
    assert main(["report", str(runs[0].path), "-o", f"{runs[0].config}/x.html"]) == 2
    first, second, third, fourth = (
        line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")
    )
    assert first == f"error: there is no run at {elsewhere / 'nowhere'}"
    assert second == f"error: {elsewhere} is not the folder of a run: it has no config.yaml"
    assert third == f"error: {runs[0].path} is named more than once"
    assert fourth.startswith(f"error: the page can't be written to {runs[0].config}/x.html: ")


def test_a_run_is_needed(capsys):
    assert main(["report"]) == 2
    assert capsys.readouterr().err == (
        "error: the following arguments are required: RUN\n  hint: rlcore report --help\n"
    )
