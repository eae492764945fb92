"""What the doctor says of this machine's kernels, and of plugins that are missing."""

from __future__ import annotations

import pytest

from rlcore.cli import doctor
from rlcore.cli.doctor import BATCHES
from rlcore.cli.main import main
from rlcore.plugins.registry import Registry
from rlcore.rollout import batch_invariance
from rlcore.utils.mkl import MKL, local_processor

HOLD: tuple[tuple[str, ...], str] = ((), "digest")


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], moved: int) -> str:
    """What it prints where batches of `moved` rows don't keep rows apart."""
    found = {moved: (("linear 39 to 2",), "digest")}
    monkeypatch.setattr(batch_invariance, "check_kernels", lambda rows: found.get(rows, HOLD))
    assert main(["doctor", "env=toy"]) == 0  # nothing is missing that a run needs
    return capsys.readouterr().out


def test_the_kernels_of_this_machine_are_looked_at(capsys):
    assert main(["doctor", "env=toy"]) in (0, 1)
    assert f" kernels: {MKL}=" in capsys.readouterr().out or not local_processor().setting


def test_kernels_that_keep_rows_apart(monkeypatch, capsys):
    out = said(monkeypatch, capsys, moved=0)
    assert "ok       kernels: " in out
    assert f"the same bits at every place in batches of {', '.join(map(str, BATCHES))}" in out


def test_kernels_that_don_t(monkeypatch, capsys):
    monkeypatch.delenv(MKL, raising=False)
    out = said(monkeypatch, capsys, moved=8)
    assert f"warning  kernels: no {MKL}; a row's bits depend on its place" in out
    assert "(linear 39 to 2, 8 rows)" in out


@pytest.mark.skipif(not local_processor().setting, reason="no MKL for this processor")
def test_a_user_s_setting_is_named_and_can_be_taken_back(monkeypatch, capsys):
    monkeypatch.setenv(MKL, "SSE4_2")
    out = said(monkeypatch, capsys, moved=4)
    assert f"{MKL}=SSE4_2 (set by hand)" in out and f"fix: unset {MKL}" in out


def test_what_no_run_can_do_without(monkeypatch, capsys):
    core = Registry.load(environ={"RLCORE_PLUGINS": "nobody"})
    monkeypatch.setattr(doctor, "load_plugins", lambda: core)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "missing  plugins: no env and no model and no algorithm is loaded (" in out
    assert "RLCORE_PLUGINS leaves out" in out  # they are installed here, and not loaded
    assert 'fix: pip install "rlcore[NAME,...]", where NAME is one of: ' in out
