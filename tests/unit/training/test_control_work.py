"""How much supervised training is as much work as reinforcement."""

from __future__ import annotations

from rlcore.training.control_work import ControlWork


def test_samples_by_hand() -> None:
    metrics = [
        {"step": 0, "sft/train_loss": 1.0},
        {"step": 1, "train/actor/trained_samples": 100.0},
        {"step": 2, "train/actor/trained_samples": None},  # was no finite number
        {"step": 3, "train/actor/trained_samples": 60.0},
    ]
    work = ControlWork.of_run(metrics, env_steps=91, episodes=6, num_action_chunks=5)
    # 91 steps are 19 decisions of 5; the last one of each of 6 episodes may have fewer steps
    assert (work.gradient_samples, work.decisions) == (160, 25)
    assert work.samples == 160 + 9  # a third of 25 is 8.33
    record = work.record({"batch_size": 64, "steps": 3})
    assert record["samples"] == 169 and record["steps"] == 3 and record["forward_share"] == "1/3"


def test_nothing_done_is_no_work() -> None:
    assert ControlWork.of_run([], env_steps=0, episodes=0, num_action_chunks=5).samples == 0
