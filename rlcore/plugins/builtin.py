"""Register core's commands, backend and data set formats, by the same hook as any plugin."""

from __future__ import annotations

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.hookspecs import hookimpl
from rlcore.contracts.version import API_VERSION

RLCORE_API = API_VERSION

COMMANDS = {
    "train": "fine-tune a policy: [demonstrations, SFT,] evaluation, RL, evaluation",
    "resume": "resume an interrupted run: resume RUN [key=value ...]",
    "eval": "evaluate a checkpoint, or the last checkpoint of a run's folder",
    "collect": "write expert demonstrations",
    "sft": "train supervised on demonstrations",
    "protocol": "evaluate under all settings of a protocol: eval RUN protocol=NAME",
    "verify": "repeat the evaluation stored with a checkpoint, and compare: eval RUN --verify",
    "plan": "suggest a placement for common machines; name the limiting resource",
    "cluster": "show a run's nodes and the resources it needs",
    "completion": "print a script that completes commands, recipes and keys in a shell",
    "plugins": "list what the installed plugins provide",
    "doctor": "check what is missing on this machine",
    "help": "list the commands",
}
BACKENDS = {"local": "all workers in one process, without any plugin: pdb works"}
DATASETS = {
    "safetensors": (
        "safetensors_format:SafetensorsFormat",
        "demonstrations, one safetensors file per episode, as rlcore collect writes them",
    ),
    "mixture": (
        "mixture:MixtureFormat",
        "several data sets with weights, listed in a YAML file; read-only",
    ),
}


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """Return the specs of core's commands, its backend and its formats of data sets."""
    return [
        *(
            ComponentSpec(
                kind="command", name=name, target=f"rlcore.cli.{name}:main", summary=summary
            )
            for name, summary in COMMANDS.items()
        ),
        *(
            ComponentSpec(
                kind="backend",
                name=name,
                target=f"rlcore.workers.{name}_group:LocalBackend",
                summary=summary,
            )
            for name, summary in BACKENDS.items()
        ),
        *(
            ComponentSpec(
                kind="dataset",
                name=name,
                target=f"rlcore.demonstrations.{target}",
                summary=summary,
            )
            for name, (target, summary) in DATASETS.items()
        ),
    ]
