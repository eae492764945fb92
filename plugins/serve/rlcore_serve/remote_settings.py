"""Settings and facts of the model `remote`. Light."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import ModelConfig, TrustedKey, key
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_serve.platforms import load_platform

SCHEMES = ("ws://", "wss://")


@dataclass
class RemoteConfig(ModelConfig):
    """A policy behind a server with openpi's websocket protocol, to evaluate. If the server asks
    for a key, it is taken from RLCORE_SERVE_KEY in the environment."""

    model_type: str = key("registered name of the model", "remote")
    url: str = key(
        "address of the server: ws://HOST:PORT",
        "",
        trusted=TrustedKey("asks the server", ("",), risk="gets the key in RLCORE_SERVE_KEY"),
    )
    platform: str = key(
        "names of observations on the wire: rlcore, libero, droid, aloha, or a YAML file", "rlcore"
    )
    connections: int = key(
        "requests in flight at most, each on a connection of its own",
        8,
        minimum=1,
        magnitude_limit=1024,
    )
    reconnect_s: float = key(
        "longest time to reach the server, at the start and after a connection broke, in seconds",
        60.0,
        minimum=0,
        maximum=86_400,
    )
    reply_s: float = key(
        "longest time for an answer, in seconds", 120.0, exclusive_minimum=0, maximum=86_400
    )
    max_message_mb: float = key("largest answer, in MiB", 16.0, exclusive_minimum=0, maximum=1024)


def policy_spec(config: RemoteConfig, env: EnvSpec) -> PolicySpec:
    """Return the spec of the remote policy; its inputs and actions are taken from the env.

    Raises:
        ConfigError: the address is missing or malformed, or the platform does not exist, lacks a
            camera of the env, or sends the state in parts.
    """
    if not config.url.startswith(SCHEMES):
        raise ConfigError(
            f"actor.model.url must be ws://HOST:PORT, got {config.url!r}",
            hint="actor.model.url=ws://127.0.0.1:8000 for rlcore serve on this machine",
        )
    if len(load_platform(config.platform, env, "actor.model.platform").states) > 1:
        raise ConfigError(
            f"actor.model.platform={config.platform} sends the state in parts, and "
            f"{env.name} has it in one",
            hint="actor.model.platform=FILE.yaml with one name in states",
        )
    return PolicySpec(
        name="remote",
        num_images=len(env.cameras),
        state_dim=env.state_dim,
        action_dim=env.action_dim,
        num_action_chunks=config.num_action_chunks,
        action_horizon=config.num_action_chunks,
        evaluation_only="model remote gives actions, and neither log-probs nor weights",
    )
