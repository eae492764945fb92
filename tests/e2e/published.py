"""What a reader of the documents has before the launch line is typed: a clone, whose recipes are
edited, and a checkpoint in the layout that its hub publishes, of small numbers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from internals import compose
from originals import PI0Pytorch, write_json, write_openpi, write_shards
from rlcore_model_openpi.sizes import SIZES
from robotwin_cases import write_repository
from safetensors.torch import load_file

from rlcore.contracts.protocols import Policy
from rlcore.contracts.specs import EnvSpec
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

ROOT = Path(__file__).parents[2]
SENTENCES = "metaworld_config.json"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
Bounds = Mapping[str, tuple[list[float], list[float]]]
"""The least and the greatest value of each entry, of `action` and where it is read of `proprio`."""


def clone(folder: Path) -> Path:
    """What git would put there, as far as a launch line looks at it. Its package is the one that
    is imported where PYTHONPATH names the folder."""
    skip = shutil.ignore_patterns("__pycache__")
    for part in ("rlcore", "configs", "examples"):
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def robotwin(folder: Path) -> Path:
    """A repository of RoboTwin's form, with the assets that the document's line reads."""
    write_repository(folder)
    for file in ("objects/021_cup/base.glb", "background_texture/seen/0.png"):
        (folder / "assets" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "assets" / file).write_text("x")
    return folder


def edit(recipe: Path, changes: Mapping[str, Any]) -> Path:
    """Set keys of a recipe, `a.b.c` each, in its file."""
    head, _, _ = (text := recipe.read_text()).partition("\n")
    content = yaml.safe_load(text)
    for path, value in changes.items():
        *sections, name = path.split(".")
        section = content
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    recipe.write_text(f"{head}\n{yaml.safe_dump(content, sort_keys=False)}")
    return recipe


def both(**changes: Any) -> dict[str, Any]:
    """Keys of env.train and env.eval."""
    return {f"env.{side}.{name}": v for side in ("train", "eval") for name, v in changes.items()}


# -- checkpoints ----------------------------------------------------------------------------------


def spec_of(*words: str) -> EnvSpec:
    """Of env.train under these words of a command line."""
    env = compose(list(words), require=()).env.train
    return load_target(str(load_plugins().get("env", env.env_type).spec.spec))(env)


def publish(policy: Policy, folder: Path, key: str, bounds: Bounds) -> Path:
    """The folder of a token policy, without our record of the settings: weights in shards, and
    statistics of a data set; the gripper, the last of 7 actions, is not scaled."""
    policy.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    write_shards(folder, weights, sum(tensor.nbytes for tensor in weights.values()) // 2)
    found: dict[str, Any] = {}
    for part, (low, high) in bounds.items():
        found[part] = {"min": low, "max": high, "q01": low, "q99": high, "mean": low, "std": high}
    entries = len(bounds["action"][0])
    found["action"]["mask"] = [True] * (entries - (entries == 7)) + [False] * (entries == 7)
    write_json(folder / "dataset_statistics.json", {key: found})
    config = json.loads((folder / "config.json").read_text())
    del config["rlcore"]
    write_json(folder / "config.json", {**config, "norm_stats": {key: found}})
    return folder


def tokens(recipe: str, key: str, bounds: Bounds, *words: str) -> Callable[[Path], Path]:
    """Makes the folder of an untrained token policy for a recipe, under further words."""

    def make(folder: Path) -> Path:
        small = ("actor.model.size=tiny_published", "actor.model.is_lora=false")
        words_all = (f"experiment={recipe}", *small, "actor.model.model_path=null", *words)
        model = compose(words_all, draft=True).actor.model
        target = load_plugins().get("model", model.model_type).spec.target
        torch.manual_seed(0)
        policy = load_target(target)(model, env_spec=spec_of(*words_all))
        return publish(policy, folder, key, bounds)

    return make


def in_cache(name: str, folder: Path) -> None:
    """Put a checkpoint where `hf download` without a folder does."""
    repository = Path(os.environ["HF_HUB_CACHE"]) / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(COMMIT)


def pi0(folder: Path) -> Path:
    """π0 for MetaWorld as RLinf's converter leaves it, with PaliGemma's tokenizer, and beside its
    weights the sentences of its data set as LeRobot has them."""
    env, size = spec_of("env=metaworld_50"), SIZES["tiny_siglip"]
    torch.manual_seed(0)
    network = PI0Pytorch(size)
    write_openpi(folder, network, size, env)
    (folder / "model.safetensors").unlink()
    write_shards(folder, network.state_dict(), 200_000)
    text = {task: f"Carry out task {number}" for number, task in enumerate(env.tasks)}
    write_json(folder / SENTENCES, {"TASK_DESCRIPTIONS": text})
    return folder


# -- the documents --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Document:
    """What one of them has the reader do.

    Attributes:
        line: to be typed.
        checkpoint: the name of the checkpoint that it downloads.
        make: makes this checkpoint.
        numbers: small ones, for the recipe's file.
    """

    recipe: str
    checkpoint: str
    make: Callable[[Path], Path]
    numbers: Mapping[str, Any]

    @property
    def folder(self) -> str:
        """What the document calls the folder that it is downloaded into."""
        return self.checkpoint.partition("/")[2]

    @property
    def line(self) -> str:
        return f"bash examples/embodiment/run_embodiment.sh {self.recipe}"

    def written(self, file: Path, folder: str | None) -> Path:
        """The recipe with its small numbers, and where the checkpoint is; None: not said."""
        place = {f"{who}.model.model_path": folder for who in ("actor", "rollout")}
        return edit(file, {**self.numbers, **(place if folder else {})})


SMALL = {
    "runner.max_epochs": 1,
    **both(total_num_envs=2, max_episode_steps=8, num_processes=1),
    "env.train.rollout_epoch": 1,
    "env.eval.trials_per_task": 1,
    "actor.micro_batch_size": 2,
    "actor.global_batch_size": 4,
    "cluster.timeouts": dict.fromkeys(("start", "env", "policy", "sync"), 1500),  # if it is busy
}
TINY_TOKENS = {**SMALL, "actor.model.size": "tiny_published"}
TINY_PI0 = {
    **SMALL,
    **both(tasks=["reach-v3"]),
    "actor.model.openpi.size": "tiny_siglip",
    "actor.model.openpi.num_steps": 2,
}
ONE_ARM = ([-0.4] * 6 + [0.0], [0.6] * 6 + [1.0])
TWO_ARMS = {"action": ([-1.0] * 14, [1.0] * 14), "proprio": ([-4.0] * 14, [4.0] * 14)}
SOUP = "LIVING_ROOM_SCENE2_put_both_the_alphabet_soup_and_the_tomato_sauce_in_the_basket"
# groups of two, and an update also where both fail
TWO_ALIKE = {"algorithm.group_size": 2, "algorithm.filter_rewards": False}
_LIBERO, _MANISKILL = "libero_10_grpo_openvlaoft", "maniskill_ppo_openvla"
_ROBOTWIN = "robotwin_place_empty_cup_grpo_openvlaoft"
DOCUMENTS = {
    "MetaWorld": Document(
        "metaworld_50_ppo_openpi", "RLinf/RLinf-Pi0-MetaWorld-SFT", pi0, TINY_PI0
    ),
    "MetaWorld (Chinese)": Document(
        "metaworld_50_ppo_openpi", "RLinf/RLinf-Pi0-MetaWorld", pi0, TINY_PI0
    ),
    "LIBERO": Document(
        _LIBERO,
        "RLinf/RLinf-OpenVLAOFT-LIBERO-130-Base-Lora",
        tokens(_LIBERO, "libero_10_no_noops", {"action": ONE_ARM}),
        {**TINY_TOKENS, **both(tasks=[SOUP]), **TWO_ALIKE},
    ),
    "ManiSkill": Document(
        _MANISKILL,
        "gen-robot/openvla-7b-rlvla-warmup",
        tokens(_MANISKILL, "bridge_orig", {"action": ONE_ARM}),
        {
            **TINY_TOKENS,
            **both(sim_backend="cpu", total_num_envs=4, stand_ins=True),
            "env.train.max_steps_per_rollout_epoch": 8,
        },
    ),
    "RoboTwin": Document(
        _ROBOTWIN,
        "RLinf/RLinf-OpenVLAOFT-RoboTwin-SFT-place_empty_cup",
        tokens(_ROBOTWIN, "place_empty_cup_1k", TWO_ARMS),
        {**TINY_TOKENS, **both(max_episode_steps=25), **TWO_ALIKE},
    ),
}
