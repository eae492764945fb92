"""Hold the networks of an algorithm, and their lagged copies. Knows no policy."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from rlcore.contracts.errors import AlgorithmError, CheckpointError
from rlcore.contracts.protocols import Inputs, OwnsNetworks
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import AlgorithmNeeds, NetworkNeeds, PolicySpec

PREFIX = "networks."
_LIVE, _LAGGED = "live", "lagged"


class Networks:
    """Networks by name; replicated, so every rank makes the same ones.

    Attributes:
        live: as they are trained.
        lagged: copies without gradients, of those that have one.
        acting: of both, those that the policy holds that acts, by name (:meth:`share_acting`).
    """

    def __init__(self, made: Mapping[str, nn.Module], needs: Sequence[NetworkNeeds]) -> None:
        self.live = {one.name: made[one.name] for one in needs}
        self._lags = {one.name: one.lag for one in needs if one.lag is not None}
        self.lagged = {
            name: copy.deepcopy(self.live[name]).requires_grad_(False) for name in self._lags
        }
        self._needs, self.acting = needs, dict[str, nn.Module]()

    def share_acting(self, acting: Mapping[str, nn.Module] | nn.ModuleDict) -> None:
        """Have those that act in common with who acts; what they have learned, the network or the
        lagged copy beside them gets too."""
        self.acting = dict(acting.items())
        for one in self._needs:
            if one.acts:
                for kind in (self.live, self.lagged):
                    if one.name in kind:
                        kind[one.name].load_state_dict(acting[one.name].state_dict())
                (self.live if one.acts == "live" else self.lagged)[one.name] = acting[one.name]

    def to(self, device: torch.device) -> None:
        """Move all of them."""
        for network in (*self.live.values(), *self.lagged.values()):
            network.to(device)

    @torch.no_grad()
    def update_targets(self, trained: Sequence[str]) -> None:
        """Move the lagged copies of networks that were trained: w' <- (1 - t) w' + t w; buffers
        become those of the network."""
        for name in self._lags.keys() & set(trained):
            copied, live = self.lagged[name], self.live[name]
            for old, new in zip(copied.parameters(), live.parameters(), strict=True):
                old.lerp_(new, self._lags[name])
            for held, buffer in zip(copied.buffers(), live.buffers(), strict=True):
                held.copy_(buffer)

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Trained parameters by network."""
        return {name: list(network.parameters()) for name, network in self.live.items()}

    def tensors(self) -> Iterator[Tensor]:
        """All parameters and buffers but those of who acts."""
        acting = set(map(id, self.acting.values()))
        for network in (*self.live.values(), *self.lagged.values()):
            if id(network) not in acting:
                yield from network.parameters()
                yield from network.buffers()

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all weights on the host, by name."""
        return {name: held.detach().cpu().clone() for name, held in self._named()}

    @torch.no_grad()
    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what :meth:`state_dict` gave; other tensors are ignored.

        Raises:
            CheckpointError: it is of other networks.
        """
        held = dict(self._named())
        stored = {name: one for name, one in tensors.items() if name.startswith(PREFIX)}
        if {n: h.shape for n, h in held.items()} != {n: s.shape for n, s in stored.items()}:
            raise CheckpointError(
                f"the {len(stored)} tensors of the algorithm's networks in the checkpoint and the "
                f"{len(held)} of this algorithm differ in names or shapes",
                hint="set the keys of algorithm as they were, or start a new run from its weights",
            )
        for name, one in held.items():
            one.copy_(stored[name])

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        for kind, networks in ((_LIVE, self.live), (_LAGGED, self.lagged)):
            for name, network in networks.items():
                for path, tensor in network.state_dict(keep_vars=True).items():
                    yield f"{PREFIX}{kind}.{name}.{path}", tensor


def make_networks(
    algorithm: OwnsNetworks, policy: PolicySpec, inputs: Inputs, *, named: str, seed: int
) -> Networks:
    """Ask an algorithm for its networks; their weights depend on the seed alone.

    Args:
        inputs: of one row.
        named: the algorithm, for errors.

    Raises:
        AlgorithmError: they are not those that it needs.
    """
    needs: AlgorithmNeeds = algorithm.needs
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, "networks").integers(2**31)))
        made = algorithm.networks(policy, inputs)
    names = [one.name for one in needs.networks]
    taken = [name for name in names if name in ("policy", "value") or "." in name]
    taken += [one.name for one in needs.networks if one.acts == "lagged" and one.lag is None]
    right = isinstance(made, Mapping) and sorted(made) == sorted(names)
    if taken or not right or not all(isinstance(one, nn.Module) for one in made.values()):
        raise AlgorithmError(
            f"algorithm {named}: networks() gave {made!r:.200}, expected a module for each of "
            f"{names}, names without a dot, neither policy nor value, a lag where the copy acts",
            hint="AlgorithmNeeds.networks and networks() must agree",
        )
    return Networks(made, needs.networks)
