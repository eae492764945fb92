"""Run `rlcore serve RUN [serve.key=value ...]`: answer observations with a run's policy."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rlcore
from rlcore.cli.parser import Parser
from rlcore.cli.request import TRUST
from rlcore.config.schema_tree import walk
from rlcore.contracts.errors import ConfigError, UserError
from rlcore_serve.platforms import ELAPSED
from rlcore_serve.settings import KEY_VARIABLE, SECTION, ServeConfig, read_settings


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        UserError: settings are invalid, the run does not exist, the address can't be used, or the
            policy's forward pass timed out.
    """
    options = _parser().parse_intermixed_args(list(arguments))
    settings = read_settings(options.settings)
    key = api_key(settings.host)
    # imported late, because they import torch
    from rlcore_serve.batching import Batcher, action_function, blank_observation
    from rlcore_serve.platforms import load_served_platform
    from rlcore_serve.server import PolicyServer

    policy = rlcore.load_policy(
        options.run, options.checkpoint, options.device, trust=options.trust
    )
    platform = load_served_platform(settings.platform, policy.env_spec, settings.max_message_bytes)
    select_actions = action_function(
        policy, deterministic=settings.deterministic, forward_batch=settings.forward_batch
    )
    server = PolicyServer(
        settings,
        platform,
        metadata(policy, settings, Path(options.run).name),
        lambda connected: Batcher(
            select_actions,
            connected,
            max_batch=settings.max_batch,
            max_wait_s=settings.max_wait_ms / 1e3,
            timeout_s=settings.forward_s or policy.config.cluster.timeouts.policy,
        ),
        key,
        lambda line: print(line, flush=True),
        blank_observation(policy.env_spec),
    )
    policy_name = policy.policy.spec.name

    def ready(port: int) -> None:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(f"serving {policy_name} for {policy.env_spec.name} at ws://{host}:{port}", flush=True)
        if policy.reads_elapsed:
            print(
                f"clients should send {ELAPSED}, the share of the time limit that has passed: "
                "critics read it when they choose actions, and without it take each episode for "
                "just begun",
                flush=True,
            )

    try:
        asyncio.run(server.run(ready))
    except OSError as error:
        raise UserError(
            f"can't listen on {settings.host}:{settings.port}: {error.strerror or error}",
            hint="choose another serve.host or serve.port; serve.port=0 takes a free one",
        ) from None
    return 0


def api_key(host: str) -> str | None:
    """Return the key that clients must send, from the environment; None if they need none.

    Raises:
        ConfigError: there is no key although other machines can connect to `host`, or the key
            can't be sent in an HTTP header.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if key and not (key.isascii() and key.isprintable() and key == key.strip()):
        raise ConfigError(f"{KEY_VARIABLE} must be printable ASCII, without spaces at its ends")
    if not key and not _is_loopback(host):
        raise ConfigError(
            f"serve.host={host} lets other machines connect, and there is no key for them",
            hint=f"set {KEY_VARIABLE} in the environment; clients send it as Api-Key",
        )
    return key or None


def metadata(policy: Any, settings: ServeConfig, run: str) -> dict[str, Any]:
    """Return the metadata that the server sends to each client on connecting.

    Args:
        policy: a :class:`rlcore.api.LoadedPolicy`.
        settings: settings of the server.
        run: name of the run's folder.
    """
    spec, env = policy.policy.spec, policy.env_spec
    return {
        "server": f"rlcore {rlcore.__version__}",
        "run": run,
        "policy": spec.name,
        "env": env.name,
        "platform": settings.platform,
        # openpi's name; of the predicted horizon, an answer holds the actions of one decision alone
        "action_horizon": spec.num_action_chunks,
        "action_dim": env.action_dim,
        "action_low": list(env.action_low),
        "action_high": list(env.action_high),
        "state_dim": env.state_dim,
        "cameras": [camera.name for camera in env.cameras],
        "deterministic": settings.deterministic,
        "reads_elapsed": policy.reads_elapsed,
        "forward_batch": settings.forward_batch,
    }


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parser() -> argparse.ArgumentParser:
    keys = "\n".join(
        f"  {SECTION}{field.path}={field.default}\n      {field.help}"
        for field in walk(ServeConfig())
    )
    parser = Parser(
        prog="rlcore serve",
        description=__doc__,
        epilog=f"keys:\n{keys}\n\n{KEY_VARIABLE} in the environment: the key of clients",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="folder of a run, or of one of its checkpoints")
    parser.add_argument("settings", nargs="*", default=[], metavar="serve.key=value")
    parser.add_argument(
        "--checkpoint", default="latest", metavar="NAME", help="step_000010, best or latest"
    )
    parser.add_argument("--device", default="cpu", help="where it computes, as torch names it")
    for flag, options_of_flag in TRUST.items():
        parser.add_argument(flag, **options_of_flag)
    return parser
