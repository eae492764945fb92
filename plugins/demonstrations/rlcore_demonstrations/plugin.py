"""Register this package with rlcore. Strings only."""

from __future__ import annotations

from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec

RLCORE_API = (0, 1)

COMMANDS = {
    "collect": "write expert demonstrations",
    "sft": "train supervised on demonstrations",
}
FUNCTIONS = {
    "check_supervised": ("checks:check_supervised", "what collecting and supervision need"),
    "check_start": ("checks:check_start", "the supervised start of a run that is resumed"),
    "said_demonstrations": ("checks:said_demonstrations", "which demonstrations are learned from"),
    "starting_policy": ("sft:starting_policy", "supervised training before reinforcement"),
    "more_supervised": ("sft:go_on", "the control: more supervised training"),
    "fit_demonstrations": ("fit:fit_demonstrations", "supervised training in a worker"),
    "more_demonstrations": ("fit:more_demonstrations", "the control in a worker"),
    "supervised_samples": ("fit:supervised_samples", "demonstrations among what a run learns from"),
}


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """Formats of data sets; collecting, and training on demonstrations."""
    return [
        ComponentSpec(
            kind="dataset",
            name="safetensors",
            target="rlcore_demonstrations.dataset:SafetensorsFormat",
            summary="demonstrations, a safetensors file an episode; what rlcore collect writes",
        ),
        ComponentSpec(
            kind="dataset",
            name="mixture",
            target="rlcore_demonstrations.mixture:MixtureFormat",
            summary="several data sets with weights, named in a YAML file; only read",
        ),
        *(
            ComponentSpec(
                kind="command",
                name=name,
                target=f"rlcore_demonstrations.commands:{name}",
                summary=summary,
            )
            for name, summary in COMMANDS.items()
        ),
        *(
            ComponentSpec(
                kind="function",
                name=name,
                target=f"rlcore_demonstrations.{target}",
                summary=summary,
            )
            for name, (target, summary) in FUNCTIONS.items()
        ),
    ]
