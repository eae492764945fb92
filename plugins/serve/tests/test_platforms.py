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
    ("changes", "said"),
    [
        ({"cameras": 5}, "cameras must be a text or a list"),
        ({"cameras": [1]}, r"cameras\[0\] must be a text, got 1"),
        ({"cameras": {"top": None}}, "cameras.top must be a text, got None"),
        ({"cameras": {1: "front"}}, "cameras must be"),
        ({"layout": "WHC"}, "layout must be HWC or CHW, got 'WHC'"),
        ({"layout": ["HWC"]}, "layout must be HWC or CHW"),
        ({"frame": 224}, "frame must be a list of 2: a whole number, a whole number or null"),
        ({"frame": [224]}, "frame must be a list of 2"),
        ({"frame": ["a", "b"]}, r"frame\[0\] must be a whole number, got 'a'"),
        ({"frame": [True, 16]}, r"frame\[0\] must be a whole number, got True"),
        ({"frame": [0, 16]}, "frame must be height and width in pixels"),
        ({"states": "state"}, "states must be a list, each entry a text, got 'state'"),
        ({"states": []}, "states must name at least one part"),
        ({"states": [None]}, r"states\[0\] must be a text, got None"),
        ({"prompt": 7}, "prompt must be a text, got 7"),
        ({"prompt": "state"}, "two parts of an observation the name 'state'"),
        ({"prompt": "rlcore/key"}, "two parts of an observation the name 'rlcore/key'"),
        ({"more": 1}, "it has the unknown key 'more'"),
        ({"prompt": ...}, "it lacks 'prompt'"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_platform(policy, tmp_path, changes, said):
    content = {name: value for name, value in {**WHOLE, **changes}.items() if value is not ...}
    file = written(tmp_path, content)
    with pytest.raises(ConfigError, match=said) as caught:
        load_platform(file, policy.env_spec)
    assert caught.value.message.startswith(f"serve.platform={file}") and caught.value.hint


@pytest.mark.parametrize("text", ["", "5", "- a", "a: [", "\0", "&a [*a]"])
def test_a_file_of_another_form(policy, tmp_path, text):
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"serve.platform={file}"):
        load_platform(str(file), policy.env_spec)


@pytest.mark.parametrize("named", ["/", "/dev/zero", "nowhere.yaml", "liber"])
def test_no_such_platform(policy, named):
    with pytest.raises(ConfigError, match=f"serve.platform={named}"):
        load_platform(named, policy.env_spec)


def test_a_brace_in_a_camera_name_is_text(policy, tmp_path):
    file = written(tmp_path, {**WHOLE, "cameras": "{0}/{camera}/{x}"})
    assert load_platform(file, policy.env_spec).cameras == {"top": "{0}/top/{x}"}


def test_a_server_that_could_answer_nobody_does_not_start(run, policy, tmp_path, capsys):
    """Frames of 224 for a policy that takes 16; the same by a file; frames beyond a message."""
    assert main(["serve", str(run), "serve.port=0", "serve.platform=libero"]) == 2
    said = capsys.readouterr().err
    assert "224x224" in said and "16x16 from camera top" in said and "serve.platform=libero" in said
    for frame, fits in ([16, 16], True), ([16, 15], False), (None, True):
        file = written(tmp_path, {**WHOLE, "frame": frame})
        if fits:
            load_served_platform(file, policy.env_spec, MIB)
        else:
            with pytest.raises(ConfigError, match="16x15"):
                load_served_platform(file, policy.env_spec, MIB)
    with pytest.raises(ConfigError, match=r"serve\.max_message_mb"):
        load_served_platform(
            "rlcore", policy.env_spec, 16 * 16 * 3
        )  # and names and state beside it
