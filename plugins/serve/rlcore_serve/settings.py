"""The keys of `serve`, read from words of the command line. Light."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.config.schema import Settings, key
from rlcore.config.schema_tree import walk
from rlcore.contracts.errors import ConfigError, choosing

SECTION = "serve."
KEY_VARIABLE = "RLCORE_SERVE_KEY"
"""Environment variable that holds the key clients must send; in no configuration, in no file."""


@dataclass
class ServeConfig(Settings):
    """A server of one policy."""

    host: str = key("address it listens on; others than this machine's need a key", "127.0.0.1")
    port: int = key("port; 0: any that is free", 8000, least=0, most=65535)
    platform: str = key(
        "names of observations: rlcore, libero, droid, aloha, or a YAML file", "rlcore"
    )
    max_batch: int = key("most observations in one forward", 8, least=1, largest=4096)
    max_wait_ms: float = key(
        "longest that an observation waits for others, in milliseconds; nobody is waited for who "
        "is not connected", 5.0, least=0, most=60_000,
    )  # fmt: skip
    deterministic: bool = key("act without exploration noise", True)
    forward_batch: int | None = key(
        "rows of each forward, filled up: a row's actions are then the same to the bit, whoever "
        "shares its forward; null: as many as there are",
        least=1, largest=4096,
    )  # fmt: skip
    seed: int = key("of the draws of clients that send no key", 0, least=0)
    max_clients: int = key("most connections; more are refused with 503", 64, least=1, most=10_000)
    max_message_mb: float = key("largest message, in MiB", 16.0, above=0, most=1024)
    drain_s: float = key(
        "on SIGTERM, longest time for observations that are being answered, in seconds",
        30.0, least=0, most=3600,
    )  # fmt: skip


def read_settings(words: Sequence[str]) -> ServeConfig:
    """Settings from `serve.key=value`.

    Raises:
        ConfigError: an unknown key, or a value of another type or out of range.
    """
    names = [one.path for one in walk(ServeConfig())]
    settings = OmegaConf.structured(ServeConfig)
    for word in words:
        name, equals, _ = word.partition("=")
        if not equals or not name.startswith(SECTION) or name[len(SECTION) :] not in names:
            raise ConfigError(
                f"{word!r:.100} is no key of serve{choosing(name.removeprefix(SECTION), names)}",
                hint="rlcore serve --help",
            )
        try:
            settings.merge_with_dotlist([word[len(SECTION) :]])
        except OmegaConfBaseException as error:
            raise ConfigError(f"{word!r:.100}: {str(error).splitlines()[0]}") from None
    found = OmegaConf.to_object(settings)
    assert isinstance(found, ServeConfig)
    for one in walk(found):
        number = isinstance(one.value, (int, float)) and not isinstance(one.value, bool)
        if number and one.value not in one.range:
            raise ConfigError(f"{SECTION}{one.path} must be {one.range}, got {one.value}")
    return found
