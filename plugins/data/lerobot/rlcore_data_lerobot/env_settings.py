"""Settings of the env `data`, which a data set describes and no simulator plays."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlcore.config.schema import EnvConfig, key
from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import ComponentSpec
from rlcore.demonstrations.datasets import open_dataset


@dataclass
class DataEnvConfig(EnvConfig):
    """The env of recorded episodes: a data set says what its cameras, states and actions are."""

    env_type: str = key("registered name of the env", "data")
    data: str | None = key(
        "the data set: a folder, or the file that describes one; null: facts must be given",
        place="data",
    )
    facts: Any = key(
        "cameras, states, actions and sentences of the data set; null: they are read from it. "
        "config.yaml of a run has them, so that a run is served where its data set is not"
    )

    def resolve(self, spec: ComponentSpec) -> None:
        """Read the facts from the data set, unless the configuration of a run has them."""
        if self.facts is None and self.data is not None:
            with suppress(UserError):  # the spec function reports it, along with other errors
                self.facts = facts_of_data(Path(self.data))


def facts_of_data(path: Path) -> dict[str, Any]:
    """Return the fields of :class:`rlcore.runs.env_facts.EnvFacts` of a data set, as plain values.

    Raises:
        ConfigError: there is no data set, or its collection was interrupted.
        CheckpointError: the data set is damaged.
    """
    _, data = open_dataset(path)
    fields = ("env", "cameras", "states", "actions", "render_settings", "sentences")
    facts = asdict(data.facts)
    return {name: facts[name] for name in fields}
