"""Count the floating-point operations that a sample of an update takes, without computing it.

The network is built on torch's meta device: it has shapes and no numbers, so that this needs no
memory and no card.

    python -m parts.gpu.operations     (in benchmarks/) prints the table that the page is made from
"""

from __future__ import annotations

import torch
from rlcore_prismatic.settings import WORD

from parts.gpu.device import flops_of
from parts.gpu.subject import METHODS, Subject, planned_facts, published, settings_of
from rlcore.workers.actor_worker import ActorWorker

COUNTED: dict[tuple[str, str], float] = {
    ("pi0", "lora"): 5.507e12,
    ("pi0", "expert"): 2.692e12,
    ("pi05", "lora"): 9.758e12,
    ("pi05", "expert"): 4.659e12,
    ("openvla_oft", "lora"): 1.062e13,
}
"""Of a forward and a backward of one sample, without recomputed activations."""


def count(model: str, method: str) -> float:
    """Return the operations of a forward and backward of one sample of a published size."""
    facts = planned_facts(published(model, method))
    with torch.device("meta"):
        policy = ActorWorker(settings_of(facts)).make(facts.config.actor.model)
    subject = Subject(facts.config, facts, facts.policy_env, policy)
    inputs = {name: torch.from_numpy(array) for name, array in subject.observed(1).items()}
    with torch.device("meta"):
        replay = _replay(policy)
        return flops_of(lambda: subject.loss(inputs, replay).backward())


def _replay(policy: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return one stored decision without numbers, as `act` would give it."""
    spec = policy.spec
    if spec.starts_from_noise:
        points = policy.config.openpi.num_steps + 1
        return {
            "chain": torch.zeros(1, points, *spec.noise),
            "denoise_index": torch.zeros(1, dtype=torch.int64),
        }
    size, entries = policy.processor.resolved.size, policy.processor.resolved.action_dim
    tokens = torch.zeros(1, spec.num_action_chunks, entries, dtype=torch.int64)
    words = torch.zeros(*tokens.shape, size.action_bins // WORD, dtype=torch.int64)
    return {"action_tokens": tokens, "allowed_tokens": words}


if __name__ == "__main__":
    for name, methods in METHODS.items():
        for way in methods:
            print(name, way, f"{count(name, way):.3e}", flush=True)
