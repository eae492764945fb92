"""Commands of docs/cluster.md can be planned as they are printed, on machines that aren't there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from rlcore.cli.main import main
from rlcore.config.schema import LoggerConfig

PAGE = Path(__file__).parents[2] / "docs/cluster.md"
BLOCKS = re.findall(r"```(?:bash|sh)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
LINES = "\n".join(BLOCKS).replace("\\\n", " ").splitlines()
# what is given to the script that is submitted stands behind its name
GIVEN = re.compile(r"(?:rlcore train|sbatch train\.sbatch) +(\w+ .*)")
JOINED = {"cluster.address=auto": "cluster.inventory=2x8x80GB"}
SUBMITTED = ("cluster.inventory=2x8x80GB", "cluster.num_nodes=2")  # by the script


def commands() -> list[tuple[str, ...]]:
    found = []
    for line in LINES:
        if match := GIVEN.search(line):
            words = [JOINED.get(word, word) for word in shlex.split(match[1], comments=True)]
            found.append((*words, *(SUBMITTED if "sbatch" in match[0] else ())))
    return list(dict.fromkeys(found))


def test_commands_are_found():
    assert len(commands()) == 4


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_what_is_printed_can_be_planned(words, capsys):
    assert main(["train", "--dry-run", *(word for word in words if word != "--dry-run")]) == 0
    output = capsys.readouterr().out
    assert "the fullest GPU holds" in output and "TOO MUCH" not in output


def test_the_pods_of_kuberay_are_as_many_nodes_as_the_command_asks_for():
    """All alike, and each with the folder in which the image writes its runs."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (cluster,) = [made for made in map(yaml.safe_load, blocks) if made.get("kind") == "RayCluster"]
    head, (others,) = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    assert others["template"] == head["template"]
    pod = head["template"]["spec"]
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    assert mount["name"] in {volume["name"] for volume in pod["volumes"]}
    image = (PAGE.parents[1] / "requirements/Dockerfile").read_text()
    folder = re.search(r"^WORKDIR (.+)$", image, re.MULTILINE)
    assert folder and mount["mountPath"] == f"{folder[1]}/{LoggerConfig().log_path}"
    typed = PAGE.read_text().partition("kubectl exec")[2].partition("```")[0]
    assert f"cluster.num_nodes={1 + others['replicas']}" in typed
