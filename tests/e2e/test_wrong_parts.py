"""Policies and envs that would train something else than what was played: each costs one error or
one warning that names it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from internals import assemble, compose, has_checkpoint, train
from resume_cases import REINFORCE
from rlcore_testing.toy_env import ToyEnv
from rlcore_testing.toy_policy import ToyPolicy
from safetensors.torch import load_file, save_file

from rlcore.contracts.errors import PolicyError
from rlcore.validation import policy as policy_answers

QUICK = [
    "runner.max_epochs=2",
    "runner.val_before_train=false",
    "runner.logger.experiment_name=run",
]


def play(log_path: Path, *overrides: str) -> None:
    words = [*REINFORCE, *QUICK, f"runner.logger.log_path={log_path}", *overrides]
    train(assemble(compose(words)))


def test_an_evaluate_that_disagrees_with_act_ends_the_run(log_path: Path, refused, monkeypatch):
    right = ToyPolicy.evaluate

    def evaluate(policy: ToyPolicy, inputs: object, replay: object) -> object:
        answer = right(policy, inputs, replay)
        return replace(answer, logprobs=answer.logprobs + 5)

    monkeypatch.setattr(ToyPolicy, "evaluate", evaluate)
    with refused(PolicyError, "toy", "evaluate", "5", text=False):
        play(log_path)


def test_parameters_without_a_gradient_are_named_once(log_path: Path, monkeypatch, capsys):
    evaluate = ToyPolicy.evaluate

    def detached(policy: ToyPolicy, inputs: object, replay: object) -> object:
        policy.log_std.requires_grad_(False)
        answer = evaluate(policy, inputs, replay)
        policy.log_std.requires_grad_(True)
        return answer

    monkeypatch.setattr(ToyPolicy, "evaluate", detached)
    play(log_path)
    output = capsys.readouterr().out
    assert output.count("warning: model toy: no gradient") == 1
    assert "log_std" in output


def test_an_update_that_breaks_the_policy_is_warned_of_once(log_path: Path, capsys):
    play(log_path, "actor.optim.lr=0.3", "actor.optim.lr_warmup_steps=0", "runner.max_epochs=3",
         "algorithm.update_epoch=4", "runner.val_before_train=true")  # fmt: skip
    output = " ".join(capsys.readouterr().out.split())
    assert output.count("moved the policy far: KL ") == 1
    assert "algorithm.target_kl=0.1" in output


@pytest.mark.long
def test_an_env_that_sets_torch_up_for_itself_changes_no_number(log_path: Path, monkeypatch):
    """In one process with the policy. What it has set it finds again at its next call."""
    play(log_path, "runner.logger.experiment_name=plain")
    make, step, found = ToyEnv.__init__, ToyEnv.chunk_step, set()

    def begin(env: ToyEnv, *arguments: object, **named: object) -> None:
        make(env, *arguments, **named)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(3)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)

    def chunk(env: ToyEnv, actions: object) -> object:
        found.add((torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()))
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
        return step(env, actions)

    monkeypatch.setattr(ToyEnv, "__init__", begin)
    monkeypatch.setattr(ToyEnv, "chunk_step", chunk)
    play(log_path, "runner.logger.experiment_name=odd")
    assert found == {(torch.float64, 3, False)}
    assert torch.is_grad_enabled() and not torch.are_deterministic_algorithms_enabled()
    assert (torch.get_default_dtype(), torch.get_num_threads()) == (torch.float32, 1)
    plain, odd = (load_file(policy_file(log_path / name)) for name in ("plain", "odd"))
    assert plain.keys() == odd.keys()
    assert all(torch.equal(plain[name], odd[name]) for name in plain)


def policy_file(run: Path) -> Path:
    (file,) = (run / "checkpoints" / "step_000002" / "actor").glob("*.safetensors")
    return file


@pytest.mark.quick(1)
@pytest.mark.parametrize("fault", ["other weights", "damaged", "a stale weight"])
def test_a_checkpoint_of_another_policy_is_not_made(
    log_path: Path, refused, monkeypatch, fault: str
):
    right = ToyPolicy.save_pretrained

    def save(policy: ToyPolicy, path: Path) -> None:
        right(policy, path)
        (file,) = path.glob("*.safetensors")
        tensors = load_file(file)
        if fault == "damaged":
            file.write_bytes(b"none")
            return
        if fault == "a stale weight":
            tensors["log_std"] = torch.zeros_like(tensors["log_std"])
        else:
            tensors = {name: tensor.bfloat16().float() for name, tensor in tensors.items()}
        save_file(tensors, file)

    monkeypatch.setattr(ToyPolicy, "save_pretrained", save)
    words = [] if fault == "damaged" else ["log_std"]
    with refused(PolicyError, "toy", "save_pretrained", *words, text=False):
        play(log_path)
    assert not has_checkpoint(log_path / "run" / "checkpoints")


@pytest.mark.long
def test_a_saved_policy_is_loaded_once_a_run(log_path: Path, monkeypatch):
    checked: list[Path] = []
    right = policy_answers.checked_saved

    def counted(held: object, load: object) -> None:
        checked.append(log_path)
        right(held, load)

    monkeypatch.setattr(policy_answers, "checked_saved", counted)
    play(log_path)  # two checkpoints
    assert len(checked) == 1
