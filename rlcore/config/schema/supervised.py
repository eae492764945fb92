"""Keys of `collect` and `sft`: expert demonstrations, and supervised training on them."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema.keys import Settings, When, key

WHEN_SFT = When("sft.enabled", (True,))  # `rlcore collect` reads these keys too


@dataclass
class CollectConfig(Settings):
    """Settings of expert demonstrations: which to learn from, and how to collect them."""

    path: str | None = key(
        "train and sft: data set to learn from, which must be there: a folder, or a file that "
        "describes one; null: demonstrations are collected into the run",
        place="data",
        when=WHEN_SFT,
    )
    output: str | None = key(
        "rlcore collect: folder to write the data set to, or to go on with; null: "
        "<run>/demonstrations",
        place="written",
        when=WHEN_SFT,
    )
    format: str = key(
        "how a new data set is written (rlcore plugins lists those of kind dataset); one that is "
        "there is read as what it is",
        "safetensors",
        when=WHEN_SFT,
    )
    episodes_per_task: int = key(
        "successful demonstrations kept per task", 10, minimum=1, when=WHEN_SFT
    )
    action_noise: float = key(
        "std of the noise on executed actions, for recovery, in units of half of each entry's "
        "range: of the action itself where it lies in [-1, 1]",
        0.0,
        minimum=0,
        when=WHEN_SFT,
    )
    speed: float = key(
        "factor on the expert's motion commands, in (0, 1]",
        1.0,
        exclusive_minimum=0,
        maximum=1,
        when=WHEN_SFT,
    )
    stride: int = key("env steps between rendered frames", 1, minimum=1, when=WHEN_SFT)
    max_episode_steps: int | None = key(
        "time limit of a demonstration in env steps; null: env.train.max_episode_steps",
        minimum=1,
        when=WHEN_SFT,
    )


WHEN_ENABLED = When("enabled", (True,))
DEMONSTRATIONS = "demonstrations"
OWN_SUCCESSES = "own_successes"
MAX_STEPS = "max_steps"
UNTIL_PLATEAU = "plateau"


@dataclass
class SFTConfig(Settings):
    """Supervised training on demonstrations, to make the starting checkpoint."""

    enabled: bool = key(
        "run supervised training before reinforcement learning", False, fixed="weights"
    )
    max_steps: int = key(
        "optimizer steps; with until=plateau those before success is first measured; 0: none, the "
        "run and its control begin from the given weights, and only the normaliser is fitted",
        1000,
        minimum=0,
        when=WHEN_ENABLED,
    )
    until: str = key(
        "what ends training: max_steps, that many steps, or fewer with patience; plateau, success "
        "in at least 200 episodes on validation starts of env.eval: the number of steps is doubled "
        "until two doublings in a row gained less than 3 points each (after the first "
        "success), and the weights with the highest success, the first of equals, are kept; each "
        "doubling has a new optimizer, and its own warm-up and schedule of the learning rate",
        MAX_STEPS,
        choices=(MAX_STEPS, UNTIL_PLATEAU),
        when=WHEN_ENABLED,
    )
    max_doublings: int = key(
        "doublings after which training ends though success still rises, or there is none yet; a "
        "warning says so",
        6,
        minimum=2,
        maximum=20,
        when=(WHEN_ENABLED, When("until", (UNTIL_PLATEAU,))),
    )
    batch_size: int = key("frames per optimizer step", 64, minimum=1, when=WHEN_ENABLED)
    lr: float = key("learning rate", 1e-3, exclusive_minimum=0, when=WHEN_ENABLED)
    lr_warmup_steps: int = key(
        "optimizer steps of linear warm-up", 50, minimum=0, when=WHEN_ENABLED
    )
    lr_scheduler: str = key(
        "constant, or a cosine to 0 at max_steps (patience may end training before that); with "
        "until=plateau, to 0 at the end of each doubling; in a control, to 0 at its last step",
        "constant",
        choices=("constant", "cosine"),
        when=WHEN_ENABLED,
    )
    weight_decay: float = key("AdamW weight decay", 0.0, minimum=0, when=WHEN_ENABLED)
    val_fraction: float = key(
        "share of the demonstrations held out for validation, at least one; 0: none",
        0.2,
        minimum=0,
        exclusive_maximum=1,
        when=WHEN_ENABLED,
    )
    val_interval: int = key(
        "optimizer steps between validation losses", 50, minimum=1, when=WHEN_ENABLED
    )
    patience: int | None = key(
        "validations without a 5% improvement after which training ends; null: only at max_steps; "
        "it must be null with until=plateau",
        minimum=1,
        when=WHEN_ENABLED,
    )
    save_interval: int | None = key(
        "optimizer steps between saved states of supervised training, of which the latest is kept "
        "until it ends, for rlcore resume; null: one is saved only when a signal stops the run",
        1000,
        minimum=1,
        when=WHEN_ENABLED,
        fixed="no",
    )
    memory_gb: float = key(
        "GB of samples a policy worker keeps, of data decoded as it trains",
        4.0,
        minimum=0,
        when=WHEN_ENABLED,
        fixed="no",
    )
    decoders: int = key(
        "processes of a policy worker that decode such data ahead (LeRobot)",
        2,
        minimum=1,
        maximum=64,
        when=WHEN_ENABLED,
        fixed="no",
    )
    decoder_timeout: float = key(
        "longest time for such a process to answer, in seconds; then it is killed, and the run "
        "ends with an error",
        120.0,
        exclusive_minimum=0,
        when=WHEN_ENABLED,
        fixed="no",
    )
    control: str | None = key(
        "run a control: after training, continue SFT from the same start, for as many samples as "
        "RL trained on and a third of its decisions, and evaluate the result too: on "
        "demonstrations, or with own_successes on these and the successful training episodes, half "
        "of a batch each; null: none",
        choices=(DEMONSTRATIONS, OWN_SUCCESSES),
        when=WHEN_ENABLED,
        fixed="no",  # it is read after training
    )
