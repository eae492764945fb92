"""Hold the networks of an algorithm and their target networks. Knows no policy."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn

from rlcore.contracts.errors import AlgorithmError, CheckpointError
from rlcore.contracts.protocols import EncodingPolicy, Inputs, NetworkAlgorithm, Policy
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import AlgorithmNeeds, NetworkNeeds

PREFIX = "networks."
_ONLINE = "live"  # part of the names of tensors in checkpoints
_TARGET = "lagged"


class Networks:
    """The networks of an algorithm, by name. Every rank builds an identical replica.

    Attributes:
        online: the networks that are trained.
        targets: target networks: copies, without gradients, of the networks with a Polyak factor.
        acting: the modules that are shared with the rollout policy (:meth:`share_acting`).
    """

    def __init__(self, modules: Mapping[str, nn.Module], needs: Sequence[NetworkNeeds]) -> None:
        self.online = {network.name: modules[network.name] for network in needs}
        self._polyak_factors = {
            network.name: network.polyak for network in needs if network.polyak is not None
        }
        self.targets = {
            name: copy.deepcopy(self.online[name]).requires_grad_(False)
            for name in self._polyak_factors
        }
        self._needs = needs
        self.acting: dict[str, nn.Module] = {}

    def share_acting(self, acting: Mapping[str, nn.Module] | nn.ModuleDict) -> None:
        """Share acting networks with the rollout policy.

        The weights of an acting network, which may come from a checkpoint, are copied into the
        online network and its target network. The acting module then replaces the one that acts.

        Args:
            acting: the policy's modules by name, one for each network that acts.
        """
        self.acting = dict(acting.items())
        for needed in self._needs:
            if needed.acts_with:
                shared = acting[needed.name]
                for networks in (self.online, self.targets):
                    if needed.name in networks:
                        networks[needed.name].load_state_dict(shared.state_dict())
                (self.online if needed.acts_with == "online" else self.targets)[needed.name] = (
                    shared
                )

    def to(self, device: torch.device) -> None:
        """Move online and target networks to a device."""
        for network in (*self.online.values(), *self.targets.values()):
            network.to(device)

    @torch.no_grad()
    def update_targets(self, trained: Sequence[str]) -> None:
        """Polyak-update the target networks of trained networks: w' <- (1 - t) w' + t w.

        Buffers are copied from the online network.

        Args:
            trained: names of networks; those without a target network are ignored.
        """
        for name in self._polyak_factors.keys() & set(trained):
            averaged, parameters, has_buffers = self._averaged[name]
            if averaged:
                torch._foreach_lerp_(averaged, parameters, self._polyak_factors[name])
            if has_buffers:
                buffers = self.targets[name].buffers(), self.online[name].buffers()
                for copied, buffer in zip(*buffers, strict=True):
                    copied.copy_(buffer)

    @cached_property
    def _averaged(self) -> dict[str, tuple[list[Tensor], list[Tensor], bool]]:
        """Return the parameters of each target network, those of its online network in the same
        order, and whether it has buffers.

        They are final once a step was made. To list them at each step takes longer than to average
        them, if a network has many small tensors.
        """
        found: dict[str, tuple[list[Tensor], list[Tensor], bool]] = {}
        for name in self._polyak_factors:
            target = self.targets[name]
            online = self.online[name]
            has_buffers = any(True for _ in online.buffers())
            found[name] = (list(target.parameters()), list(online.parameters()), has_buffers)
        return found

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Return the trained parameters of each network; an encoder has none."""
        return {
            network.name: [] if network.encodes else list(self.online[network.name].parameters())
            for network in self._needs
        }

    def tensors(self) -> Iterator[Tensor]:
        """Yield all parameters and buffers, except those shared with the rollout policy."""
        acting = set(map(id, self.acting.values()))
        for network in (*self.online.values(), *self.targets.values()):
            if id(network) not in acting:
                yield from network.parameters()
                yield from network.buffers()

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of all parameters and buffers on the host, by name."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self._named()}

    @torch.no_grad()
    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the result of :meth:`state_dict`; tensors of other components are ignored.

        Raises:
            CheckpointError: names or shapes differ from those of the networks.
        """
        own = dict(self._named())
        stored = {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
        if {n: t.shape for n, t in own.items()} != {n: t.shape for n, t in stored.items()}:
            raise CheckpointError(
                f"the {len(stored)} tensors of the algorithm's networks in the checkpoint and the "
                f"{len(own)} of this algorithm differ in names or shapes",
                hint="set the keys of algorithm as they were; if they are, another version wrote "
                "the checkpoint: start a new run from its policy, actor.model.model_path",
            )
        for name, tensor in own.items():
            tensor.copy_(stored[name])

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        """Yield `networks.KIND.NETWORK.PATH` and the parameter or buffer."""
        for kind, networks in ((_ONLINE, self.online), (_TARGET, self.targets)):
            for name, network in networks.items():
                for path, tensor in network.state_dict(keep_vars=True).items():
                    yield f"{PREFIX}{kind}.{name}.{path}", tensor


def make_networks(
    algorithm: NetworkAlgorithm,
    policy: Policy,
    inputs: Inputs,
    *,
    algorithm_name: str,
    seed: int,
    acting: Mapping[str, nn.Module] | None = None,
) -> Networks:
    """Build the networks of an algorithm. Their initial weights depend on `seed` alone; those of an
    encoder are the policy's.

    Args:
        policy: gives its spec, and copies of its encoder for networks that encode.
        inputs: one row of inputs, as the policy prepares them.
        algorithm_name: name of the algorithm, for error messages.
        acting: networks that act already, by name; their encoders are used, not copied again.

    Raises:
        AlgorithmError: `networks()` returned other networks than `AlgorithmNeeds.networks` lists,
            or an entry of that list has a reserved name, or acts with a target network that it does
            not have; or one encodes, and the policy offers no features.
    """
    needs: AlgorithmNeeds = algorithm.needs
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, "networks").integers(2**31)))
        modules = algorithm.networks(policy.spec, inputs)
    names = [network.name for network in needs.networks if not network.encodes]
    listed = [network.name for network in needs.networks]
    invalid = [name for name in listed if name in ("policy", "value") or "." in name]
    invalid += [
        network.name
        for network in needs.networks
        if network.acts_with == "target" and network.polyak is None
    ]
    complete = isinstance(modules, Mapping) and sorted(modules) == sorted(names)
    if invalid or not complete or not all(isinstance(m, nn.Module) for m in modules.values()):
        raise AlgorithmError(
            f"algorithm {algorithm_name}: networks() gave {modules!r:.200}, expected a module for "
            f"each of {names}; names have no dot and are neither policy nor value, and a network "
            "with acts_with='target' has a polyak factor",
            hint="AlgorithmNeeds.networks and networks() must agree",
        )
    present = acting or {}
    encoders = {
        network.name: present[network.name]
        if network.name in present
        else _frozen_encoder(policy, algorithm_name)
        for network in needs.networks
        if network.encodes
    }
    return Networks({**modules, **encoders}, needs.networks)


def _frozen_encoder(policy: Policy, algorithm_name: str) -> nn.Module:
    """Return a copy of the policy's encoder.

    Raises:
        AlgorithmError: the policy offers no features.
    """
    if not policy.spec.feature_size:
        raise AlgorithmError(
            f"algorithm {algorithm_name} reads features of the policy, and {policy.spec.name} "
            "offers none",
            hint="let AlgorithmNeeds.refusal refuse a policy whose PolicySpec.feature_size is 0",
        )
    return cast(EncodingPolicy, policy).frozen_encoder()
