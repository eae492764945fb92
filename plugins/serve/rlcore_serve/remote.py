"""A policy behind a server. Each row of a batch is one request; several are in flight at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

from rlcore.contracts.errors import PolicyError
from rlcore.contracts.protocols import (
    Demonstration,
    Evaluation,
    Inputs,
    Observation,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore_serve.client import PolicyClient
from rlcore_serve.platforms import KEY, MAX_PROMPT_BYTES, load_platform
from rlcore_serve.remote_settings import RemoteConfig, policy_spec

EVAL_PHASE, KEY_LENGTH = "eval", 7
"""Phase and length of a key of evaluations: seed, phase, update, task, trial, replica, decision."""
PADDING_KEY = ("pad",)
"""Key of padding rows of a batch, for which no request is sent."""
CAMERA, STATES, ELAPSED, PROMPT = "camera/", "states", "elapsed", "prompt"


def make(config: RemoteConfig, *, env_spec: EnvSpec) -> RemotePolicy:
    """Build the policy; the plugin names this factory. The policy connects when it first acts."""
    return RemotePolicy(config, env_spec)


class RemotePolicy(nn.Module):
    """See :class:`rlcore.contracts.protocols.Policy`. It has no parameters."""

    def __init__(self, config: RemoteConfig, env_spec: EnvSpec) -> None:
        super().__init__()
        self.spec = policy_spec(config, env_spec)
        self._config = config
        self._platform = load_platform(config.platform, env_spec, "actor.model.platform")
        self._clients = [make_client(config) for _ in range(config.connections)]
        self._threads = ThreadPoolExecutor(config.connections, "remote")

    def prepare(self, observation: Observation) -> Inputs:
        texts = [text.encode() for text in observation["task_descriptions"]]
        if long := [text for text in texts if len(text) > MAX_PROMPT_BYTES]:
            raise PolicyError(
                f"an instruction has at most {MAX_PROMPT_BYTES} bytes, got {len(long[0])}"
            )
        prompts = np.zeros((len(texts), MAX_PROMPT_BYTES), np.uint8)
        for row, text in enumerate(texts):
            prompts[row, : len(text)] = np.frombuffer(text, np.uint8)
        frames = {CAMERA + name: array for name, array in observation["cameras"].items()}
        states, elapsed = observation["states"], observation["elapsed"]
        return {**frames, STATES: states, ELAPSED: elapsed, PROMPT: prompts}

    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        shape = self.spec.num_action_chunks, self.spec.action_dim
        actions = np.zeros((len(keys), *shape), np.float32)
        rows = [row for row, key in enumerate(keys.keys) if key != PADDING_KEY]
        observation = _observation(inputs)

        def send_rows(slot: int) -> None:
            for row in rows[slot :: len(self._clients)]:
                message = self._message(observation, row, keys.keys[row])
                answer = self._clients[slot].request(message)
                actions[row] = self._validated(answer.get("actions"))

        for _ in self._threads.map(send_rows, range(min(len(rows), len(self._clients)))):
            pass  # iterating raises the exception of a failed request
        return PolicyOutput(actions, torch.zeros(actions.shape), torch.zeros(len(keys), 0), {})

    def evaluate(
        self, inputs: Mapping[str, torch.Tensor], replay: Mapping[str, torch.Tensor]
    ) -> Evaluation:
        self._refuse()

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        self._refuse()

    def sft_loss(
        self,
        inputs: Mapping[str, torch.Tensor],
        actions: torch.Tensor,
        mask: torch.Tensor,
        keys: RowKeys,
    ) -> torch.Tensor:
        self._refuse()

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        self._refuse()

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {"policy": [], "value": []}

    def set_progress(self, update: int) -> None:
        """Do nothing: the server does not know about updates."""

    def save_pretrained(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps({"url": self._config.url}))

    def _message(
        self, observation: Observation, row: int, key: tuple[int | str, ...]
    ) -> dict[str, Any]:
        """Return the message for one row; in an evaluation it holds the key of the row's draws."""
        message = self._platform.to_message(observation, row)
        if len(key) == KEY_LENGTH and key[1] == EVAL_PHASE:
            message[KEY] = [key[0], *key[3:]]
        return message

    def _validated(self, actions: Any) -> np.ndarray:
        """Return the first C actions of an answer, float32 `[C, A]`.

        Raises:
            PolicyError: they are not an array of numbers, have fewer steps or another number of
                entries, or are not finite in float32.
        """
        chunk, entries = self.spec.num_action_chunks, self.spec.action_dim
        is_numeric = isinstance(actions, np.ndarray) and actions.dtype.kind in "fiu"
        if (
            not is_numeric
            or actions.ndim != 2
            or len(actions) < chunk
            or actions.shape[1] != entries
        ):
            description = (
                f"{actions.dtype} {list(actions.shape)}"
                if isinstance(actions, np.ndarray)
                else f"{actions!r:.60}"
            )
            raise PolicyError(
                f"the server at {self._config.url} must answer with actions of at least {chunk} "
                f"steps and {entries} entries, got {description}",
                hint="actor.model.num_action_chunks: steps that are executed per decision",
            )
        with np.errstate(over="ignore"):  # values beyond float32 become inf and are refused below
            executed = np.asarray(actions[:chunk], np.float32)
        bad = np.argwhere(~np.isfinite(executed))
        if len(bad):
            step, entry = bad[0]
            raise PolicyError(
                f"the server at {self._config.url} must answer with finite actions, got "
                f"{actions[step, entry]} at step {step}, entry {entry}",
                hint="the policy behind the server is at fault, or its normalisation",
            )
        return executed

    def _refuse(self) -> NoReturn:
        raise PolicyError(self.spec.evaluation_only, hint="rlcore eval")


def _observation(inputs: Inputs) -> Observation:
    """Return the observation of R rows that :meth:`RemotePolicy.prepare` converted to arrays."""
    return {
        "cameras": {
            name.removeprefix(CAMERA): array
            for name, array in inputs.items()
            if name.startswith(CAMERA)
        },
        "states": inputs[STATES],
        "task_descriptions": [bytes(text).rstrip(b"\0").decode() for text in inputs[PROMPT]],
        "elapsed": inputs[ELAPSED],
    }


def make_client(config: RemoteConfig) -> PolicyClient:
    """Return a connection with the configured timeouts and limits, not established yet."""
    return PolicyClient(
        config.url,
        reconnect_s=config.reconnect_s,
        reply_s=config.reply_s,
        max_bytes=int(config.max_message_mb * 2**20),
    )
