"""Random command lines and recipes, each of them wrong by construction.

Each damage is drawn with a seed of its own, so that every machine tries the same 300 and one of
them can be repeated alone. The error must contain the damage's `culprits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.schema import RunConfig
from rlcore.contracts.rng import generator
from rlcore.plugins.registry import load_plugins

TOY = ("env=toy", "model=toy", "algorithm=ppo")
METAWORLD = ("env=metaworld", "model=pi0_tiny", "algorithm=ppo")
QUICKSTART = ("experiment=quickstart_ppo",)
BASES = {
    TOY: ("toy", "toy"),
    METAWORLD: ("metaworld", "openpi"),
    QUICKSTART: ("metaworld", "openpi"),
}
VERBS = ("train", "eval", "sft", "collect")
RECIPE = "damaged"
ASK = (f"experiment={RECIPE}",)
ONE_PROCESS_EACH = "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}"
# Keys whose negative values are valid.
SIGNED = {"env.train.reward_coef", "env.eval.reward_coef", "algorithm.entropy_bonus"}


@dataclass(frozen=True)
class Damage:
    """One broken input.

    Attributes:
        verb: the command's name.
        words: the arguments after the verb.
        culprits: texts that the error must contain.
        recipe: bytes of `experiment/damaged.yaml` in a folder given as --config-dir, or None.
    """

    verb: str
    words: tuple[str, ...]
    culprits: tuple[str, ...]
    recipe: bytes | None = None

    @property
    def command(self) -> str:
        text = f"rlcore {self.verb} {' '.join(self.words)}"
        return text if self.recipe is None else f"{text}  with {self.recipe!r}"


class Draw:
    """The random choices of one damage."""

    def __init__(self, *key: int | str) -> None:
        self._random = generator("damage", *key)

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._random.integers(len(choices)))]

    def number(self, low: int, high: int) -> int:
        """Return a random integer in [low, high)."""
        return int(self._random.integers(low, high))

    def letter(self) -> str:
        return self.pick("abcdefghijklmnopqrstuvwxyz")

    def misspell(self, word: str, taken: Sequence[str]) -> str:
        """Return a misspelling of `word` that differs from all `taken` names, ignoring case."""
        used = {name.lower() for name in taken}
        while True:
            at = self.number(0, len(word))
            slips = {
                "dropped": word[:at] + word[at + 1 :],
                "doubled": word[:at] + word[at] + word[at:],
                "swapped": word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
                "replaced": word[:at] + self.letter() + word[at + 1 :],
                "accented": word.replace("e", "é").replace("o", "ø"),
                "foreign": word.replace("a", "а"),  # a Cyrillic one
            }
            slip: str = slips[self.pick(sorted(slips))]
            if slip.lower() not in used and len(slip) > 1 and slip[0].isalpha() and slip[-1] != "_":
                return slip


# -- the keys of a configuration ----------------------------------------------------------------


def keys_of(base: tuple[str, ...]) -> list[schema_tree.Key]:
    """Return all keys of the configuration that `base` composes."""
    env, model = BASES[base]
    names = {"env.train": env, "env.eval": env, "actor.model": model, "algorithm": "ppo"}
    root = RunConfig()
    registry = load_plugins()
    settings = {s.section: default_settings(registry, s, names[s.section]) for s in SLOTS}
    root.env.train, root.env.eval = settings["env.train"], settings["env.eval"]  # type: ignore[assignment]
    root.actor.model, root.algorithm = settings["actor.model"], settings["algorithm"]  # type: ignore[assignment]
    return list(schema_tree.walk(root))


KEYS = {base: keys_of(base) for base in BASES}


def some_key(
    draw: Draw, base: tuple[str, ...], wanted: Callable[[schema_tree.Key], bool]
) -> schema_tree.Key:
    key: schema_tree.Key = draw.pick([key for key in KEYS[base] if wanted(key)])
    return key


def siblings(base: tuple[str, ...], path: str) -> list[str]:
    section = path.rpartition(".")[0]
    return [k.path.rpartition(".")[2] for k in KEYS[base] if k.path.rpartition(".")[0] == section]


def given(draw: Draw, base: tuple[str, ...], path: str, value: str, *culprits: str) -> Damage:
    """Return a damage that sets `path` on the command line, or in a recipe with the same base."""
    verb = draw.pick(VERBS)
    if draw.number(0, 3):
        plus = draw.pick(("", "", "", "+", "++"))
        return Damage(verb, (*base, f"{plus}{path}={value}"), culprits)
    return Damage(verb, ASK, culprits, recipe(base, nested(path, value)))


def nested(path: str, value: str) -> str:
    lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(path.split("."))]
    return "\n".join(lines) + f" {value}\n"


def recipe(base: tuple[str, ...], body: str) -> bytes:
    if base == QUICKSTART:
        defaults = ["- quickstart", "- _self_"]
    else:
        defaults = [f"- override /{w.replace('=', ': ')}" for w in base]
    return "\n".join(
        ["# @package _global_", "defaults:", *(f"  {d}" for d in defaults), "", body]
    ).encode()


def any_base(draw: Draw) -> tuple[str, ...]:
    base: tuple[str, ...] = draw.pick(list(BASES))
    return base


# -- keys ---------------------------------------------------------------------------------------


def misspelled_key(draw: Draw) -> Damage:
    base = any_base(draw)
    names = some_key(draw, base, lambda key: True).path.split(".")
    level = draw.number(0, len(names))
    slip = draw.misspell(names[level], siblings(base, ".".join(names[: level + 1])))
    wrong = ".".join([*names[:level], slip])
    return given(draw, base, ".".join([*names[:level], slip, *names[level + 1 :]]), "1", wrong)


def foreign_key(draw: Draw) -> Damage:
    """Return a key of another plugin, or of another section."""
    path, base = draw.pick(
        [
            ("env.train.camera", TOY),
            ("env.eval.benchmark", TOY),
            ("env.train.fail_at", METAWORLD),
            ("actor.model.openpi.num_steps", TOY),
            ("actor.model.hidden", METAWORLD),
            ("actor.lr", TOY),
            ("algorithm.lr", QUICKSTART),
            ("env.total_num_envs", METAWORLD),
            ("env.train.gamma", TOY),
            ("seed", TOY),
            ("runner.backend", QUICKSTART),
            ("runner.timeouts", TOY),
        ]
    )
    section = path.rpartition(".")[0]
    shown = section if path.startswith("actor.model.openpi") else path
    return given(draw, base, path, "3", shown)


def section_as_value(draw: Draw) -> Damage:
    base = any_base(draw)
    path = some_key(draw, base, lambda key: key.section and key.path != "env").path
    if "." not in path and path in ("algorithm",):
        path = "actor.optim"  # `algorithm=x` chooses a group
    value = draw.pick(("7", "false", "fast", "[1,2]"))
    return given(draw, base, path, value, path, as_python(value.split(",")[0].strip("[]")))


def value_as_section(draw: Draw) -> Damage:
    base = any_base(draw)
    path = some_key(
        draw,
        base,
        lambda key: not key.section and key.type.split(" ")[0] in ("int", "float", "bool", "str"),
    ).path
    return given(draw, base, path, "{inner: 1}", path)


# -- values -------------------------------------------------------------------------------------

WRONG = {  # by the first word of a key's type
    "int": ("many", "1.5", "true", "[1]", "1e3x", "'7 envs'", "0.3"),
    "float": ("high", "[0.1]", "true", "1_xe-5", "'1 e-5'", "false"),
    "bool": ("perhaps", "2.5", "[true]", "7", "tru"),
    "list[str]": ("{a: 1}", "7", "true"),
    "list[float]": ("[a, b, c]", "0.5", "{a: 1}"),
    "list[int]": ("[a, b]", "12", "[1.5]"),
    "str": ("[a, b]", "{a: 1}"),
}


def wrong_type(draw: Draw) -> Damage:
    base = any_base(draw)
    key = some_key(draw, base, lambda key: not key.section and first(key) in WRONG)
    value = draw.pick(WRONG[first(key)])
    shown = value.strip("'").split(",")[0].strip("[]{}").split(":")[0]
    return given(draw, base, key.path, value, key.path, as_python(shown))


def as_python(text: str) -> str:
    return {"true": "True", "false": "False", "null": "None"}.get(text, text)


def first(key: schema_tree.Key) -> str:
    return key.type.split(" |")[0]


def null(draw: Draw) -> Damage:
    base = any_base(draw)
    key = some_key(
        draw, base, lambda key: not key.section and "None" not in key.type and key.type != "Any"
    )
    return given(draw, base, key.path, "null", key.path)


def number(key: schema_tree.Key) -> bool:
    return not key.section and first(key) in ("int", "float")


def not_finite(draw: Draw) -> Damage:
    base = any_base(draw)
    key = some_key(draw, base, lambda key: not key.section and first(key) == "float")
    value = draw.pick(("nan", "inf", "-inf", "1e999"))
    return given(draw, base, key.path, value, key.path, {"1e999": "inf"}.get(value, value))


def negative(draw: Draw) -> Damage:
    base = any_base(draw)
    key = some_key(draw, base, lambda key: number(key) and key.path not in SIGNED)
    value = draw.pick(("-7", "-2", "-1000")) if first(key) == "int" else draw.pick(("-0.5", "-7.0"))
    return given(draw, base, key.path, value, key.path, value)


def huge(draw: Draw) -> Damage:
    base = any_base(draw)
    key = some_key(draw, base, lambda key: not key.section and first(key) == "int")
    value = "1" + "0" * draw.number(19, 60)
    return given(draw, base, key.path, value, key.path, value[:20])


def bad_choice(draw: Draw) -> Damage:
    base = any_base(draw)
    key = some_key(draw, base, lambda key: bool(key.choices))
    value = draw.misspell(draw.pick(key.choices), key.choices)
    return given(draw, base, key.path, value, key.path, value)


# -- inconsistent values ------------------------------------------------------------------------


def cross_field(draw: Draw) -> Damage:
    n = draw.number(3, 50)
    toy = [
        ((f"actor.micro_batch_size={n}", f"actor.global_batch_size={n * 3 + 1}"),
         ("actor.global_batch_size", str(n * 3 + 1), str(n))),
        ((f"algorithm.group_size={n}", f"env.train.total_num_envs={2 * (n + 1)}"),
         ("algorithm.group_size", str(n))),
        ((f"rollout.pipeline_stage_num={n}", f"env.train.total_num_envs={2 * n + 1}"),
         ("env.train.total_num_envs", str(2 * n + 1))),
        ((f"env.train.max_episode_steps={n}", f"env.train.max_steps_per_rollout_epoch={n - 1}"),
         ("env.train.max_steps_per_rollout_epoch", str(n - 1))),
        ((f"env.train.max_episode_steps={n}", f"env.train.max_steps_per_rollout_epoch={2 * n}"),
         ("env.train.max_steps_per_rollout_epoch", "auto_reset", str(2 * n))),
        ((f"actor.model.num_action_chunks={n + 100}",),
         ("actor.model.num_action_chunks", str(n + 100))),
        ((f"env.eval.trials_per_task={n + 1000}",), ("env.eval.trials_per_task", str(n + 1000))),
        ((f"env.eval.group_size={n}",), ("env.eval.group_size", str(n))),
        ((f"env.eval.rollout_epoch={n}",), ("env.eval.rollout_epoch", str(n))),
        (("actor.optim.lr_scheduler=cosine",), ("actor.optim.total_training_steps", "None")),
        (("actor.optim.lr_scheduler=cosine", f"actor.optim.lr_warmup_steps={n}",
          f"actor.optim.total_training_steps={n}"), ("total_training_steps", str(n))),
        (("runner.max_epochs=-1", "runner.max_steps=-1"),
         ("runner.max_epochs", "runner.max_steps")),
        ((f"algorithm.n_chunk_steps={n + 60}",), ("algorithm.n_chunk_steps", str(n + 60))),
        (("algorithm.reward_type=action_level",), ("algorithm.reward_type", "action_level")),
        (("actor.model.add_value_head=false",), ("actor.model.add_value_head",)),
        (("sft.enabled=true", "sft.val_fraction=1"), ("sft.val_fraction",)),
        (("sft.enabled=true", "collect.episodes_per_task=1"), ("collect.episodes_per_task",)),
        (("actor.fsdp_config.gradient_checkpointing=true",), ("gradient_checkpointing",)),
        (("actor.fsdp_config.sharding_strategy=half_shard",), ("sharding_strategy", "half_shard")),
        (("actor.fsdp_config.sharding_strategy=hybrid_shard", f"actor.fsdp_config.fsdp_size={n}"),
         ("fsdp_size", str(n))),
        (("runner.task_type=reasoning",), ("runner.task_type", "reasoning")),
        ((f"actor.model.action_dim={n}", "model=pi0_tiny"), ("actor.model.action_dim", str(n))),
        (("env.train.video_cfg.save_video=true", "env.train.video_cfg.num_episodes=0"),
         ("env.train.video_cfg.num_episodes", "0")),
        ((f"rollout.model.model_path=/one/{n}", f"actor.model.model_path=/two/{n}"),
         (f"/one/{n}", f"/two/{n}")),
        (("env/eval=metaworld",), ("env.train", "env.eval", "action entries")),
        (("algorithm.n_chunk_steps=few",), ("algorithm.n_chunk_steps", "few")),
        (("rollout.do_sample=sometimes",), ("do_sample", "sometimes")),
        ((f"rollout.temperature={n}",), ("temperature", str(n))),
    ]  # fmt: skip
    metaworld = [
        ((f"actor.model.num_action_chunks={n + 10}",),
         ("actor.model.num_action_chunks", str(n + 10))),
        ((f"actor.model.num_images_in_input={n}",), ("num_images_in_input", str(n))),
        ((f"actor.model.action_dim={n + 4}",), ("actor.model.action_dim", str(n + 4))),
        (("actor.model.openpi.noise_params=[0.5]",), ("noise_params", "0.5")),
        (("actor.model.openpi.noise_logvar_range=[0.3,0.1]",), ("noise_logvar_range", "0.3")),
        (("actor.model.openpi.config_name=pi0_metaworl",), ("config_name", "pi0_metaworl")),
        (("actor.model.openpi.config_name=pi05_aloha",), ("pi05_aloha",)),
        (("actor.model.openpi.size=huge",), ("actor.model.openpi.size", "huge")),
        (("actor.model.openpi.size=pi05",), ("actor.model.openpi.size", "pi05")),
        (("actor.model.openpi.discrete_state_input=true",), ("discrete_state_input",)),
        (("actor.model.is_lora=true", "actor.model.openpi.train_expert_only=true"),
         ("train_expert_only", "is_lora")),
        (("actor.model.openpi.joint_logprob=true", "actor.model.openpi.ignore_last=true"),
         ("ignore_last", "joint_logprob")),
        (("actor.model.openpi.critic_hidden=[-3]",), ("critic_hidden", "-3")),
        (("env.train.render_final=false", "algorithm.bootstrap_type=standard"),
         ("env.train.render_final",)),
        (("env.train.image_size=0",), ("image_size", "0")),
    ]  # fmt: skip
    if draw.number(0, 3):
        extra, culprits = toy[draw.number(0, len(toy))]
        return Damage("train", (*TOY, ONE_PROCESS_EACH, *extra), culprits)
    extra, culprits = metaworld[draw.number(0, len(metaworld))]
    return Damage("train", (*METAWORLD, *extra), culprits)


# -- names --------------------------------------------------------------------------------------


def group_name(draw: Draw) -> Damage:
    group, name = draw.pick(
        [("env", "toy"), ("model", "toy"), ("algorithm", "ppo"), ("env", "metaworld"),
         ("model", "pi0_tiny"), ("env/eval", "metaworld_50"), ("env/train", "metaworld"),
         ("experiment", "quickstart"), ("experiment", "metaworld_45_ppo_openpi")]
    )  # fmt: skip
    taken = ["toy", "metaworld", "metaworld_50", "metaworld_45", "pi0", "pi05", "pi0_tiny",
             "pi05_tiny", "pi0_small", "pi05_small", "openpi", "ppo", "quickstart"]  # fmt: skip
    slip = draw.misspell(name, taken)
    if group == "experiment":
        line = draw.pick([(f"experiment={slip}",), (slip,)])
        return Damage(draw.pick(VERBS), line, (slip, "experiment"))
    if draw.number(0, 3) == 0 and "/" not in group:
        others = [word for word in TOY if not word.startswith(f"{group}=")]
        text = recipe(tuple([*others, f"{group}={slip}"]), "")
        return Damage(draw.pick(VERBS), ASK, (group, slip), text)
    return Damage(draw.pick(VERBS), (*TOY, f"{group}={slip}"), (group.split("/")[0], slip))


def missing_group(draw: Draw) -> Damage:
    group = draw.pick(("env", "model", "algorithm"))
    verb = {"env": draw.pick(VERBS), "model": draw.pick(VERBS[:3]), "algorithm": "train"}[group]
    kept = tuple(word for word in TOY if not word.startswith(f"{group}="))
    return Damage(verb, kept, (f"no {group} is chosen",))


def unknown_group(draw: Draw) -> Damage:
    group = draw.pick(("envs", "models", "algo", "experiments", "env/test", "model/size", "hydra"))
    return Damage(draw.pick(VERBS), (*TOY, f"{group}=toy"), (group,))


def bad_verb_or_flag(draw: Draw) -> Damage:
    verb = draw.pick(VERBS)
    slip = draw.misspell(verb, [*VERBS, "plugins", "doctor"])
    flag = f"--{draw.misspell('dry-run', ['dry-run'])}"
    return draw.pick(
        [
            Damage(slip, TOY, (slip,)),
            Damage(verb, (*TOY, flag), (flag,)),
            Damage(verb, (*TOY, "--config-dir"), ("--config-dir",)),
            Damage(verb, (*TOY, "--cfg", "hydr"), ("--cfg", "hydr")),
            Damage(verb, (*TOY, "runner.seed"), ("runner.seed",)),
            Damage(verb, (*TOY, "seed:", "3"), ("seed:",)),
            Damage(verb, (*TOY, "--config-dir", "/no/such/place"), ("/no/such/place",)),
        ]
    )  # type: ignore[no-any-return]


# -- unreadable overrides and files -------------------------------------------------------------


def broken_override(draw: Draw) -> Damage:
    text = draw.pick(
        ["runner.seed=[1", "runner.seed={a", "=5", "runner..seed=1", ".runner.seed=1", "runner.=1",
         "runner.seed='1", 'runner.seed="1', "runner.seed=1]", "runner.seed=a b=c", "~runner.seed",
         "~runner", "runner.seed=1,2,3", "env=toy,metaworld", "runner.seed=range(1,4)",
         "runner.seed=interval(0,1)", "env.train.tasks=[reach-left,", "runner.seed={a:1}}",
         "runner@x.seed=1", "~env=toy2", "env@actor=toy", "runner.seed=shuffle(1,2)",
         "runner.seed=foo(3)", "runner seed=3", "runner.seed=$", "runner.seed=${", "a==b", "+=1",
         "env=[toy]", "env={a: 1}", "env=", "env=null", "model=null",
         "algorithm=", "runner.logger=null", "env.train=null", "env=7", "runner.seed=\\"]
    )  # fmt: skip
    culprit = text.split("=")[0].strip("+~.@ ") or text
    return Damage("train", (*TOY, text), (culprit.split("@")[0],))


def conflict(draw: Draw) -> Damage:
    """Return overrides that contradict each other."""
    line, culprits = draw.pick(
        [
            (("env/eval=tpy", *TOY[1:]), ("tpy",)),
            (("env/train=tpy", *TOY[1:]), ("tpy",)),
            ((*TOY, "runner=3", "runner.seed=1"), ("runner",)),
            ((*TOY, "runner.seed=1", "runner.seed.x=2"), ("runner.seed",)),
            ((*TOY, "runner.seed=1", "runner.seed=two"), ("runner.seed", "two")),
            ((*TOY, "experiment=quickstart", "experiment=nothing"), ("nothing",)),
            (("quickstart", "metaworld_50_ppo_openpi"), ("metaworld_50_ppo_openpi",)),
            ((*TOY, "env.train.env_type=metaworld", "env.train.env_type=tay"), ("tay",)),
            ((*TOY, "actor.model.model_type=resnet"), ("resnet",)),
            ((*TOY, "algorithm.name=dqn"), ("dqn",)),
            ((*TOY, "runner.logger.logger_backends=[tensorbord]"), ("tensorbord",)),
            ((*TOY, "runner.logger.logger_backends=[[a]]"), ("runner.logger.logger_backends",)),
            ((*TOY, "runner.logger.experiment_name=../up"), ("experiment_name", "../up")),
            ((*TOY, "runner.logger.experiment_name="), ("experiment_name",)),
            ((*TOY, "runner.logger.experiment_name=/abs"), ("experiment_name", "/abs")),
            ((*TOY, "env=toy", "env/eval=tpy"), ("tpy",)),
        ]
    )
    return Damage("train", line, culprits)


def broken_yaml(draw: Draw) -> Damage:
    n = draw.number(2, 9)
    head = recipe(TOY, "").decode()
    body, *culprits = draw.pick(
        [
            (head + "runner:\n\tseed: 1\n", RECIPE),
            (head + "runner: {seed: 1\n", RECIPE),
            (head + "runner:\n  seed: 1\n  seed: 2\n", RECIPE, "seed"),
            (head + "runner:\n  seed: 1\n seed: 2\n", RECIPE),
            (head + f"runner:\n  seed: *anchor{n}\n", RECIPE, f"anchor{n}"),
            (head + "runner:\n  seed: !!python/object:os.system {}\n", RECIPE),
            (head + "runner: &a\n  logger: *a\n", RECIPE),
            (head + 'runner:\n  seed: "1\n', RECIPE),
            (head + "runner:\n  seed: 1: 2\n", RECIPE),
            (head + f"? [a, b]\n: {n}\n", RECIPE),
            (head + f"{n}: {n}\n", str(n)),
            ("- a\n- b\n", RECIPE),
            ("just words\n", RECIPE),
            (f"{n}\n", RECIPE),
            ("# @package _global_\ndefaults: toy\n", RECIPE),
            ("# @package _global_\ndefaults:\n  - nosuchrecipe\n", "nosuchrecipe"),
            ("# @package _global_\ndefaults:\n  - override /envv: toy\n", "envv"),
            ("# @package _global_\ndefaults:\n  - override /env: tooy\n", "tooy"),
            ("# @package _global_\ndefaults:\n  - [7]\n", RECIPE),
            ("# @package _global_\ndefaults:\n  - /env: toy\n", "env"),
            ("# @package _global_\ndefaults:\n  - damaged\n", RECIPE),
            ("# @package _global_\ndefaults:\n  - override /env: [toy]\n", RECIPE, "toy"),
            ("# @package _global_\ndefaults:\n  - {a: 1, b: 2}\n", RECIPE),
            ("# @package _globl_\ndefaults:\n  - override /env: toy\nrunner:\n  seed: 1\n",
             "_globl_"),
            ("runner:\n  seed: 1\n", "experiment"),
            (head + "runner:\n  seed: 1\n---\nrunner:\n  seed: 2\n", RECIPE),
            (head + "runner:\n  seed: 2020-01-01\n", "runner.seed", "2020"),
            (head + "runner:\n  seed: 0x\n", "runner.seed", "0x"),
            (head + "runner:\n  logger:\n    log_path: \"a\\0b\"\n", "log_path"),
            (head + "actor:\n  model:\n    model_path: \"a\\0b\"\n", "actor.model.model_path"),
            (head + "collect:\n  path: \"a\\0b\"\n", "collect.path"),
            (head + "runner:\n  [seed, 1]: 2\n", RECIPE),
            (head + "runner:\n  null: 2\n", "runner"),
            (head + "\"\": 2\n", "''"),
            (head + "hydra:\n  nosuch: 2\n", "hydra"),
            (head + "hydra: 2\n", "hydra"),
        ]
    )  # fmt: skip
    raw = body.encode()
    if draw.number(0, 6) == 0:
        raw, culprits = draw.pick(
            [
                (b"\xff\xfe\x00bad", [RECIPE]),
                (head.encode() + b"runner:\n  seed: \xff\n", [RECIPE]),
                (head.encode() + b"\x00", [RECIPE]),
                (b"\x89PNG\r\n\x1a\n\x00\x00", [RECIPE]),
                (head.encode() + b"runner:\n  seed: \x07\n", [RECIPE]),
            ]
        )
    return Damage("train", ASK, tuple(culprits), raw)


def interpolation(draw: Draw) -> Damage:
    base = any_base(draw)
    key = some_key(draw, base, lambda key: not key.section and key.type in ("int", "float", "str"))
    value = draw.pick(
        ["${nope}", "${runner.sed}", "${oc.env:NO_SUCH_VARIABLE}", "${nope:1}", "${.nope}",
         f"${{{key.path}}}", "${actor.optim}", "${oc.env:}", "${runner", "${oc.decode:'['}",
         "${..............x}", "${a b}"]
    )  # fmt: skip
    # components are chosen by name before references are resolved
    named = key.path.rpartition(".")[2] in ("env_type", "model_type", "name")
    return given(draw, base, key.path, value, value if named else key.path)


# -- placement, tasks, paths --------------------------------------------------------------------


def placement(draw: Draw) -> Damage:
    n = draw.number(1000, 9000)
    value, *culprits = draw.pick(
        [
            (f"{{'env,rollout,actor': 0-{n}}}", str(n)),
            (f"{{'env,rollout,actor': '{n}:0'}}", str(n)),
            (f"{{'env,rollout,actor': {n}}}", str(n)),
            ("{'env,rollout': all}", "actor"),
            ("{env: all, rollout: all}", "actor"),
            ("{'env,rollout,actor': all, env: 0}", "env"),
            ("{'env,rollot,actor': all}", "rollot"),
            ("{env: all, rollout: all, actor: all, critic: 0}", "critic"),
            ("{'env,rollout,actor': '0,0'}", "env", "0,0"),
            ("{'env,rollout,actor': '0:1'}", "env", "0:1"),
            ("{'env,rollout,actor': '0:0-1,0'}", "env"),
            ("{'env,rollout,actor': 1-0}", "1-0"),
            ("{'env,rollout,actor': -1}", "-1"),
            ("{'env,rollout,actor': 0.5}", "0.5"),
            ("{'env,rollout,actor': some}", "some"),
            ("{'env,rollout,actor': null}", "None"),
            ("{'env,rollout,actor': true}", "True"),
            ("{'env,rollout,actor': [0]}", "[0]"),
            ("{'env,rollout,actor': ''}", "''"),
            ("{'env,rollout,actor': '0-'}", "0-"),
            ("{'env,rollout,actor': '0:a'}", "0:a"),
            ("{'env,rollout,actor': {node_group: big, placement: 0}}", "big"),
            ("{'env,rollout,actor': {placement: 0}}", "node_group"),
            ("{'env,rollout,actor': {node_group: big, placment: 0}}", "placment"),
            ("{'env,rollout,actor': {node_group: [], placement: 0}}", "node_group"),
            ("{'env,,rollout,actor': all}", "''"),
            ("{'env,env,rollout,actor': all}", "env"),
            ("{}", "env"),
            ("[0, 1]", "[0, 1]"),
            ("7", "7"),
            ("true", "True"),
            ("null", "None"),
            ("colocated", "colocated"),
            ("''", "cluster.component_placement"),
            ("{env: 0, rollout: '0:0-1-2', actor: 0}", "rollout", "0-1-2"),
        ]
    )  # fmt: skip
    if draw.number(0, 5) == 0:
        path, value, *culprits = draw.pick(
            [
                ("cluster.node_groups", "[{label: a}]", "cluster.node_groups", "label"),
                ("cluster.node_groups", "[7]", "cluster.node_groups", "7"),
                (
                    "cluster.node_groups",
                    "[{label: a, node_ranks: 0-5}]",
                    "cluster.node_groups",
                    "0-5",
                ),
                (
                    "cluster.node_groups",
                    "[{label: a, node_ranks: 0}, {label: a, node_ranks: 0}]",
                    "'a'",
                ),
                ("cluster.node_groups", "[{label: a, node_ranks: x}]", "cluster.node_groups", "x"),
                ("cluster.num_nodes", str(n), "cluster.num_nodes", str(n)),
            ]
        )
        return given(draw, any_base(draw), path, value, *culprits)
    key, base = "cluster.component_placement", any_base(draw)
    if "{'" in value:  # the command line has no quoted keys
        return Damage(draw.pick(VERBS), ASK, (key, *culprits), recipe(base, nested(key, value)))
    return given(draw, base, key, value, key, *culprits)


def tasks(draw: Draw) -> Damage:
    base = any_base(draw)
    side = draw.pick(("train", "eval"))
    names = ["reach-left", "reach-up"] if base == TOY else ["reach-v3", "push-v3", "door-open-v3"]
    slip = draw.misspell(draw.pick(names), names)
    value, *culprits = draw.pick(
        [
            (f"[{slip}]", slip),
            (f"[{names[0]}, {slip}]", slip),
            (f"[{names[0]}, {names[0]}]", names[0]),
            ("[]", "tasks"),
            ("[7]", "7"),
            ("[null]", "tasks"),
            (names[1], "tasks", names[1]),
            ("[[reach]]", "tasks"),
            ("[\"\"]", "''"),
            ("[🦾]", "🦾"),
        ]
    )  # fmt: skip
    return given(draw, base, f"env.{side}.tasks", value, *culprits)


def metaworld_names(draw: Draw) -> Damage:
    base = draw.pick((METAWORLD, QUICKSTART))
    key, value = draw.pick(
        [("camera", "cornr2"), ("camera", "top"), ("camera", "7"), ("benchmark", "mt10x"),
         ("benchmark", "ML_45"), ("reward", "dense_"), ("split", "held-out"), ("camera", "''")]
    )  # fmt: skip
    side = draw.pick(("train", "eval"))
    return given(draw, base, f"env.{side}.{key}", value, f"env.{side}.{key}", value.strip("'"))


def paths(draw: Draw) -> Damage:
    n = draw.number(0, 10**6)
    base = draw.pick((TOY, METAWORLD))
    verb, key, place = draw.pick(
        [
            ("eval", "actor.model.model_path", f"/no/{n}"),
            ("train", "actor.model.model_path", f"no/{n}"),
            ("train", "rollout.model.model_path", f"/no/{n}"),
            ("train", "actor.model.model_path", "/dev/null"),
            ("train", "actor.model.model_path", "''"),
            ("train", "runner.logger.log_path", "/dev/null"),
            ("train", "runner.logger.log_path", f"/dev/null/{n}"),
            ("eval", "runner.logger.log_path", f"~nobody{n}/logs"),
            ("train", "env.eval.video_cfg.video_base_dir", f"/dev/null/{n}"),
            ("collect", "collect.path", f"/dev/null/{n}"),
            ("collect", "collect.output", f"/dev/null/{n}"),
            ("sft", "collect.path", f"/no/{n}"),
            ("sft", "collect.path", "/dev/null"),
            ("train", "--config-dir", f"/no/{n}"),
            ("collect", "--config-dir", "/dev/null"),
            ("eval", "", f"/no/{n}"),
            ("eval", "", f"runs/{n}"),
            ("eval", "", "."),
        ]
    )
    if not key:
        return Damage("eval", (place,), (place,))
    shown = "" if key == "--config-dir" else key.rpartition(".")[2]
    return Damage(verb, (*base, f"{key}={place}"), (shown, place))


def odd_text(draw: Draw) -> Damage:
    odd = draw.pick(
        ("\N{ZERO WIDTH SPACE}", "🤖", "\udcff", "ё", "\u202e", "\x07", "ﬁ", "\x1b[31m")
    )
    return draw.pick(
        [
            Damage("train", (*TOY, f"runner.seed={odd}"), ("seed",)),
            Damage("train", (*TOY, f"runner.s{odd}eed=1"), ("runner",)),
            Damage("train", (*TOY, f"env=t{odd}oy"), ("env",)),
            Damage("train", (f"quick{odd}start",), ("quick",)),
            Damage("train", (*TOY, f"actor.model.model_path=/no/{odd}"), ("/no/",)),
            Damage("train", (*TOY, f'env.train.tasks=["re{odd}ach"]'), ("env.train", "ach")),
            Damage("eval", (f"/no/{odd}/run",), ("/no/",)),
        ]
    )  # type: ignore[no-any-return]


KINDS: tuple[Callable[[Draw], Damage], ...] = (
    misspelled_key, misspelled_key, misspelled_key, foreign_key, section_as_value, value_as_section,
    wrong_type, wrong_type, wrong_type, null, not_finite, negative, negative, huge, bad_choice,
    bad_choice, cross_field, cross_field, cross_field, group_name, group_name, missing_group,
    unknown_group, bad_verb_or_flag, broken_override, broken_override, conflict, broken_yaml,
    broken_yaml, broken_yaml, interpolation, placement, placement, placement, tasks,
    metaworld_names, paths, odd_text,
)  # fmt: skip


def damages(count: int) -> Iterator[tuple[str, Damage]]:
    """Yield `count` pairs of name and damage, cycling through the kinds."""
    for index in range(count):
        kind = KINDS[index % len(KINDS)]
        yield f"{index}-{kind.__name__}", kind(Draw(index))
