"""Define the keys of `serve` and read them from words of the command line. Light."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.config.schema import Settings, key
from rlcore.config.schema_tree import walk
from rlcore.contracts.errors import ConfigError, choices_message

SECTION = "serve."
KEY_VARIABLE = "RLCORE_SERVE_KEY"
"""Environment variable with the key that clients must send. No configuration or file has it."""


@dataclass
class ServeConfig(Settings):
    """A server of one policy."""

    host: str = key(
        "address it listens on; others than this machine's need a key; ::, unlike 0.0.0.0, is IPv6 "
        "alone", "127.0.0.1",
    )  # fmt: skip
    port: int = key("port; 0: any that is free", 8000, minimum=0, maximum=65535)
    platform: str = key(
        "names of observations: rlcore, libero, droid, aloha, or a YAML file", "rlcore"
    )
    max_batch: int = key("most observations in one forward", 8, minimum=1, magnitude_limit=4096)
    max_wait_ms: float = key(
        "longest that an observation waits for others, in milliseconds; nobody is waited for who "
        "is not connected", 5.0, minimum=0, maximum=60_000,
    )  # fmt: skip
    deterministic: bool = key("act without exploration noise", True)
    forward_batch: int | None = key(
        "rows of each forward, filled up: a row's actions are then the same to the bit, whoever "
        "shares its forward; null: as many as there are",
        minimum=1, magnitude_limit=4096,
    )  # fmt: skip
    seed: int = key("of the draws of clients that send no key", 0, minimum=0)
    max_clients: int = key(
        "most connections; more are refused with 503", 64, minimum=1, maximum=10_000
    )
    max_message_mb: float = key("largest message, in MiB", 16.0, exclusive_minimum=0, maximum=1024)
    message_s: float = key(
        "longest time for a handshake, for a message to come in whole and for an answer to be "
        "taken, in seconds; a client that has asked nothing yet keeps its place so long, and then "
        "until another wants it",
        10.0, exclusive_minimum=0, maximum=3600,
    )  # fmt: skip
    forward_s: float | None = key(
        "longest time of a forward, in seconds, after which the server ends with an error; null: "
        "cluster.timeouts.policy of the run", exclusive_minimum=0, maximum=86_400,
    )  # fmt: skip

    @property
    def max_message_bytes(self) -> int:
        """`max_message_mb` in bytes."""
        return int(self.max_message_mb * 2**20)


def read_settings(words: Sequence[str]) -> ServeConfig:
    """Return the settings that words `serve.key=value` give.

    Raises:
        ConfigError: a key is unknown, or a value has another type or is out of range.
    """
    names = [one.path for one in walk(ServeConfig())]
    settings = OmegaConf.structured(ServeConfig)
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.startswith(SECTION) or name[len(SECTION) :] not in names:
            raise ConfigError(
                f"{word!r:.100} is no key of serve"
                f"{choices_message(name.removeprefix(SECTION), names)}",
                hint="rlcore serve --help",
            )
        own_name = name.removeprefix(SECTION)
        try:
            OmegaConf.update(settings, own_name, _value(text, isinstance(settings[own_name], str)))
        except (OmegaConfBaseException, yaml.YAMLError) as error:
            raise ConfigError(f"{word!r:.100}: {str(error).splitlines()[0]}") from None
    found = OmegaConf.to_object(settings)
    assert isinstance(found, ServeConfig)
    if not found.host:
        raise ConfigError("serve.host must be an address, got ''")
    for one in walk(found):
        number = isinstance(one.value, (int, float)) and not isinstance(one.value, bool)
        if number and one.value not in one.range:
            raise ConfigError(f"{SECTION}{one.path} must be {one.range}, got {one.value}")
    return found


def _value(text: str, is_text: bool) -> Any:
    """Parse the value of a word as YAML.

    For a key that holds text, a value that YAML reads as something else or can't read, such as `5`
    or `::`, stays the text as it was given.
    """
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        if is_text:
            return text
        raise
    return text if is_text and not isinstance(value, str) else value
