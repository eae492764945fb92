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
        "address to listen on; a non-loopback address needs a key; :: listens on IPv6 only",
        "127.0.0.1",
    )
    port: int = key("port; 0: any free port", 8000, minimum=0, maximum=65535)
    platform: str = key(
        "names of observations: rlcore, libero, droid, aloha, or a YAML file", "rlcore"
    )
    max_batch: int = key(
        "most observations in one forward pass", 8, minimum=1, magnitude_limit=4096
    )
    max_wait_ms: float = key(
        "longest time that an observation waits for others, in milliseconds; a batch with an "
        "observation of each connected client waits no longer",
        5.0,
        minimum=0,
        maximum=60_000,
    )
    deterministic: bool = key(
        "act without exploration noise; a flow still begins with noise, keyed by connection and "
        "request, so equal observations get unequal actions",
        True,
    )
    forward_batch: int | None = key(
        "rows of each forward pass, padded: the actions of a row are then bitwise the same "
        "whatever the other rows are; null: no padding",
        minimum=1,
        magnitude_limit=4096,
    )
    seed: int = key("seed of the random draws for clients that send no key", 0, minimum=0)
    max_clients: int = key(
        "most connections; more are refused with 503", 64, minimum=1, maximum=10_000
    )
    max_message_mb: float = key("largest message, in MiB", 16.0, exclusive_minimum=0, maximum=1024)
    message_s: float = key(
        "timeout in seconds of a handshake, of receiving a message and of sending an answer; a "
        "client that has sent no observation by then is disconnected if another needs its place",
        10.0,
        exclusive_minimum=0,
        maximum=3600,
    )
    forward_s: float | None = key(
        "timeout in seconds of a forward pass, after which the server exits with an error; null: "
        "cluster.timeouts.policy of the run",
        exclusive_minimum=0,
        maximum=86_400,
    )

    @property
    def max_message_bytes(self) -> int:
        """`max_message_mb` in bytes."""
        return int(self.max_message_mb * 2**20)


def read_settings(words: Sequence[str]) -> ServeConfig:
    """Return the settings that words `serve.key=value` give.

    Raises:
        ConfigError: a key is unknown, or a value has another type or is out of range.
    """
    names = [field.path for field in walk(ServeConfig())]
    settings = OmegaConf.structured(ServeConfig)
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.startswith(SECTION) or name[len(SECTION) :] not in names:
            raise ConfigError(
                f"{word!r:.100} is no key of serve"
                f"{choices_message(name.removeprefix(SECTION), names)}",
                hint="rlcore serve --help",
            )
        path = name.removeprefix(SECTION)
        try:
            OmegaConf.update(settings, path, _value(text, isinstance(settings[path], str)))
        except (OmegaConfBaseException, yaml.YAMLError) as error:
            raise ConfigError(f"{word!r:.100}: {str(error).splitlines()[0]}") from None
    config = OmegaConf.to_object(settings)
    assert isinstance(config, ServeConfig)
    if not config.host:
        raise ConfigError("serve.host must be an address, got ''")
    for field in walk(config):
        number = isinstance(field.value, (int, float)) and not isinstance(field.value, bool)
        if number and field.value not in field.range:
            raise ConfigError(f"{SECTION}{field.path} must be {field.range}, got {field.value}")
    return config


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
