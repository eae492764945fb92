"""CheckedEnv: invalid data of an env are refused with their place, and an env that ignores its
settings plays the tasks of the run all the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from internals import assemble, collect, compose, evaluate, train
from rlcore_testing import toy_env, toy_policy, toy_settings
from rlcore_testing.toy_env import ToyEnv
from rlcore_testing.toy_policy import ToyPolicy
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.contracts.errors import EnvError, PolicyError, WorkerError
from rlcore.contracts.specs import Episode
from rlcore.demonstrations.safetensors_format import DemonstrationSet
from rlcore.runs.env_facts import read_env_facts
from rlcore.workers.checked_env import CheckedEnv
from rlcore.workers.restarting_env import EnvWarning, RestartingEnv

CONFIG = ToyEnvConfig(env_type="toy", max_episode_steps=12)
ROWS = 3
CHUNK = 4
EPISODES = [Episode(1, 30), Episode(2, 31), Episode(0, 32)]
TOY = [
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=1"),
    *("env.train.total_num_envs=4", "env.train.max_episode_steps=10"),
    *("env.eval.total_num_envs=4", "env.eval.max_episode_steps=10", "env.eval.trials_per_task=1"),
    "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
    "runner.logger.experiment_name=run",
]


class Answers(ToyEnv):
    """A toy env whose return values a test changes."""

    change: Any = staticmethod(lambda call, answer: answer)

    def reset(self, **arguments):
        observation, infos = super().reset(**arguments)
        return self.change("reset", observation), infos

    def chunk_step(self, actions):
        return self.change("chunk", super().chunk_step(actions))

    def demonstrate(self, episodes, **settings):
        for demonstration in super().demonstrate(episodes, **settings):
            yield self.change("demonstrate", demonstration)

    def recorded(self):
        return self.change("recorded", super().recorded())


def played(change, env: type[ToyEnv] = Answers, **more) -> CheckedEnv:
    made = type("Changed", (env,), {"change": staticmethod(change)})
    return CheckedEnv(RestartingEnv(lambda: made(CONFIG, ROWS), 0), num_envs=ROWS, **more)


def still(rows: int = ROWS) -> np.ndarray:
    return np.zeros((rows, CHUNK, 2), dtype=np.float32)


def put(call: str, name: str, value: Any, place: Any = None, chunk: int = 1):
    """Return a change of an array, or one place of it, in what the `chunk`-th `call` returns."""
    calls = []

    def change(method: str, answer: Any) -> Any:
        calls.append(method)
        if method != call or calls.count(method) != chunk:
            return answer
        holder = answer if isinstance(answer, dict) else vars(answer)
        if name not in holder and "observation" in holder:
            holder = holder["observation"]
        if name in holder.get("cameras", {}):
            holder = holder["cameras"]
        if place is None:
            holder[name] = value(holder[name]) if callable(value) else value
        else:
            holder[name][place] = value
        return answer

    return change


FAULTS = {
    "state is nan": (put("reset", "states", np.nan, (1, 1)), ["trial 31, step 0", "entry 1"]),
    "state is infinite": (
        put("chunk", "states", -np.inf, (1, 0), chunk=2),
        ["trial 31, step 8", "entry 0"],
    ),
    # a fault of a whole array is reported for row 0
    "state is wide": (
        put("reset", "states", lambda a: np.repeat(a, 2, axis=1)),
        ["trial 30, step 0", "states"],
    ),
    "state is float64": (put("chunk", "states", lambda a: a.astype(float)), ["states"]),
    "camera is float": (
        put("reset", "top", lambda a: a / np.float32(255)),
        ["trial 30, step 0", "'top'"],
    ),
    "camera is small": (put("chunk", "top", lambda a: a[:, ::2]), ["'top'"]),
    "camera has another name": (
        put("chunk", "cameras", lambda a: {"front": a["top"]}),
        ["cameras"],
    ),
    "elapsed is nan": (put("chunk", "elapsed", np.nan, 1), ["trial 31, step 4", "elapsed"]),
    "instruction is empty": (
        put("reset", "task_descriptions", lambda a: [a[0], "", a[2]]),
        ["trial 31, step 0", "instruction"],
    ),
    "one instruction for all": (put("reset", "task_descriptions", "go"), ["task_descriptions"]),
    "a key is missing": (put("reset", "states", lambda a: None), ["states"]),
    "reward is nan": (
        put("chunk", "rewards", np.nan, (1, 2), chunk=2),
        ["trial 31, step 7", "reward"],
    ),
    "reward is more than float32 holds": (
        put("chunk", "rewards", lambda a: np.full(a.shape, 1e300)),
        ["trial 30, step 1", "reward"],
    ),
    "rewards of another shape": (put("chunk", "rewards", lambda a: a[:, 0]), ["rewards"]),
    "no valid step": (put("chunk", "valid", False, 1), ["trial 31, step 0", "valid"]),
    "a gap in valid": (put("chunk", "valid", False, (1, 2)), ["trial 31, step 3", "valid"]),
    "flags are numbers": (
        put("chunk", "terminated", lambda a: a.astype(np.float32)),
        ["terminated"],
    ),
    "both ends at once": (put("chunk", "truncated", lambda a: a | True), ["an end"]),
    "success is nan": (
        put("chunk", "success", lambda a: np.array([0.0, np.nan, 1.0])),
        ["trial 31, step 4", "success"],
    ),
    "success is a share": (
        put("chunk", "success", lambda a: np.array([0.0, 1.0, 0.5])),
        ["success"],
    ),
    "success is a word": (put("chunk", "success", lambda a: np.array(["no"] * 3)), ["success"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_invalid_data_are_refused_with_their_place(refused, name):
    change, words = FAULTS[name]
    env = played(change)
    with refused(EnvError, "env toy", *words) as error:
        env.reset(range(ROWS), EPISODES)
        for _ in range(3):
            env.chunk_step(still())
    assert error.value.exit_code == 1


def test_return_values_of_another_type_are_refused(refused):
    with refused(EnvError, "tuple", "ChunkResult"):
        env = played(lambda call, answer: answer if call == "reset" else (answer,))
        env.reset(range(ROWS), EPISODES)
        env.chunk_step(still())
    with refused(EnvError, "states"):
        played(lambda call, answer: {"states": answer["states"]}).reset(range(ROWS), EPISODES)
    with refused(EnvError, "num_envs"):
        CheckedEnv(RestartingEnv(lambda: ToyEnv(CONFIG, 3), 0), num_envs=5)


def test_success_does_not_go_back(refused):
    """Success is of the episode, not of the step: else a solved episode would count as failed."""

    def change(call: str, answer: Any) -> Any:
        if call == "chunk":
            answer.success = np.array([False, next(turns), False])
        return answer

    turns = iter([True, True, False])
    env = played(change)
    env.reset(range(ROWS), EPISODES)
    for _ in range(2):
        env.chunk_step(still())
    with refused(EnvError, "trial 31, step 12", "success"):
        env.chunk_step(still())


def test_unused_rows_may_hold_anything(refused):
    """Row 1 was never started, row 2 terminated in the chunk: neither observation is checked."""

    def change(call: str, answer: Any) -> Any:
        observation = answer if call == "reset" else answer.observation
        observation["states"][1] = np.nan
        observation["task_descriptions"][1] = ""
        if call == "chunk":
            answer.terminated[2, 3] = True
            observation["states"][2] = np.inf
            answer.rewards[1] = np.nan
            answer.valid[1] = False
        return answer

    env = played(change)
    env.reset([0, 2], EPISODES)
    result = env.chunk_step(still())
    assert result.valid.tolist() == [[True] * 4, [False] * 4, [True] * 4]
    with refused(EnvError, "trial 31, step 0", "states entry 0"):
        env.reset([1], EPISODES)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8])
def test_a_success_of_zero_or_one_is_a_flag(dtype):
    def change(call: str, answer: Any) -> Any:
        if call == "chunk":
            answer.success = np.array([0, 1, 0], dtype=dtype)
            answer.rewards = answer.rewards.astype(np.float64)
        return answer

    env = played(change)
    env.reset(range(ROWS), EPISODES)
    result = env.chunk_step(still())
    assert result.success.dtype == bool and result.success.tolist() == [False, True, False]
    assert result.rewards.dtype == np.float32


def test_actions_that_are_not_finite_do_not_reach_the_env(refused):
    env = played(lambda call, answer: answer)
    env.reset(range(ROWS), EPISODES)
    actions = still()
    actions[2, 1, 0] = np.nan
    with refused(WorkerError, "rows [2]"):
        env.chunk_step(actions)


DEMONSTRATIONS = {
    "nan state": (put("demonstrate", "states", np.nan, (2, 0)), ["trial 30, step 2", "entry 0"]),
    "nan action": (put("demonstrate", "actions", np.nan, (1, 0)), ["step 1", "actions"]),
    "success is nan": (put("demonstrate", "success", np.nan), ["success"]),
    "empty instruction": (put("demonstrate", "instruction", " "), ["instruction"]),
    "float frames": (
        put("demonstrate", "frames", lambda a: {"top": a["top"] / 255}),
        ["frames of 'top'"],
    ),
    "unordered": (put("demonstrate", "frame_steps", lambda a: a[::-1].copy()), ["frame_steps"]),
    "empty": (put("demonstrate", "actions", lambda a: a[:0]), ["actions"]),
}
SETTINGS = {"action_noise": 0.0, "speed": 1.0, "stride": 1, "seed": 0}


@pytest.mark.parametrize("name", DEMONSTRATIONS)
def test_invalid_demonstrations_are_refused(refused, name):
    change, words = DEMONSTRATIONS[name]
    with refused(EnvError, *words):
        list(played(change).demonstrate(EPISODES, **SETTINGS))


def test_an_episode_that_is_not_demonstrated_once_is_refused(refused):
    def other(call: str, answer: Any) -> Any:
        return replace(answer, episode=Episode(3, 99))

    with refused(EnvError, "task=3"):
        list(played(other).demonstrate(EPISODES, **SETTINGS))

    class Lazy(ToyEnv):
        def demonstrate(self, episodes, **settings):
            return super().demonstrate(episodes[:1] if len(episodes) > 2 else [], **settings)

    with refused(EnvError, "(2, 31, 0, -1)"):
        list(played(None, Lazy).demonstrate(EPISODES, **SETTINGS))


# -- in a run -------------------------------------------------------------------------------------


@pytest.fixture
def toy_is(monkeypatch: pytest.MonkeyPatch):
    """`toy_is(cls)` makes runs use this class as the env `toy`."""

    def replace_toy(cls: type[ToyEnv]) -> None:
        monkeypatch.setattr(toy_env, "make", lambda config, *, num_envs, **_: cls(config, num_envs))

    return replace_toy


# -- tasks ----------------------------------------------------------------------------------------


class Wide(ToyEnv):
    """An env that ignores its setting `tasks` and has all of its tasks."""

    played: list[str]

    def __init__(self, config: ToyEnvConfig, num_envs: int) -> None:
        super().__init__(replace(config, tasks=None), num_envs)

    def _start(self, row: int, episode: Episode) -> None:
        self.played.append(self.spec.tasks[episode.task])
        super()._start(row, episode)


@pytest.fixture
def wide(toy_is, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make spec and toy env ignore `tasks`; return the list of the names of the tasks played."""
    Wide.played = []
    toy_is(Wide)
    monkeypatch.setattr(
        toy_settings, "env_spec", lambda config: env_spec(replace(config, tasks=None))
    )
    return Wide.played


def test_a_run_plays_the_tasks_of_its_configuration(wide, log_path):
    asked = ["env.train.tasks=[reach-up]", "env.eval.tasks=[reach-down,reach-right]"]
    train(assemble(compose([*TOY, *asked, f"runner.logger.log_path={log_path}"])))
    assert set(wide) == {"reach-up", "reach-down", "reach-right"}
    manifest = json.loads((log_path / "run/manifest.json").read_text())
    trials = manifest["evaluation_protocol"]["trials"]
    counts = {task: len(numbers) for task, numbers in trials.items()}
    assert counts == {"reach-down": 1, "reach-right": 1}


@pytest.mark.long
def test_tasks_in_another_order_are_the_same_episodes(wide, log_path, monkeypatch):
    """The toy env selects its tasks itself; for the wide one core does, with equal results."""
    asked = [*TOY, "env.eval.tasks=[reach-up,reach-left]", "runner.only_eval=true"]
    wide_results = evaluate(assemble(compose([*asked, f"runner.logger.log_path={log_path}/wide"])))
    monkeypatch.undo()
    results = evaluate(assemble(compose([*asked, f"runner.logger.log_path={log_path}/own"])))
    assert wide_results == results


def test_demonstrations_are_of_the_tasks_of_the_configuration(wide, log_path):
    asked = [*TOY, "env.train.tasks=[reach-down]", "collect.episodes_per_task=2"]
    words = [*asked, f"runner.logger.log_path={log_path}"]
    path = collect(assemble(compose(words), collects=True))
    demonstrations = DemonstrationSet(path)
    assert {task for task, _ in demonstrations.starts()} == {"reach-down"}
    assert {demo.instruction for demo in demonstrations} == {"reach the down side"}
    assert all(demo.states[-1][1] < demo.states[0][1] for demo in demonstrations)  # it goes down


def test_simulators_without_a_planned_task_are_refused(refused, toy_is, log_path):
    class Other(ToyEnv):
        def __init__(self, config: ToyEnvConfig, num_envs: int) -> None:
            super().__init__(replace(config, tasks=["reach-left"]), num_envs)

    toy_is(Other)
    config = compose([*TOY, f"runner.logger.log_path={log_path}"])
    with refused(EnvError, "reach-right"):
        train(assemble(config))


# -- instructions ---------------------------------------------------------------------------------

INSTRUCTIONS = {
    "reach-left": "Go to the left",
    "reach-right": "Go to the right",
    "reach-up": "Go up",
    "reach-down": "Go down",
    "reach-far": "Go away",
}


def test_a_policy_gets_the_instructions_of_the_run():
    env = played(lambda call, answer: answer, instructions=INSTRUCTIONS)
    first = env.reset(range(ROWS), EPISODES)
    assert first["task_descriptions"] == ["Go to the right", "Go up", "Go to the left"]
    assert env.chunk_step(still()).observation["task_descriptions"] == first["task_descriptions"]
    swapped = env.reset([1], [Episode(3, 1)] * 3)
    assert swapped["task_descriptions"] == ["Go to the right", "Go down", "Go to the left"]
    demonstrated = {
        demo.episode: demo.instruction for demo in env.demonstrate(EPISODES, **SETTINGS)
    }
    assert demonstrated == dict(zip(EPISODES, first["task_descriptions"], strict=True))


def test_a_run_records_the_instructions_of_its_policy(log_path, monkeypatch):
    """The policy's inputs, manifest, checkpoint and demonstrations agree on the instructions."""
    seen = set()
    prepare = ToyPolicy.prepare

    def recording_prepare(self, observation):
        seen.update(observation["task_descriptions"])
        return prepare(self, observation)

    monkeypatch.setattr(ToyPolicy, "prepare", recording_prepare)
    file = log_path.parent / "words.json"
    file.write_text(json.dumps(INSTRUCTIONS))
    asked = [f"env.train.sentences={file}", f"runner.logger.log_path={log_path}"]
    asked += ["env.train.tasks=[reach-up]", "env.eval.tasks=[reach-left]"]
    asked += ["sft.enabled=true", "sft.max_steps=2", "collect.episodes_per_task=2"]
    train(assemble(compose([*TOY, *asked])))
    assert seen == {"Go up", "reach the left side"}
    run = log_path / "run"
    sentences = json.loads((run / "manifest.json").read_text())["sentences"]
    assert sentences["train"] == {"reach-up": "Go up"}
    assert sentences["eval"] == {"reach-left": "reach the left side"}
    facts = read_env_facts(run / "checkpoints/step_000001/actor")
    assert facts is not None and facts.sentences == {"reach-up": "Go up"}
    demonstrations = DemonstrationSet(run / "demonstrations")
    assert {demo.instruction for demo in demonstrations} == {"Go up"}
    assert demonstrations.info.sentences == {"reach-up": "Go up"}


class Endless(Answers):
    """An env that never reaches its time limit."""

    def _advance(self, actions):
        rewards, terminated, truncated = super()._advance(actions)
        self._running |= truncated
        return rewards, terminated, np.zeros_like(truncated)


def test_an_env_that_exceeds_its_time_limit_is_refused(refused):
    """The limit is 12 steps, which the fourth chunk of four exceeds."""
    env = played(lambda call, answer: answer, Endless)
    env.reset(range(ROWS), EPISODES)
    for _ in range(3):
        env.chunk_step(still())
    with refused(EnvError, "trial 30", 16, "max_episode_steps is 12"):
        env.chunk_step(still())


# -- invalid envs, and envs other than planned -----------------------------------------------------


@pytest.mark.parametrize("given", [None, ()])
def test_a_reset_without_an_observation_is_refused(refused, given):
    class Odd(ToyEnv):
        def reset(self, **arguments):
            return given

    env = CheckedEnv(RestartingEnv(lambda: Odd(CONFIG, ROWS), 0), num_envs=ROWS)
    with refused(EnvError, "reset", type(given).__name__):
        env.reset(range(ROWS), EPISODES)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (None, ["env toy", "recorded", "NoneType"]),
        ({7: []}, ["rows [7]"]),
        ({0: None}, ["trial 30", "NoneType"]),
        ({0: [np.zeros((16, 16, 3))]}, ["trial 30", "float64", "uint8"]),
    ],
    ids=["no dict", "no such row", "no frames", "floats"],
)
def test_invalid_recorded_frames_are_refused(refused, frames, words):
    env = played(lambda call, answer: frames if call == "recorded" else answer)
    env.reset(range(ROWS), EPISODES)
    with refused(EnvError, *words):
        env.recorded()


@pytest.mark.parametrize(
    ("call", "place"),
    [("reset", "trial 31, step 0"), ("chunk", "trial 31, step 4"), ("demonstrate", "trial 30")],
)
def test_an_instruction_that_the_spec_does_not_list_is_refused(refused, call, place):
    def change(method: str, answer: Any) -> Any:
        if method == call == "demonstrate":
            return replace(answer, instruction="sing")
        if method == call:
            (answer if call == "reset" else answer.observation)["task_descriptions"][1] = "sing"
        return answer

    env = played(change)
    with refused(EnvError, place, "'sing'"):
        list(env.demonstrate(EPISODES, **SETTINGS))
        env.reset(range(ROWS), EPISODES)
        env.chunk_step(still())
    # the run's instructions replace those of the env, which are then not checked
    instructed = played(change, instructions=INSTRUCTIONS)
    instructed.reset(range(ROWS), EPISODES)
    instructed.chunk_step(still())
    # an open-ended spec lists no instructions
    open_ended = played(change, spec=replace(env_spec(CONFIG), open_instructions=True))
    seen = [demo.instruction for demo in open_ended.demonstrate(EPISODES, **SETTINGS)]
    seen += open_ended.reset(range(ROWS), EPISODES)["task_descriptions"]
    seen += open_ended.chunk_step(still()).observation["task_descriptions"]
    assert "sing" in seen


@pytest.mark.parametrize("field", ["max_episode_steps", "cameras", "states"])
def test_an_env_has_the_spec_that_the_run_was_planned_with(refused, field):
    planned = env_spec(CONFIG)
    other = {"max_episode_steps": 99, "cameras": (), "states": planned.states * 2}[field]
    with refused(EnvError, "env toy", field):
        played(None, spec=replace(planned, **{field: other}))


def test_a_simulator_has_the_version_that_the_run_was_planned_with(refused):
    """Another node may have a simulator's checkout at another commit."""
    planned = replace(env_spec(CONFIG), versions={"its scenes": "1a"})
    with refused(EnvError, "its scenes"):
        played(None, spec=planned)


def test_an_env_that_cannot_be_closed_is_a_warning():
    class Stuck(ToyEnv):
        def close(self):
            raise OSError("no such device")

    env = CheckedEnv(RestartingEnv(lambda: Stuck(CONFIG, ROWS), 0), num_envs=ROWS)
    with pytest.warns(EnvWarning, match="env toy"):
        env.close()


@pytest.mark.quick(1)
@pytest.mark.parametrize("given", [None, ToyEnv])
def test_a_factory_that_returns_no_env_is_refused(refused, given, monkeypatch, log_path):
    monkeypatch.setattr(toy_env, "make", lambda config, **_: given)
    with refused(EnvError, "rlcore_testing.toy_env:make"):
        train(assemble(compose([*TOY, f"runner.logger.log_path={log_path}"])))


@pytest.mark.quick(1)
@pytest.mark.parametrize("given", [None, ToyPolicy])
def test_a_factory_that_returns_no_policy_is_refused(refused, given, monkeypatch, log_path):
    monkeypatch.setattr(toy_policy, "make", lambda config, **_: given)
    with refused(PolicyError, "rlcore_testing.toy_policy:make"):
        train(assemble(compose([*TOY, f"runner.logger.log_path={log_path}"])))
