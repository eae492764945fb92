"""The kernels of a run: recorded, read back from any file, with warnings where they differ."""

from __future__ import annotations

import json

import pytest

from rlcore.utils.kernels import KEY, RecordedKernels, manifest_entry, read_kernels, warnings_for
from rlcore.utils.mkl import BatchInvariance, Kernels, Processor

INTEL = Kernels(Processor("AVX512", "GenuineIntel", ("amx_bf16",)), {"MKL_CBWR": "AVX512,STRICT"})
AMD = Kernels(Processor("AVX2", "AuthenticAMD"), {"MKL_CBWR": "AVX2,STRICT"})
HAND = Kernels(INTEL.processor, {"MKL_CBWR": "SSE4_2"}, by_hand=True)
SEEN = BatchInvariance(rows=4, kernels=(), decisions=(), digest="a1")
MOVED = BatchInvariance(
    rows=4, kernels=("linear 39 to 4",), decisions=("actions", "values"), digest="a1"
)


@pytest.mark.parametrize("kernels", [INTEL, AMD, HAND])
def test_a_round_trip(tmp_path, kernels):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({KEY: manifest_entry(kernels, [SEEN, SEEN])}))
    assert read_kernels(path) == RecordedKernels(kernels, ("a1",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"kernels": null}',
        '{"kernels": {"processor": {"level": "AVX9", "maker": "x", "units": []}, "environment": {},'
        ' "rounding": {"digests": []}}}',
        '{"kernels": {"processor": {"level": "AVX2", "maker": "x", "units": []},'
        ' "environment": {"MKL_CBWR": 3}, "rounding": {"digests": []}}}',
        '{"kernels": {"processor": {"level": "AVX2", "maker": "x", "units": [{}]},'
        ' "environment": {}, "rounding": {"digests": [[]]}}}',
        '{"kernels": {"processor": {"level": "AVX2", "maker": "x", "units": []},'
        ' "environment": {"MKL_CBWR": "AVX2\\u0000"}, "rounding": {"digests": []}}}',
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_a_manifest_without_valid_kernels_is_ignored(tmp_path, text):
    path = tmp_path / "manifest.json"
    assert read_kernels(path) is None  # none yet
    path.write_text(text)
    assert read_kernels(path) is None


def test_other_variables_of_a_manifest_are_ignored(tmp_path):
    """A run folder from elsewhere does not set this process's environment."""
    kept = manifest_entry(INTEL, [SEEN])
    kept["environment"] = {**kept["environment"], "LD_PRELOAD": "evil.so"}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({KEY: kept}))
    found = read_kernels(path)
    assert found is not None and found.kernels == INTEL


def test_unchanged_kernels_have_no_warning():
    before = RecordedKernels(INTEL, ("a1",))
    assert warnings_for(INTEL, [SEEN, SEEN], 4, None) == []
    assert warnings_for(INTEL, [SEEN, SEEN], 4, before) == []
    assert warnings_for(INTEL, [], None, None) == []  # demonstrations only
    by_hand_but_equal = Kernels(INTEL.processor, INTEL.environment, by_hand=True)
    assert warnings_for(by_hand_but_equal, [SEEN], 4, None) == []


def test_decisions_that_depend_on_the_batch_are_a_warning():
    (line,) = warnings_for(INTEL, [SEEN, MOVED], 4, None)
    assert all(word in line for word in ("rollout.forward_batch=4", "actions, values"))
    assert "MKL_CBWR=COMPATIBLE" in line
    by_hand, line = warnings_for(HAND, [MOVED], 4, None)
    assert "MKL_CBWR=SSE4_2" in by_hand and "AVX512,STRICT" in by_hand
    assert "unset MKL_CBWR" in line and "COMPATIBLE" not in line


def test_kernels_whose_decisions_agree_are_recorded_without_a_warning():
    other = BatchInvariance(4, ("linear 39 to 4",), (), "a1")
    assert warnings_for(INTEL, [other], 4, None) == []
    assert manifest_entry(INTEL, [other])["rounding"]["kernels"] == ["linear 39 to 4"]


def test_workers_with_other_rounding_are_a_warning():
    unlike = BatchInvariance(4, (), (), "b2")
    assert len(warnings_for(INTEL, [SEEN, unlike], 4, None)) == 1
    assert warnings_for(INTEL, [SEEN, unlike], None, None) == []  # no bits were promised


def test_a_resume_on_another_processor_is_a_warning():
    (line,) = warnings_for(AMD, [SEEN], None, RecordedKernels(INTEL, ("b2",)))
    assert "GenuineIntel, MKL_CBWR=AVX512,STRICT" in line
    assert "AuthenticAMD, MKL_CBWR=AVX2,STRICT" in line
    # without digests the rounding of the first part is unknown
    assert warnings_for(AMD, [SEEN], None, RecordedKernels(INTEL, ())) == []
