"""docs/rlinf-keys.csv has the rules by which `rlcore config import` works.

To write it anew: `python tests/contract/test_coming_from_rlinf.py`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from rlcore_rlinf import spellings
from rlcore_rlinf.rule import ImportRule
from rlcore_rlinf.rules import RULES, any_file, supervised

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.schema import RunConfig
from rlcore.plugins.registry import load_plugins

FILE = Path(__file__).parents[2] / "docs/rlinf-keys.csv"
HEAD = ("where", "key of RLinf", "key of rlcore", "note")
SAME = (
    "actor.global_batch_size",
    "actor.micro_batch_size",
    "actor.fsdp_config.gradient_checkpointing",
    "actor.model.action_dim",
    "actor.model.add_value_head",
    "actor.model.implement_version",
    "actor.model.is_lora",
    "actor.model.lora_path",
    "actor.model.lora_rank",
    "actor.model.max_prompt_length",
    "actor.model.model_path",
    "actor.model.num_action_chunks",
    "actor.model.num_images_in_input",
    "actor.model.openpi.action_horizon",
    "actor.model.openpi.joint_logprob",
    "actor.model.openpi.noise_level",
    "actor.model.openpi.noise_method",
    "actor.model.openpi.noise_params",
    "actor.model.openpi.num_steps",
    "actor.model.openpi.value_after_vlm",
    "actor.model.openpi.value_vlm_mode",
    "actor.model.proprio_dim",
    "actor.model.unnorm_key",
    "actor.model.use_film",
    "actor.optim.adam_beta1",
    "actor.optim.adam_beta2",
    "actor.optim.adam_eps",
    "actor.optim.clip_grad",
    "actor.optim.lr",
    "actor.optim.lr_scheduler",
    "algorithm.adv_type",
    "algorithm.clip_ratio_high",
    "algorithm.clip_ratio_low",
    "algorithm.entropy_bonus",
    "algorithm.entropy_type",
    "algorithm.group_size",
    "algorithm.logprob_type",
    "algorithm.loss_type",
    "algorithm.reward_type",
    "algorithm.update_epoch",
    "cluster.num_nodes",
    "cluster.component_placement",
    "env.train.auto_reset",
    "env.train.ignore_terminations",
    "env.train.max_steps_per_rollout_epoch",
    "env.*.env_type",
    "env.*.enable_offload",
    "env.*.max_episode_steps",
    "env.*.reward_coef",
    "env.*.rollout_epoch",
    "env.*.total_num_envs",
    "env.*.video_cfg.info_on_video",
    "env.*.video_cfg.save_video",
    "env.*.video_cfg.video_base_dir",
    "rollout.model.model_path",
    "rollout.pipeline_stage_num",
    "runner.logger.experiment_name",
    "runner.logger.log_path",
    "runner.logger.logger_backends",
    "runner.logger.project_name",
    "runner.only_eval",
    "runner.save_interval",
    "runner.val_check_interval",
)
"""Keys with the same name and meaning in both; `*` stands for train and eval."""


def text() -> str:
    """Return the file: the same keys, rules of any file and of supervised ones, spellings, rules of
    components."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(("any file", key, key, "the same") for key in SAME)
    writer.writerows(row("any file", rule) for rule in any_file.RULES)
    writer.writerows(row("supervised training", rule) for rule in supervised.RULES)
    writer.writerows(("spelling", *cells) for cells in spelling_rows())
    for (_, name), rules in RULES.items():
        writer.writerows(row(name, rule) for rule in rules)
    return out.getvalue()


def row(where: str, rule: ImportRule) -> tuple[str, str, str, str]:
    note = rule.note
    if rule.ours is None and rule.only is not None:
        allowed = " or ".join("null" if v is None else str(v).lower() for v in rule.only)
        note += f". Only {allowed}; another value is yours to decide"
    return where, rule.theirs or "", rule.ours or "", note


def spelling_rows() -> Iterator[tuple[str, str, str]]:
    renamed = spellings.RENAMED | dict.fromkeys(spellings.CROPS_OF_ENVS, spellings.CROP)
    for theirs, ours in renamed.items():
        yield theirs, ours, ""
    for theirs, harmless in spellings.ONE_VALUE.items():
        yield theirs, "", f"only {' or '.join(map(str, harmless))}, which changes nothing"
    for key in spellings.DO_SAMPLE:
        yield key, spellings.DETERMINISTIC, "of evaluations"
    for key in spellings.TEMPERATURES:
        both = f"{spellings.DETERMINISTIC} and {spellings.TEMPERATURE}"
        yield key, both, "of evaluations"


def test_the_file_has_the_rules_of_the_importer():
    assert FILE.read_text(encoding="utf-8") == text(), f"python {Path(__file__).name}"


def test_keys_that_are_said_to_be_the_same_are():
    """They exist here, and no rule changes them."""
    registry = load_plugins()
    rules = [*any_file.RULES, *(rule for table in RULES.values() for rule in table)]
    keys = [*schema_tree.walk(RunConfig())]
    for slot in SLOTS:
        for name in registry.names(slot.kind):
            keys += schema_tree.walk(default_settings(registry, slot, name), slot.section)
    known = {key.path for key in keys}
    changed = {*spellings.RENAMED, *spellings.ONE_VALUE, *spellings.DO_SAMPLE}
    changed |= {*spellings.TEMPERATURES}
    for path in SAME:
        for name in [path.replace("*", side) for side in ("train", "eval")]:
            assert name in known, path
            assert name not in changed, path
            assert not any(r.theirs and r.match(name) is not None for r in rules), path


def test_no_key_stands_in_two_tables():
    """A rule of a component, a rule for any file or a spelling: one place tells each key."""
    told: dict[str, list[str]] = {}
    sources = {"any file": any_file.RULES, **{name: rules for (_, name), rules in RULES.items()}}
    for source, rules in sources.items():
        for rule in rules:
            if rule.theirs:
                told.setdefault(rule.theirs, []).append(source)
    for path in (*spellings.RENAMED, *spellings.ONE_VALUE):
        assert path not in told, path
    twice = {path for path, sources in told.items() if "any file" in sources and len(sources) > 1}
    assert twice <= {"actor.model.precision", "actor.optim.critic_warmup_steps"}, twice
    for path, sources in told.items():
        assert len(sources) == len(set(sources)), path


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
