"""`rlcore doctor` reports this machine's kernels, and missing plugins."""

from __future__ import annotations

import pytest

from rlcore.cli.doctor import BATCHES
from rlcore.cli.main import main
from rlcore.plugins.registry import load_plugins
from rlcore.rollout import batch_invariance
from rlcore.utils.mkl import MKL, local_processor

HOLD: tuple[tuple[str, ...], str] = ((), "digest")


def kernel_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], moved: int
) -> str:
    """The doctor's report where batches of `moved` rows don't keep rows apart."""
    found = {moved: (("linear 39 to 2",), "digest")}
    monkeypatch.setattr(batch_invariance, "check_kernels", lambda rows: found.get(rows, HOLD))
    assert main(["doctor", "env=toy"]) == 0  # nothing is missing that a run needs
    return capsys.readouterr().out


def test_the_kernels_of_this_machine_are_checked(capsys):
    assert main(["doctor", "env=toy"]) in (0, 1)
    assert f" kernels: {MKL}=" in capsys.readouterr().out or not local_processor().setting


def test_kernels_that_keep_rows_apart(monkeypatch, capsys):
    out = kernel_row(monkeypatch, capsys, moved=0)
    assert "ok       kernels: " in out
    assert ", ".join(map(str, BATCHES)) in out


def test_kernels_that_mix_rows_are_a_warning(monkeypatch, capsys):
    monkeypatch.delenv(MKL, raising=False)
    out = kernel_row(monkeypatch, capsys, moved=8)
    assert f"warning  kernels: no {MKL}" in out
    assert "(linear 39 to 2, 8 rows)" in out


@pytest.mark.skipif(not local_processor().setting, reason="no MKL for this processor")
def test_a_user_s_setting_is_named_and_can_be_taken_back(monkeypatch, capsys):
    monkeypatch.setenv(MKL, "SSE4_2")
    out = kernel_row(monkeypatch, capsys, moved=4)
    assert f"{MKL}=SSE4_2 (" in out and f"fix: unset {MKL}" in out


def test_plugins_that_no_run_can_do_without_are_missing(monkeypatch, capsys):
    monkeypatch.setenv("RLCORE_PLUGINS", "nobody")
    load_plugins.cache_clear()
    try:
        assert main(["doctor"]) == 1
    finally:
        load_plugins.cache_clear()
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.startswith("missing  plugins: ")]
    assert all(kind in row for kind in ("env", "model", "algorithm"))
    assert "RLCORE_PLUGINS" in row  # they are installed here, and not loaded
    assert 'fix: pip install "rlcore[NAME,...]"' in out


def test_the_components_of_a_run_are_imported_and_versions_compared(capsys):
    assert main(["doctor", "env=toy", "model=toy", "algorithm=ppo"]) in (0, 1)
    out = capsys.readouterr().out
    assert "components: 3 can be imported" in out
    assert "suit each other" in out or " is installed, " in out
