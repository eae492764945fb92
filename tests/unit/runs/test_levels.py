"""Episodes, steps and seconds up to each level of success, worked by hand."""

from rlcore.runs.levels import levels_reached

NONE = {"0.5": None, "0.8": None, "0.9": None}


def trained(step, success, episodes=48.0, seconds=2.0):
    return {
        "step": step,
        "env/success_once": success,
        "env/episodes": episodes,
        "env/episode_len": 10.0,
        "time/rollout": seconds,
        "time/update": 1.0,
        "train/actor/approx_kl": None,
    }


def test_training_counts_over_enough_episodes():
    # 0.75 of 48 says nothing yet; with the next 48 it is (0.75 + 0.25) / 2
    found = levels_reached([trained(1, 0.75), trained(2, 0.25), trained(3, 0.5)])
    spent = {"update": 2, "episodes": 96, "env_steps": 960, "seconds": 6.0}
    assert found == NONE | {"0.5": {**spent, "success": 0.5, "by": "training"}}


def test_an_evaluation_counts_at_once():
    lines = [{"step": 0, "eval/success_once": 0.5}, trained(1, 0.5)]
    found = levels_reached([*lines, {"step": 1, "eval/success_once": 0.85}])
    assert [found["0.5"]["episodes"], found["0.5"]["by"]] == [0, "evaluation"]
    assert [found["0.8"]["update"], found["0.8"]["episodes"]] == [1, 48]
    assert found["0.9"] is None


def test_a_step_logged_twice_counts_once():
    found = levels_reached([trained(1, 0.0, 96.0), trained(1, 0.6, 96.0)])
    assert found["0.5"]["episodes"] == 96


def test_updates_without_a_finished_episode():
    assert levels_reached([{"step": 1, "env/episodes": 0.0, "time/rollout": 1.0}]) == NONE
