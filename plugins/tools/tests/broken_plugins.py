"""A plugin that is sound, and one thing after another that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

API = "RLCORE_API = (0, 1)\n"

SOUND: dict[str, str] = {
    "plugin.py": """
from rlcore import hookimpl, observer
from rlcore.contracts.specs import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components():
    toy, ppo = "rlcore_testing.toy_settings", "rlcore_algo_ppo.settings"
    return [
        ComponentSpec("env", "broken", "broken.env:make",
                      config=f"{toy}:ToyEnvConfig", spec=f"{toy}:env_spec"),
        ComponentSpec("model", "broken", "broken.model:make",
                      config=f"{toy}:ToyModelConfig", spec=f"{toy}:policy_spec"),
        ComponentSpec("algorithm", "broken", "broken.algorithm:Broken",
                      config=f"{ppo}:PPOConfig", spec=f"{ppo}:needs"),
        ComponentSpec("tracker", "broken", "broken.tracker:Broken"),
        ComponentSpec("placement", "broken", "broken.placement:spread"),
        ComponentSpec("command", "broken", "broken.command:main"),
    ]


@hookimpl
def rlcore_config_paths():
    return ["pkg://broken.conf"]


@observer
def rlcore_after_update(run, metrics):
    metrics["broken/percent"] = 1.0
""",
    "env.py": """
import numpy as np
from rlcore_testing.toy_env import GOALS, ToyEnv

DRAW = np.random.default_rng()
BUFFER = np.zeros((64, 2), np.float32)


class Broken(ToyEnv):
    pass


def make(config, *, num_envs, rank, world_size, num_processes):
    return Broken(config, num_envs)
""",
    "model.py": """
import numpy as np
import torch
from rlcore_testing.toy_policy import ToyPolicy, make as sound


class Sound(ToyPolicy):
    def prepare(self, observation):
        numbers = [sum(text.encode()) % 4 for text in observation["task_descriptions"]]
        return {**super().prepare(observation), "task": np.array(numbers)}


class Broken(Sound):
    pass


def make(config, *, env_spec):
    policy = Broken(config, env_spec)
    policy.load_state_dict(sound(config, env_spec=env_spec).state_dict())
    return policy
""",
    "algorithm.py": """
from dataclasses import replace

from rlcore_algo_ppo.ppo import PPO


class Broken(PPO):
    pass
""",
    "tracker.py": """
class Broken:
    def __init__(self, config, run_dir):
        pass

    def log(self, metrics, step):
        pass

    def close(self):
        pass
""",
    "placement.py": """
def spread(inventory, cluster):
    return {"env,rollout,actor": "all"}
""",
    "command.py": """
from rlcore.cli.parser import Parser


def main(arguments):
    Parser(prog="rlcore broken", description="Do nothing.").parse_args(arguments)
    return 0
""",
    "conf/env/broken.yaml": """
env_type: broken
max_episode_steps: 20
_eval_:
  split: heldout
""",
    "conf/model/broken.yaml": "model_type: broken\nnum_action_chunks: 2\n",
    "conf/experiment/broken.yaml": """
# @package _global_
defaults:
  - override /env: broken
  - override /model: broken
  - override /algorithm: broken

algorithm: {adv_type: gae, loss_type: actor_critic}
cluster: {backend: local, component_placement: {'env,rollout,actor': 0}}
env:
  train: {total_num_envs: 4}
  eval: {total_num_envs: 4, trials_per_task: 1}
actor: {global_batch_size: 16, micro_batch_size: 16}
runner: {max_epochs: 1}
""",
}
"""The files of the package `broken`, by their place in it."""


@dataclass(frozen=True)
class Case:
    """One thing that is wrong.

    Attributes:
        wrong: the finding, in words.
        plugin: what the plugin does, in words.
        file, old, new: what is put in the place of what.
        found: which commands find it, and what each says. "check KIND" checks that component,
            "check" the plugin.
        warns: it is said, and nothing fails.
        end: what is put behind the file.
    """

    wrong: str
    plugin: str
    file: str
    old: str
    new: str
    found: Mapping[str, str] = field(default_factory=dict)
    warns: bool = False
    end: str = ""


def _settings(wrong: str, plugin: str, above: str, key: str, found: Mapping[str, str]) -> Case:
    """A class of settings of the env, with that key."""
    end = (
        "\n\nfrom dataclasses import dataclass\nfrom rlcore_testing.toy_settings import "
        f"ToyEnvConfig\n\n\n{above}\nclass Config(ToyEnvConfig):\n    {key}\n"
    )
    old, new = 'config=f"{toy}:ToyEnvConfig"', 'config="broken.plugin:Config"'
    return Case(wrong, plugin, "plugin.py", old, new, found, end=end)


def _env(wrong: str, plugin: str, code: str, **found: str) -> Case:
    return _class("env", "Broken(ToyEnv)", wrong, plugin, code, found)


def _class(
    kind: str, name: str, wrong: str, plugin: str, code: str, found: Mapping[str, str],
    *, warns: bool = False,
) -> Case:  # fmt: skip
    """A method in the place of the class's body."""
    told = {f"check {kind}" if command == "check" else command: said
            for command, said in found.items()}  # fmt: skip
    body = "".join(f"    {line}\n" if line else "\n" for line in code.strip().splitlines())
    old, new = f"class {name}:\n    pass\n", f"class {name}:\n{body}"
    return Case(wrong, plugin, f"{kind}.py", old, new, told, warns=warns)


def _import(wrong: str, code: str, plugins: str, *, warns: bool = False) -> Case:
    old = "RLCORE_API = (0, 1)\n"
    found = {"plugins": plugins}
    return Case(wrong, f"`{code}`", "plugin.py", old, f"{old}{code}\n", found, warns=warns)


CASES = [
    _import("it crashes", "import ctypes; ctypes.string_at(0)",
            "ends the process with SIGSEGV"),
    _import("it hangs", "import time; time.sleep(3600)",
            "has not ended after 30 s"),
    _import("it ends the process", "import os; os._exit(3)",
            "ends the process with exit code 3 when it is imported"),
    _import("it exits", "import sys; sys.exit('no licence')", "SystemExit: no licence"),
    _import("it fails", "import acme_engine",
            "ModuleNotFoundError: No module named 'acme_engine'"),
    _import("it writes without end", "while True: print('x' * 1000)",
            "has not ended after 30 s"),
    _import("it is slow", "import time; time.sleep(7)",
            "importing it took 7.0 s, for which every command waits", warns=True),
    Case("it prints", "`print('hello')`", "plugin.py", "RLCORE_API = (0, 1)\n",
         "RLCORE_API = (0, 1)\nprint('hello')\n",
         {"check": "importing it prints 'hello"}),
    Case("another API", "`RLCORE_API = (0, 2)`", "plugin.py", "(0, 1)", "(0, 2)",
         {"plugins": "asks for plugin API 0.2, this rlcore offers 0.1"}),
    Case("a hook with an argument that it does not get",
         "`rlcore_after_update(run, update, metrics)`", "plugin.py",
         "rlcore_after_update(run,", "rlcore_after_update(run, update,",
         {"plugins": "Argument(s) {'update'} are declared in the hookimpl but can not be found in "
          "the hookspec"}),
    Case("no such hook", "`rlcore_after_updates`", "plugin.py", "rlcore_after_update(",
         "rlcore_after_updates(",
         {"plugins": "unknown hook rlcore_after_updates. Did you mean 'rlcore_after_update'?"}),
    Case("a module that is not there", "`target=\"broken.envs:make\"`", "plugin.py",
         "broken.env:make", "broken.envs:make",
         {"plugins": "target: broken.envs:make: there is no module broken.envs",
          "--dry-run": "there is no module broken.envs",
          "check env": "No module named 'broken.envs'"}),
    Case("a name that is not there", "`target=\"broken.env:mak\"`", "plugin.py",
         "broken.env:make", "broken.env:mak",
         {"plugins": "broken.env has no 'mak'. Did you mean 'make'?",
          "--dry-run": "broken.env has no 'mak'. Did you mean 'make'?",
          "check env": "broken.env has no 'mak'. Did you mean 'make'?"}),
    Case("a maker of another signature", "`def make(config, num_envs)`", "env.py",
         "config, *, num_envs, rank, world_size, num_processes", "config, num_envs",
         {"check env": "broken.env:make takes (config, num_envs), but is called with (..., "
          "num_envs=..., rank=..., world_size=..., num_processes=...)"}),
    Case("configuration that can't be read", "`env_type: [broken`", "conf/env/broken.yaml",
         "env_type: broken", "env_type: [broken",
         {"plugins": "conf/env/broken.yaml can't be read", "--dry-run": "conf/env/broken.yaml",
          "check": "conf/env/broken.yaml can't be read"}),
    Case("no package of configuration", "`pkg://broken.config`", "plugin.py",
         "pkg://broken.conf", "pkg://broken.config",
         {"plugins": "pkg://broken.config of broken is no package",
          "check": "pkg://broken.config of broken is no package"}),
    Case("a hook that gives nothing", "no `return`", "plugin.py", "    return [\n        Comp",
         "    [\n        Comp",
         {"plugins": "rlcore_components must return a list, got NoneType",
          "--dry-run": "rlcore_components must return a list, got NoneType"}),
    Case("settings that are no text", "`return [dict]`", "plugin.py", API, API,
         {"plugins": "rlcore_settings must list texts 'module:Class', got [<class 'dict'>]"},
         end="\n\n@hookimpl\ndef rlcore_settings():\n    return [dict]\n"),
    Case("settings that are not there", '`["broken.settings:Own"]`', "plugin.py", API, API,
         {"plugins": "rlcore_settings, broken.settings:Own can't be loaded: No module named"},
         end="\n\n@hookimpl\ndef rlcore_settings():\n    return ['broken.settings:Own']\n"),
    Case("settings that are none", "`class Own:`", "plugin.py", API, API,
         {"plugins": "rlcore_settings must name a PluginConfig",
          "check": "rlcore_settings must name a PluginConfig",
          "--dry-run": "rlcore_settings must name a PluginConfig"},
         end="\n\nclass Own:\n    pass\n\n\n@hookimpl\ndef rlcore_settings():\n"
         "    return ['broken.plugin:Own']\n"),
    Case("a hook without its marker", "no `@observer`", "plugin.py", "@observer\n", "",
         {"plugins": "rlcore_after_update is not marked: write @rlcore.hookimpl above it"}),
    Case("a name that can't be typed", "`Broken Env`", "plugin.py", '("env", "broken"',
         '("env", "Broken Env"',
         {"plugins": "a name consists of letters, digits, _ . + and -, got 'Broken Env'",
          "check --quick": "a name consists of letters, digits, _ . + and -, got 'Broken Env'"}),
    Case("a kind that is none", "`policy`", "plugin.py", '("model", "broken"',
         '("policy", "broken"',
         {"plugins": "kind must be one of env, model,", "check --quick": "kind must be one of "}),
    Case("a preset with a key that is none", "`max_episode_step`", "conf/env/broken.yaml",
         "max_episode_steps", "max_episode_step",
         {"check --quick": "conf/env/broken.yaml: unknown key 'env.train.max_episode_step'. Did "
          "you mean 'env.train.max_episode_steps'?",
          "--dry-run": "unknown key 'env.train.max_episode_step'"}),
    Case("a recipe of what is not there", "`override /env: borken`",
         "conf/experiment/broken.yaml", "/env: broken", "/env: borken",
         {"check --quick": "there is no env 'borken'. Did you mean 'broken'?",
          "--dry-run": "there is no env 'borken'. Did you mean 'broken'?"}),
    _settings("a key without a type", "`speed = 0.2`", "@dataclass", "speed = 0.2",
              {"check env": "broken.plugin:Config: speed = 0.2 has no type, so it is no key"}),
    _settings("settings that are no dataclass", "no `@dataclass`", "", "speed: float = 0.2",
              {"--dry-run": "broken.plugin:Config must be a @dataclass that extends EnvConfig",
               "check env": "broken.plugin:Config must be a @dataclass that extends EnvConfig"}),
    _settings("a key of a type that no file has", "`speed: complex`", "@dataclass",
              "speed: complex = 1j",
              {"--dry-run": "broken.plugin:Config: speed: Unexpected type annotation: complex",
               "check env": "broken.plugin:Config: speed: Unexpected type annotation: complex"}),
    _settings("a default of another type", "`speed: float = 'fast'`", "@dataclass",
              "speed: float = 'fast'",
              {"--dry-run": "broken.plugin:Config: speed: Value 'fast' of type 'str' could not",
               "check env": "broken.plugin:Config: speed: Value 'fast' of type 'str' could not"}),
    Case("sentences that are no text", "`instructions=(1, 2, 3, 4)`", "plugin.py",
         'spec=f"{toy}:env_spec"),', 'spec="broken.plugin:spec"),',
         {"--dry-run": "instructions is (1, 2, 3, 4), expected a tuple of str"},
         end="\n\ndef spec(config):\n    from dataclasses import replace\n    from "
         "rlcore_testing.toy_settings import env_spec\n\n"
         "    return replace(env_spec(config), instructions=(1, 2, 3, 4))\n"),
    _env("states of another type", "float64 states",
         """
def _observe(self):
    return {**super()._observe(), "states": self._position.astype(np.float64)}
""", check="states is float64", train="states is float64"),
    _env("frames of another shape", "channels first",
         """
def _observe(self):
    seen = super()._observe()
    return {**seen, "cameras": {"top": seen["cameras"]["top"].transpose(0, 3, 1, 2)}}
""", check="camera 'top' is uint8", train="camera 'top' is uint8"),
    _env("rewards that are no numbers", "the reward of a success is NaN",
         """
def _advance(self, actions):
    rewards, terminated, truncated = super()._advance(actions)
    return np.where(self._running, rewards, np.float32("nan")), terminated, truncated
""", check="the reward is nan", train="the reward is nan"),
    _env("episodes that don't end", "no time limit",
         """
def _advance(self, actions):
    self._steps[:] = 0
    return super()._advance(actions)
""", check="the time limit", train="does not end task"),
    _env("noise without a key", "`np.random.default_rng()` in its steps",
         """
def _advance(self, actions):
    return super()._advance(actions + DRAW.normal(0, 0.1, actions.shape).astype(np.float32))
""", check="something that the observation does not show differs"),
    _env("the trial is ignored", "one start for all trials",
         """
def _start(self, row, episode):
    super()._start(row, episode._replace(trial=0))
""", check="the trial number must choose the start"),
    _env("other trials than asked", "its own random trial",
         """
def _start(self, row, episode):
    super()._start(row, episode._replace(trial=int(DRAW.integers(1000))))
""", check="(task, trial) alone must fix the start"),
    _env("the seed is ignored", "`reset(seed=...)` draws",
         """
def _default(self, seed):
    return super()._default(int(DRAW.integers(1000)))
""", check="choose the episodes by the seed alone"),
    _env("buffers are handed out", "states are its own array",
         """
def _observe(self):
    BUFFER[: self.num_envs] = self._position
    return {**super()._observe(), "states": BUFFER[: self.num_envs]}
""", check="hand out copies", train="wrote to states after it had returned it"),
    _env("rows are reset that nobody asked for", "`reset_mask` is ignored",
         """
def reset(self, *, seed=None, options=None):
    options = {k: v for k, v in (options or {}).items() if k != "reset_mask"}
    return super().reset(seed=seed, options=options)
""", check="only masked rows are reset"),
    _env("memory grows", "keeps 200 KiB an episode",
         """
kept = []

def _start(self, row, episode):
    self.kept.append(np.ones(50_000, np.float32))
    super()._start(row, episode)
""", check="KiB an episode over 99 episodes, 5 times in a row"),
    _env("a chosen task is another one", "under `config.tasks` its own numbers are others",
         """
def _start(self, row, episode):
    number = episode.task if len(self.spec.tasks) > 1 else 0
    super()._start(row, episode)
    self._position[row] += 0.1 * (number != [*GOALS].index(self.spec.tasks[episode.task]))
""", check="a task that is chosen is the one played"),
    _class("model", "Broken(Sound)", "the image is ignored", "black frames in `prepare`",
           """
def prepare(self, observation):
    inputs = super().prepare(observation)
    return {**inputs, "image": inputs["image"] * 0}
""", {"check": "warning: decisions depend on what cameras show: actions and log-probs stay the "
            "same to the bit"}, warns=True),
    _class("model", "Broken(Sound)", "the instruction is ignored",
           "one number for all sentences",
           """
def prepare(self, observation):
    inputs = super().prepare(observation)
    return {**inputs, "task": inputs["task"] * 0}
""", {"check": "warning: decisions depend on the instruction: actions and log-probs stay the same "
            "to the bit"}, warns=True),
    _class("model", "Broken(Sound)", "acting and scoring disagree", "scores clipped actions",
           """
def evaluate(self, inputs, replay):
    return super().evaluate(inputs, {"actions": replay["actions"].clamp(-0.2, 0.2)})
""", {"check": "logprobs of evaluate against act, at equal weights",
            "train": "log-probs of evaluate are"}),
    _class("model", "Broken(Sound)", "exploration without a key", "`torch.randn`",
           """
def act(self, inputs, keys, *, deterministic=False):
    torch.randn(1)
    return super().act(inputs, keys, deterministic=deterministic)
""", {"check": "act draws from torch's global generator"}),
    _class("model", "Broken(Sound)", "a checkpoint is not all of it", "saves zeros",
           """
def state_dict(self, *words, **named):
    state = super().state_dict(*words, **named)
    return {name: tensor * (name != "log_std") for name, tensor in state.items()}
""", {"check": "a saved policy decides the same"}),
    _class("algorithm", "Broken(PPO)", "a sign too many", "maximises its loss",
           """
def loss(self, now, batch):
    return super().loss(now, replace(batch, advantages=-batch.advantages))
""", {"check": "look for a sign"}),
    _class("algorithm", "Broken(PPO)", "a mean of a mean", "divides by the micro-batch",
           """
def loss(self, now, batch):
    loss, metrics = super().loss(now, batch)
    return loss / len(batch), metrics
""", {"check": "micro batches add up"}),
    Case("metrics are changed", "`metrics.clear()`", "tracker.py", "step):\n        pass",
         "step):\n        metrics.clear()", {"check tracker": "log changed the metrics to {}"}),
    Case("ranks that are not there", "`999`", "placement.py", '"all"', '"0-999"',
         {"check placement": "it gives {'env,rollout,actor': '0-999'}"}),
    Case("a command without help", "looks at no word", "command.py",
         '    Parser(prog="rlcore broken", description="Do nothing.").parse_args(arguments)\n', "",
         {"check command": "--help gave exit code 0 and '', expected 0 and a text"}),
    Case("a hook that adds text", "`metrics[...] = 'high'`", "plugin.py",
         'metrics["broken/percent"] = 1.0', 'metrics["broken/percent"] = "high"',
         {"check": "a hook added {'broken/percent': 'high'}, expected names and numbers"}),
    Case("a hook that remembers by itself", "a counter of the module steers", "plugin.py",
         '@observer\ndef rlcore_after_update(run, metrics):\n    metrics["broken/percent"] = 1.0',
         "SEEN = []\n\n\n@hookimpl\ndef rlcore_after_update(run, metrics):\n"
         '    SEEN.append(1)\n    run.set_lr_factors({"policy": 1 / len(SEEN)})',
         {"check": "remember with run.store(name, value) alone"}),
]  # fmt: skip


def written(case: Case | None, folder: Path) -> None:
    """The package with that wrong, as pip would leave it."""
    files = dict(SOUND)
    if case is not None:
        assert case.old in files[case.file], (case.wrong, case.old)
        files[case.file] = files[case.file].replace(case.old, case.new) + case.end
    for place, text in files.items():
        path = folder / "broken" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for package in ("broken", "broken/conf"):
        (folder / package / "__init__.py").write_text("")
