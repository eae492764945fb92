"""Restrict training to the parameters that `actor.trainable` names."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from rlcore.contracts.errors import ConfigError
from rlcore.utils.text import abbreviate_list


def train_only(policy: Any, patterns: Sequence[str]) -> None:
    """Freeze the parameters whose names match no pattern, and drop them from `parameter_groups`.

    Parameters that the model itself has frozen remain frozen.

    Args:
        policy: a :class:`rlcore.contracts.protocols.Policy` that is also an `nn.Module`, which no
            single type expresses.
        patterns: shell-style patterns of parameter names.

    Raises:
        ConfigError: a pattern matches no parameter that the model trains.
    """
    groups = policy.parameter_groups
    parameters = dict(policy.named_parameters())
    grouped = {id(parameter) for group in groups().values() for parameter in group}
    names = [name for name, parameter in parameters.items() if id(parameter) in grouped]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ConfigError(
                f"actor.trainable: no parameter that the model trains matches {pattern!r}; "
                f"it trains {abbreviate_list(names)}",
                hint="rlcore train --help actor.trainable",
            )
    for name, parameter in parameters.items():
        chosen = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        parameter.requires_grad_(parameter.requires_grad and chosen)
    policy.parameter_groups = lambda: {
        name: [parameter for parameter in group if parameter.requires_grad]
        for name, group in groups().items()
    }
