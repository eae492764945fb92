"""Define the specs of components: frozen facts made of numpy values and strings.

What an env offers and what a policy needs. Everything that can be checked before a worker starts is
checked on these; building them loads no simulator and no tensor library. How a plugin registers
either is in :mod:`rlcore.contracts.component`; its names are here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, NamedTuple

from rlcore.contracts.component import KINDS as KINDS
from rlcore.contracts.component import ComponentSpec as ComponentSpec
from rlcore.contracts.component import Kind as Kind
from rlcore.contracts.component import OtherInterpreter as OtherInterpreter
from rlcore.contracts.component import SimulatorVersions as SimulatorVersions


class Episode(NamedTuple):
    """The address of one episode; equal addresses have equal starts and equal noise.

    Attributes:
        task: index into :attr:`EnvSpec.tasks`.
        trial: start of that task (see :attr:`EnvSpec.train_trials`).
        replica: tells episodes with the same start apart (members of a group, repeats).
        group: groups share (task, trial) and differ in replica; -1 where there are none.
    """

    task: int
    trial: int
    replica: int = 0
    group: int = -1


@dataclass(frozen=True)
class CameraSpec:
    """A named camera; frames are uint8 `[height, width, 3]`, upright, RGB."""

    name: str
    height: int
    width: int


@dataclass(frozen=True)
class StateChannel:
    """A run of entries of the state vector, by meaning."""

    meaning: str
    size: int


ActionMeaning = Literal[
    "ee_delta_position", "ee_delta_rotation", "gripper", "joint_position", "joint_delta"
]


@dataclass(frozen=True)
class ActionChannel:
    """A run of entries of the action vector, by meaning.

    Attributes:
        meaning: what the numbers command.
        size: number of entries.
        low, high: range the env accepts; values outside are clipped by the env.
        frame: frame of reference, e.g. "base" or "end_effector".
        convention: e.g. "+1 closes" for a gripper; free text, shown to users.
    """

    meaning: ActionMeaning
    size: int
    low: float = -1.0
    high: float = 1.0
    frame: str = "base"
    convention: str = ""


SPLITS = ("train", "heldout", "validation")
"""Of the starts of a task; see :class:`EnvSpec`."""
UNKNOWN = "unknown"
"""A version that can't be told."""


@dataclass(frozen=True)
class EnvSpec:
    """What an env offers under given settings.

    Attributes:
        name: the env's name.
        tasks: task names; `Episode.task` indexes this.
        descriptions: the sentence for each task, by which people know it.
        train_trials, heldout_trials, validation_trials: disjoint ranges of trial numbers. Methods,
            settings and checkpoints are chosen on validation trials, and reported on held-out ones;
            without validation trials there is no such split.
        cameras: in the order in which policies take them.
        states, actions: layout of the state and action vectors.
        max_episode_steps: time limit in env steps.
        start_exactness: "bitwise" where (task, trial) gives bit-equal starts, "stored_state"
            where the start is restored from a stored state and equal to the simulator's accuracy.
        course_repeats: whether what follows a start repeats too, to the bit, for equal actions.
            Where it does not, an episode that was lost can't be brought back to where it was.
        whole_chunks: whether the actions of a chunk are carried out as one motion, so that cut into
            other chunks they lead elsewhere. Its demonstrations are played in chunks of `stride`.
        task_groups: named groups of tasks for tables (difficulty, suite).
        has_expert: whether :meth:`rlcore.contracts.protocols.Env.demonstrate` works.
        render_settings: what changes pixels, for the manifest. An env that is made adds what its
            machine decides.
        renders_final: whether the final frame of a truncated episode is rendered. An env that
            can leave it out calls the key of its settings `render_final`.
        suspends: whether it is a :class:`rlcore.contracts.protocols.SuspendableEnv`.
        sentences: all that a policy may get, where episodes have sentences of their own;
            empty: the descriptions.
        open_sentences: whether episodes also have sentences that nobody can list beforehand, as
            those that describe the objects at hand.
        caveat: what figures measured under these settings must not be taken for; shown wherever
            they are. Empty: nothing to say.
        versions: of what simulates, by name, as far as no distribution tells them: the commit of a
            checkout, for one; UNKNOWN if it is not known. They stand in the manifest, and
            wherever versions do.
        hosts: of an env that is made, the process that simulates each row, by number. Episodes of
            a task go to rows of one process where possible. Empty: all rows share one.
    """

    name: str
    tasks: tuple[str, ...]
    descriptions: tuple[str, ...]
    train_trials: range
    heldout_trials: range
    cameras: tuple[CameraSpec, ...]
    states: tuple[StateChannel, ...]
    actions: tuple[ActionChannel, ...]
    max_episode_steps: int
    start_exactness: Literal["bitwise", "stored_state"] = "bitwise"
    course_repeats: bool = True
    whole_chunks: bool = False
    task_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_expert: bool = False
    render_settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    renders_final: bool = True
    suspends: bool = False
    sentences: tuple[str, ...] = ()
    open_sentences: bool = False
    caveat: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[int, ...] = ()
    validation_trials: range = range(0)

    @property
    def said(self) -> tuple[str, ...]:
        """Return all sentences that a policy may get."""
        return self.sentences or self.descriptions

    @property
    def state_dim(self) -> int:
        return sum(channel.size for channel in self.states)

    @property
    def action_dim(self) -> int:
        return sum(channel.size for channel in self.actions)

    def trials(self, split: str) -> range:
        """Return trial numbers of `split`: "train", "heldout" or "validation"."""
        return self.splits[split]

    @property
    def splits(self) -> dict[str, range]:
        """Trial numbers of all splits."""
        trials = (self.train_trials, self.heldout_trials, self.validation_trials)
        return dict(zip(SPLITS, trials, strict=True))


@dataclass(frozen=True)
class Activations:
    """Bytes that a forward makes for each sample, beside weights.

    Attributes:
        kept: left for the backward pass.
        recomputed: likewise with gradient checkpointing: what is left, and one layer while it is
            made again.
        passing: held at once without gradients, beside `PolicySpec.cache_numbers`.
    """

    kept: int = 0
    recomputed: int = 0
    passing: int = 0


@dataclass(frozen=True)
class PolicySpec:
    """What a policy needs and gives under given settings.

    Attributes:
        name: the model's name.
        num_images: cameras it takes.
        state_dim: widest state it takes (0: takes none).
        states: layout of the state that its checkpoint learned from, where the checkpoint names a
            data set of which that is known; empty: it does not.
        action_dim: A, entries of the env action it produces.
        num_action_chunks: C, actions executed per decision.
        action_horizon: H >= C, actions predicted per decision.
        value_dim: V: 0 without a value head, 1 per chunk, C per action.
        sft: the supervised loss it has: "flow_matching", "token_cross_entropy" or None.
        parameters: total number of parameters (0 if unknown), for the memory estimate.
        trainable_parameters: likewise those that RL trains.
        gathered_parameters: those that are whole at once where actor processes shard them, see
            :func:`gathered`; 0: all.
        cache_numbers: numbers per row that it keeps while it decides, in its precision: keys and
            values of what was read (0 if it keeps none).
        activations: what its forwards make besides (0: unknown).
        sample_bytes: of a decision that is stored until it is learned from: inputs and replay.
        library_bytes: of main memory, for libraries that it imports besides the tensor library.
        gradient_checkpointing: whether it has `set_checkpointing`, to recompute activations.
        blocks: whether it has `blocks`, to gather sharded parameters block by block.
        starts_from_noise: whether its decisions without exploration still depend on their keys,
            as those of a flow do.
        noise: shape of that noise, of a row, where `act` can be given it
            (:class:`rlcore.contracts.protocols.TakesNoise`); empty: it can't.
        temperature: whether it has `set_temperature`, as one that samples tokens does.
        evaluation_only: why it can't be trained by RL; empty if it can.
        rough_logprobs: why `evaluate` gives other log-probs than `act` did at equal weights, beyond
            rounding; empty if it gives the same.
        unread: beginnings of names of trained parameters on which, by the network's design, neither
            log-probs nor values depend.
    """

    name: str
    num_images: int
    state_dim: int
    action_dim: int
    num_action_chunks: int
    action_horizon: int
    value_dim: int = 0
    states: tuple[StateChannel, ...] = ()
    sft: str | None = None
    parameters: int = 0
    trainable_parameters: int = 0
    gathered_parameters: int = 0
    cache_numbers: int = 0
    activations: Activations = Activations()
    sample_bytes: int = 0
    library_bytes: int = 0
    gradient_checkpointing: bool = False
    blocks: bool = False
    starts_from_noise: bool = False
    noise: tuple[int, ...] = ()
    temperature: bool = False
    evaluation_only: str = ""
    rough_logprobs: str = ""
    unread: tuple[str, ...] = ()


def gathered(shapes: Mapping[str, Sequence[int]], blocks: str) -> int:
    """Count how many parameters are whole at once where actor processes divide them: those in no
    block, and the two largest blocks, as the next one arrives while one computes.

    Args:
        shapes: of all parameters, by name.
        blocks: pattern that the name of a block's parameter begins with; its group is the block.
    """
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        found = re.match(blocks, name)
        block = found[1] if found else ""
        sizes[block] = sizes.get(block, 0) + prod(shape)
    outside = sizes.pop("", 0)
    return outside + sum(sorted(sizes.values())[-2:])


@dataclass(frozen=True)
class GroupFilter:
    """Which groups are worth training on, by the mean score of their episodes.

    Attributes:
        low, high: bounds of that mean, inclusive.
        refill_rounds: how often before an update new groups may be played in place of those out
            of bounds; 0: never.
    """

    low: float
    high: float
    refill_rounds: int = 0


@dataclass(frozen=True)
class AdamW:
    """Settings of the optimizer of one network, besides its learning rate.

    The defaults are those of the paper (Kingma and Ba 2015, arXiv 1412.6980), without decay and
    without clipping, as most public code of off-policy algorithms has them.

    Attributes:
        beta1, beta2: decay rates of the first and second moment, in [0, 1).
        eps: added to the root of the second moment.
        weight_decay: lambda of the decoupled decay w <- w - lr lambda w (Loshchilov and Hutter
            2019).
        clip_grad: largest 2-norm of the network's gradient; None: it is not clipped.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip_grad: float | None = None


@dataclass(frozen=True)
class NetworkNeeds:
    """A network of an algorithm. Its optimizer is its own: `actor.optim` does not reach it.

    Attributes:
        name: without a dot; not "policy" or "value".
        lr: its learning rate, without warm-up or decay.
        parameters: how many it has at most, for the memory estimate.
        lag: t of a lagged copy: w' <- (1 - t) w' + t w after each step that trains it; None: there
            is no copy.
        acts: whether it has a part in acting (:class:`rlcore.contracts.protocols.HasPartInActing`):
            the network itself ("live") or its lagged copy. It goes wherever the policy goes.
        optim: the rest of its optimizer. Its gradient is clipped apart from those of other networks
            and of the policy.
    """

    name: str
    lr: float
    parameters: int = 0
    lag: float | None = None
    acts: Literal["live", "lagged"] | None = None
    optim: AdamW = AdamW()


@dataclass(frozen=True)
class ReplayNeeds:
    """What an algorithm keeps of decisions.

    Attributes:
        size: bytes of all actor processes together; the oldest rollouts go when it is exceeded.
        failures: whether episodes that did not succeed are kept too.
        decided: names of `PolicyOutput.replay` that are kept of each decision, beside its inputs.
    """

    size: int
    failures: bool = True
    decided: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlgorithmNeeds:
    """What an algorithm asks of the rest, so that checks need no ladder of names.

    Attributes:
        values: a policy with a critic.
        bootstrap_values: values of the final observations of truncated episodes too.
        groups: episodes that share a start (`algorithm.group_size` of 2 or more).
        group_filter: which of the groups it trains on; None: all.
        reference_logprobs: log-probs under the weights that training began with.
        acted_logprobs: log-probs of acting that hold for the weights an update begins with, so that
            the first ratios are 1. False for one that compares none. Decisions of earlier weights
            (`policy_version`) are left out by themselves.
        networks: of its own.
        replay: decisions of earlier rollouts; None: it learns from each rollout once.
        demonstrations: those of the run, as rows of the replay.
        imitation: a policy with a supervised loss.
        noise: a policy that can be given the noise its decisions start from.
        episode_shift: exploration besides the policy's own: std of what is added to all actions of
            a training episode, drawn once an episode, in units of half of each entry's range. Not
            for one that learns from the log-probs of what was executed.
        frozen: the policy as it is: no step trains it.
    """

    values: bool = False
    bootstrap_values: bool = False
    groups: bool = False
    group_filter: GroupFilter | None = None
    reference_logprobs: bool = False
    acted_logprobs: bool = True
    networks: tuple[NetworkNeeds, ...] = ()
    replay: ReplayNeeds | None = None
    demonstrations: bool = False
    imitation: bool = False
    noise: bool = False
    episode_shift: float = 0.0
    frozen: bool = False

    @property
    def acting(self) -> tuple[NetworkNeeds, ...]:
        """Networks with a part in acting."""
        return tuple(one for one in self.networks if one.acts)

    def refusal(self, policy: PolicySpec) -> str | None:
        """Return why such a policy can't be trained, said before anything starts; None if it can.
        For subclasses."""
        return None


@dataclass(frozen=True)
class Published:
    """A row of a published table, in whose columns a protocol's own figures are counted.

    Attributes:
        model: its name there.
        algorithm: how it was trained, e.g. "supervised".
        figures: success in percent, by the protocol's groups, averages and totals; some may be
            missing.
        source: where the table stands.
        setting: how these episodes were played, as far as the source says.
        weights: names under which the trained weights are published; empty: not known.
    """

    model: str
    algorithm: str
    figures: Mapping[str, float]
    source: str
    setting: str = ""
    weights: str = ""


@dataclass(frozen=True)
class ProtocolSpec:
    """A named evaluation of one policy under several settings of an env.

    Attributes:
        env: registered name of the env whose settings they are.
        groups: `{group: {row: {key: value}}}`: changes of `env.eval`; row names are unique.
        averages: `{name: groups}`: unweighted means of the success rates of groups.
        totals: `{name: groups}`: rates over all episodes of groups.
        may_differ: keys of the rows that a command line may set for all of them; the table then
            says that its figures are not the protocol's.
        published: figures of others, shown beside its own.
        differs: what of the protocol is not as it was for these, a line each.
    """

    env: str
    groups: Mapping[str, Mapping[str, Mapping[str, Any]]]
    averages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    totals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    may_differ: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()
    differs: tuple[str, ...] = ()
