"""Names of observations: files that are no platform, and platforms whose clients nobody answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from rlcore_serve.platforms import load_platform, load_served_platform

from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError

MIB = 1 << 20
WHOLE = {
    "cameras": ["front"],
    "layout": "HWC",
    "frame": None,
    "states": ["state"],
    "prompt": "prompt",
}


def written(folder: Path, content: Any) -> str:
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(content))
    return str(file)


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("cameras", 5, "cameras"),
        ("cameras", [1], "cameras[0]"),
        ("cameras", {"top": None}, "cameras.top"),
        ("cameras", {1: "front"}, "cameras"),
        ("layout", "WHC", "'WHC'"),
        ("layout", ["HWC"], "layout"),
        ("frame", 224, "frame"),
        ("frame", [224], "list of 2"),
        ("frame", ["a", "b"], "frame[0]"),
        ("frame", [True, 16], "frame[0]"),
        ("frame", [0, 16], "frame"),
        ("states", "state", "'state'"),
        ("states", [], "states"),
        ("states", [None], "states[0]"),
        ("prompt", 7, "prompt"),
        ("prompt", "state", "'state'"),
        ("prompt", "rlcore/key", "'rlcore/key'"),
        ("more", 1, "'more'"),
        ("prompt", ..., "'prompt'"),
    ],
)
def test_a_file_that_is_no_platform_is_refused(policy, tmp_path, refused, key, value, word):
    content = {**WHOLE, key: value}
    if value is ...:
        del content[key]
    file = written(tmp_path, content)
    with refused(ConfigError, f"serve.platform={file}", word):
        load_platform(file, policy.env_spec)


@pytest.mark.parametrize("text", ["", "5", "- a", "a: [", "\0", "&a [*a]"])
def test_a_file_that_is_no_mapping_is_refused(policy, tmp_path, text, refused):
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with refused(ConfigError, f"serve.platform={file}", text=False):  # with PyYAML's own words
        load_platform(str(file), policy.env_spec)


@pytest.mark.parametrize("name", ["/", "/dev/zero", "nowhere.yaml", "liber"])
def test_an_unknown_platform_is_refused(policy, name, refused):
    with refused(ConfigError, f"serve.platform={name}"):
        load_platform(name, policy.env_spec)


def test_a_brace_in_a_camera_name_is_text(policy, tmp_path):
    file = written(tmp_path, {**WHOLE, "cameras": "{0}/{camera}/{x}"})
    assert load_platform(file, policy.env_spec).cameras == {"top": "{0}/top/{x}"}


def test_a_server_that_could_answer_nobody_does_not_start(run, policy, tmp_path, capsys, refused):
    """Frames of 224 for a policy that takes 16; the same by a file; frames beyond a message."""
    assert main(["serve", str(run), "serve.port=0", "serve.platform=libero"]) == 2
    printed = capsys.readouterr().err
    assert all(word in printed for word in ("224x224", "16x16", "top", "serve.platform=libero"))
    for frame in ([16, 16], None):
        load_served_platform(written(tmp_path, {**WHOLE, "frame": frame}), policy.env_spec, MIB)
    with refused(ConfigError, "16x15"):
        file = written(tmp_path, {**WHOLE, "frame": [16, 15]})
        load_served_platform(file, policy.env_spec, MIB)
    whole = 16 * 16 * 3  # without the names and the state beside it
    with refused(ConfigError, "serve.max_message_mb"):
        load_served_platform("rlcore", policy.env_spec, whole)
