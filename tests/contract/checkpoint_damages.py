"""Damages of files that a run reads, and the names that the error must contain.

policy          the folder of a tiny π0, given as `actor.model.model_path`
resume          a toy run with a checkpoint, given to `rlcore resume RUN`
begun           a run interrupted before its supervised start, given to the same command
eval            the folder of that run, given to `rlcore eval RUN`
demonstrations  a data set, given as `collect.path`
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from internals import OWN_DIGEST
from safetensors.torch import load_file, save_file

from rlcore.contracts.rng import generator
from rlcore.runs.state import own_digest

WEIGHTS, HEADS, STATS = "model.safetensors", "rl_heads.safetensors", "norm_stats.json"
TOKENIZER = "paligemma_tokenizer.model"
STEP = "checkpoints/step_000001"
BEFORE = "eval/before.parquet"
EPISODE = "episode_000001.safetensors"

Damage = Callable[[Path], object]
Case = tuple[Damage, tuple[str, ...]]


# -- ways to damage -----------------------------------------------------------------------------


def remove(name: str) -> Damage:
    def damage(folder: Path) -> None:
        place = only(folder, name)
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    return damage


def cut(name: str, kept: float) -> Damage:
    """Truncate a file to the share `kept` of its bytes."""

    def damage(folder: Path) -> None:
        content = only(folder, name).read_bytes()
        only(folder, name).write_bytes(content[: int(len(content) * kept)])

    return damage


def garble(name: str) -> Damage:
    """Overwrite a file with other bytes of the same length."""

    def damage(folder: Path) -> None:
        only(folder, name).write_bytes(b"#" * only(folder, name).stat().st_size)

    return damage


def write(name: str, content: bytes) -> Damage:
    return lambda folder: only(folder, name).write_bytes(content)


def flip_header(name: str, number: int) -> Damage:
    """Flip one bit in a safetensors header, in the part that describes the tensors."""

    def damage(folder: Path) -> None:
        content = bytearray(only(folder, name).read_bytes())
        length = int.from_bytes(content[:8], "little")
        header = content[8 : 8 + length]
        # after the metadata, which is never read, and before the padding
        first = (
            header.index(b"}", header.index(b"__metadata__")) + 1
            if b"__metadata__" in header
            else 1
        )
        draw = generator("flip", name, number)
        at = 8 + int(draw.integers(first + 1, len(header.rstrip()) - 1))
        content[at] ^= 1 << int(draw.integers(0, 5))
        only(folder, name).write_bytes(bytes(content))

    return damage


def flip(name: str, at: int, mask: int) -> Damage:
    """Flip bits of one byte."""

    def damage(folder: Path) -> None:
        content = bytearray(only(folder, name).read_bytes())
        content[at] ^= mask
        only(folder, name).write_bytes(bytes(content))

    return damage


def flip_tensor(name: str) -> Damage:
    """Flip one bit of the last number of the last tensor."""
    return flip(name, at=-2, mask=1)


def flip_length(name: str) -> Damage:
    """Flip one bit of the length of a safetensors header."""
    return flip(name, at=3, mask=0x40)


def retensor(name: str, change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    """Rewrite a safetensors file with changed tensors."""

    def damage(folder: Path) -> None:
        tensors = load_file(only(folder, name))
        change(tensors)
        save_file(tensors, only(folder, name))

    return damage


def rewrite(name: str, change: Callable[[dict], object]) -> Damage:
    """Change the content of a JSON file."""

    def damage(folder: Path) -> None:
        content = json.loads(only(folder, name).read_text())
        change(content)
        only(folder, name).write_text(json.dumps(content))

    return damage


def folder_instead(name: str) -> Damage:
    def damage(folder: Path) -> None:
        place = only(folder, name)
        place.unlink()
        place.mkdir()

    return damage


def file_instead(name: str) -> Damage:
    def damage(folder: Path) -> None:
        place = only(folder, name)
        shutil.rmtree(place)
        place.write_text("")

    return damage


def only(folder: Path, name: str) -> Path:
    """Return the only path called `name` below the folder."""
    direct = folder / name
    if direct.exists():
        return direct
    (found,) = folder.rglob(name)
    return found


def stat(field: str, entry: int, value: float) -> Callable[[dict], None]:
    """Set one entry of the statistics, e.g. "actions.std"."""
    group, name = field.split(".")

    def change(content: dict) -> None:
        content["norm_stats"][group][name][entry] = value

    return change


def cut_stats(content: dict) -> None:
    content["norm_stats"]["state"] = {k: v[:2] for k, v in content["norm_stats"]["state"].items()}


PROJECTION = "action_in_proj.weight"

POLICY: dict[str, Case] = {
    "weights missing": (remove(WEIGHTS), (WEIGHTS, "has neither")),
    "weights empty": (cut(WEIGHTS, 0), (WEIGHTS, "damaged")),
    "weights cut in the length": (write(WEIGHTS, b"\x05\x00"), (WEIGHTS, "damaged")),
    "weights cut in the header": (cut(WEIGHTS, 1e-3), (WEIGHTS, "damaged")),
    "weights cut in the tensors": (cut(WEIGHTS, 0.7), (WEIGHTS, "damaged")),
    "weights with another length": (flip_length(WEIGHTS), (WEIGHTS, "damaged")),
    "weights are a web page": (write(WEIGHTS, b"<html>404</html>"), (WEIGHTS, "damaged")),
    **{f"header flipped {n}": (flip_header(WEIGHTS, n), (WEIGHTS,)) for n in range(1, 6)},
    "header of a list": (write(WEIGHTS, (2).to_bytes(8, "little") + b"[]"), (WEIGHTS, "damaged")),
    "a tensor missing": (
        retensor(WEIGHTS, lambda t: t.pop(PROJECTION)), (WEIGHTS, "missing (1)", PROJECTION)),
    "a tensor too many": (
        retensor(WEIGHTS, lambda t: t.update(stray=torch.ones(2))),
        (WEIGHTS, "unexpected (1)", "stray")),
    "a tensor renamed": (
        retensor(WEIGHTS, lambda t: t.update(in_proj=t.pop(PROJECTION))),
        (WEIGHTS, "missing", PROJECTION, "unexpected", "in_proj")),
    "a tensor of another shape": (
        retensor(WEIGHTS, lambda t: t.update({PROJECTION: t[PROJECTION].T.contiguous()})),
        (WEIGHTS, "wrong shape", PROJECTION, "[8, 64]", "[64, 8]")),
    "a tensor of integers": (
        retensor(WEIGHTS, lambda t: t.update({PROJECTION: t[PROJECTION].to(torch.int64)})),
        (WEIGHTS, "not floating point", PROJECTION, "I64")),
    "weights of another network": (
        retensor(WEIGHTS, lambda t: (t.clear(), t.update(conv1=torch.ones(3)))),
        (WEIGHTS, "another model", "conv1")),
    "a folder for weights": (folder_instead(WEIGHTS), (WEIGHTS, "it is a folder")),
    "critic cut": (cut(HEADS, 0.5), (HEADS, "damaged")),
    "critic of another shape": (
        retensor(HEADS, lambda t: t.update({"value_head.mlp.0.bias": torch.ones(7)})),
        (HEADS, "wrong shape", "value_head.mlp.0.bias", "[7]")),
    "a layer of the critic missing": (
        retensor(HEADS, lambda t: t.pop("value_head.mlp.2.weight")),
        (HEADS, "missing", "value_head.mlp.2.weight")),
    "a folder for the critic": (folder_instead(HEADS), (HEADS, "it is a folder")),
    "tokenizer missing": (remove(TOKENIZER), (TOKENIZER,)),
    "tokenizer empty": (cut(TOKENIZER, 0), (TOKENIZER, "damaged")),
    "tokenizer cut": (cut(TOKENIZER, 0.5), (TOKENIZER, "damaged")),
    "tokenizer is a text": (write(TOKENIZER, b"version https://git-lfs\n"), (TOKENIZER, "damaged")),
    "statistics missing": (remove("assets"), ("statistics", "metaworld")),
    "statistics are no JSON": (cut(STATS, 0.5), (STATS,)),
    "statistics in another encoding": (write(STATS, b"\xff\xfe{}"), (STATS,)),
    "statistics are a list": (write(STATS, b"[]"), (STATS, "norm_stats")),
    "statistics without actions": (
        rewrite(STATS, lambda c: c["norm_stats"].pop("actions")), (STATS, "actions")),
    "statistics without std": (
        rewrite(STATS, lambda c: c["norm_stats"]["state"].pop("std")), (STATS, "state.std")),
    "statistics of another robot": (rewrite(STATS, cut_stats), (STATS, "2 entries", "has 4")),
    "statistics with nan": (
        rewrite(STATS, stat("actions.mean", 1, float("nan"))), (STATS, "actions.mean", "finite")),
    "statistics with a negative": (
        rewrite(STATS, stat("state.std", 0, -1.0)), (STATS, "state", "std", "entry 0")),
    "statistics with a text": (
        rewrite(STATS, stat("state.mean", 0, "a")), (STATS, "state.mean")),
    "a file for assets": (file_instead("assets"), ("statistics", "metaworld")),
    "settings are no JSON": (write("config.json", b"{"), ("config.json", "damaged")),
    "settings of another size": (
        rewrite("config.json", lambda c: c["size"].update(vlm_width=128)),
        ("trained with other settings", "vlm_width 128", "64")),
    "facts of the env are no JSON": (
        lambda folder: (folder / "rlcore_env.json").write_text("{"),
        ("rlcore_env.json", "damaged")),
    "nothing but the folder": (lambda folder: [shutil.rmtree(folder), folder.mkdir()],
                               (WEIGHTS, "has no")),
    "a file for the folder": (
        lambda folder: [shutil.rmtree(folder), folder.write_text("")],
        ("actor.model.model_path", "existing folder")),
}  # fmt: skip

CHECKPOINT: dict[str, Case] = {
    "state missing": (remove("state.json"), ("state.json", "step_000001", "incomplete")),
    "state cut": (cut("state.json", 0.4), ("state.json", "damaged")),
    "state is a list": (write("state.json", b"[]"), ("state.json",)),
    "state of another program": (write("state.json", b'{"format": "x"}'), ("state.json",)),
    "state of another version": (
        rewrite("state.json", lambda c: c.update(version=99)), ("format 99",)),
    "state without version": (rewrite("state.json", lambda c: c.pop("version")), ("format None",)),
    "state without files": (
        rewrite("state.json", lambda c: c.pop("files")), ("state.json", "files")),
    "step is a text": (
        rewrite("state.json", lambda c: c.update(step="one")), ("state.json", "step", "'one'")),
    "policy missing": (remove(f"{STEP}/actor"), ("step_000001", "actor/")),
    "a file for the policy": (file_instead(f"{STEP}/actor"), ("step_000001", "actor/")),
    "policy cut": (cut(f"{STEP}/actor/{WEIGHTS}", 0.5), (WEIGHTS, "damaged")),
    "policy header flipped": (flip_header(f"{STEP}/actor/{WEIGHTS}", 6), (WEIGHTS,)),
    "policy missing a tensor": (
        retensor(f"{STEP}/actor/{WEIGHTS}", lambda t: t.pop("mean.bias")), (WEIGHTS,)),
    "learner missing": (remove("learner.safetensors"), ("learner.safetensors", "missing")),
    "learner cut": (cut("learner.safetensors", 0.5), ("learner.safetensors", "damaged")),
    "learner header flipped": (flip_header("learner.safetensors", 7), ("learner.safetensors",)),
    "policy tensor flipped": (
        flip_tensor(f"{STEP}/actor/{WEIGHTS}"), (WEIGHTS, "damaged", "sha256")),
    "learner tensor flipped": (
        flip_tensor("learner.safetensors"), ("learner.safetensors", "damaged", "sha256")),
    "digests are a list": (
        rewrite("state.json", lambda c: c.update(sha256=[])), ("state.json", "sha256")),
    "another step": (
        rewrite("state.json", lambda c: c.update(step=3)), ("state.json", "damaged", "sha256")),
    "another seed": (
        rewrite("state.json", lambda c: c["state"].update(seed=7)), ("state.json", "sha256")),
    "digests under another name": (
        rewrite("state.json", lambda c: c.update(sha257=c.pop("sha256"))),
        ("state.json", "sha256")),
    "learner's counters missing": (remove("learner.json"), ("learner.json", "missing")),
    "learner's counters garbled": (
        garble("learner.json"),
        ("learner.json", "damaged")),
}  # fmt: skip


def signed(change: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return the change followed by a new, valid digest of `state.json`."""

    def damage(content: dict) -> None:
        change(content)
        del content[OWN_DIGEST]
        content[OWN_DIGEST] = own_digest(content)

    return damage


RESUME: dict[str, Case] = {
    **CHECKPOINT,
    "state without seed": (
        rewrite("state.json", signed(lambda c: c["state"].pop("seed"))),
        ("state.json", "seed")),
    "state with another seed": (
        rewrite("state.json", signed(lambda c: c["state"].update(seed=7))),
        ("seed 7", "runner.seed is 0")),
    "state without totals": (
        rewrite("state.json", signed(lambda c: c["state"].pop("totals"))),
        ("state.json", "totals")),
    "totals of another version": (
        rewrite("state.json", signed(lambda c: c["state"]["totals"].update(frames=1))),
        ("state.json", "frames")),
    "state without steering": (
        rewrite("state.json", signed(lambda c: c["state"].pop("steering"))),
        ("state.json", "steering")),
    "steering of another version": (
        rewrite("state.json", signed(lambda c: c["state"]["steering"].update(pace=1))),
        ("state.json", "pace")),
    "config missing": (remove("config.yaml"), ("config.yaml",)),
    "metrics missing": (remove("metrics.jsonl"), ("metrics.jsonl", "is missing", "put it back")),
    "metrics cut": (cut("metrics.jsonl", 0.5), ("metrics.jsonl", "cut off", "step_000001")),
    "metrics garbled": (garble("metrics.jsonl"), ("metrics.jsonl", "does not begin", "changed")),
    "metrics of another run": (
        write("metrics.jsonl", b'{"step": 1, "time": 1.5, "env/return": 0.5}\n' * 1000),
        ("metrics.jsonl", "of another run")),
    "metrics are a folder": (folder_instead("metrics.jsonl"), ("metrics.jsonl",)),
    "state without what it stands on": (
        rewrite("state.json", signed(lambda c: c["state"]["stands_on"].clear())),
        ("state.json", "stands_on")),
    "a folder for the earlier evaluation": (folder_instead(BEFORE), (BEFORE, "not a file")),
    "supervised start cut": (cut(f"sft/{WEIGHTS}", 0.5), (f"sft/{WEIGHTS}", "damaged")),
    "supervised start flipped": (
        flip_tensor(f"sft/{WEIGHTS}"), (f"sft/{WEIGHTS}", "damaged", "sha256")),
    "supervised start of another run": (
        rewrite("rlcore_contents.json", lambda c: c.update(seed=7)),
        ("sft", "seed 7", "runner.seed is 0")),
    "a file for attempts": (file_instead("attempts"), ("attempts", "not a folder")),
    "a file for evaluations": (file_instead("eval"), ("eval", "not a folder")),
    "a file for superseded ones": (
        lambda folder: (folder / "checkpoints/superseded").write_text(""),
        ("checkpoints/superseded", "not a folder")),
    "a folder for latest": (folder_instead("checkpoints/latest"), ("latest", "not a file")),
    "a folder for the summary": (folder_instead("summary.json"), ("summary.json", "not a file")),
    "supervised start emptied": (remove(f"sft/{WEIGHTS}"), ("sft", "holds no")),
}  # fmt: skip

EVAL: dict[str, Case] = {
    **CHECKPOINT,
    "checkpoint gone": (remove(STEP), ("has no checkpoint", "none in", "checkpoints")),
    "config missing": (remove("config.yaml"), ("config.yaml",)),
    "config empty": (write("config.yaml", b""), ("config.yaml", "no env is chosen")),
    "config cut": (cut("config.yaml", 0.5), ("config.yaml",)),
    "config in another encoding": (write("config.yaml", b"\xff\xfe"), ("config.yaml", "UTF-8")),
    "config with an unknown key": (
        write("config.yaml", b"runner: {sed: 1}"), ("config.yaml", "runner.sed")),
    "config with a wrong type": (
        write("config.yaml", b"runner: {seed: a}"), ("config.yaml", "runner.seed")),
    "config is a list": (write("config.yaml", b"- 1"), ("config.yaml", "mapping")),
    "config is a folder": (folder_instead("config.yaml"), ("config.yaml",)),
    "no checkpoints": (remove("checkpoints"), ("no checkpoint", "checkpoints")),
    "a file for checkpoints": (file_instead("checkpoints"), ("no checkpoint", "checkpoints")),
}  # fmt: skip

DEMONSTRATIONS: dict[str, Case] = {
    "facts are no JSON": (cut("info.json", 0.5), ("info.json", "damaged")),
    "facts of another program": (
        rewrite("info.json", lambda c: c.update(format="lerobot")), ("info.json", "lerobot")),
    "facts without cameras": (
        rewrite("info.json", lambda c: c.pop("cameras")), ("info.json", "damaged", "cameras")),
    "facts of another camera": (
        rewrite("info.json", lambda c: c["cameras"].update(top=[9, 9])), ("cameras", "[9, 9]")),
    "facts missing": (remove("info.json"), ("a folder without demonstrations", "collect.path")),
    "table cut": (cut("episodes.parquet", 0.7), ("episodes.parquet", "damaged")),
    "table garbled": (garble("episodes.parquet"), ("episodes.parquet", "damaged")),
    "table empty": (cut("episodes.parquet", 0), ("episodes.parquet", "damaged")),
    "a folder for the table": (folder_instead("episodes.parquet"), ("episodes.parquet",)),
    "an episode missing": (remove(EPISODE), (EPISODE, "holds no")),
    "an episode cut": (cut(EPISODE, 0.9), (EPISODE, "damaged")),
    "an episode empty": (cut(EPISODE, 0), (EPISODE, "damaged")),
    "an episode garbled": (garble(EPISODE), (EPISODE, "damaged")),
    "an episode's header flipped": (flip_header(EPISODE, 8), (EPISODE,)),
    "an episode without states": (
        retensor(EPISODE, lambda t: t.pop("states")), (EPISODE, "states", "expected")),
    "an episode of other actions": (
        retensor(EPISODE, lambda t: t.update(actions=torch.ones(3, 7))),
        (EPISODE, "actions", "(3, 7)")),
}  # fmt: skip

BEGUN: dict[str, Case] = {
    "facts are no JSON": DEMONSTRATIONS["facts are no JSON"],
    "another seed": (
        rewrite("demonstrations/info.json", lambda c: c.update(seed=7)), ("seed 7", "asked for 0")),
    "an episode cut": DEMONSTRATIONS["an episode cut"],
    "an episode's header flipped": DEMONSTRATIONS["an episode's header flipped"],
}  # fmt: skip

DAMAGES = {
    "policy": POLICY,
    "resume": RESUME,
    "begun": BEGUN,
    "eval": EVAL,
    "demonstrations": DEMONSTRATIONS,
}
"""`{place: {name: (damage, texts that the error must contain)}}`"""
