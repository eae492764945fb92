"""Check whether a policy meets the contract of :class:`rlcore.contracts.protocols.Policy`.

    class TestMyModel(PolicyConformance):
        name = "my_model"
        settings = {"add_value_head": True}

The policy gets random observations of a fake env; set `env_spec` if it needs a particular one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rlcore_testing.conformance.base import require, require_arrays, require_refused
from rlcore_testing.conformance.fake_env import fake_demonstration
from rlcore_testing.conformance.policy_acting import (
    ActingChecks,
    EvaluatingChecks,
    PreparingChecks,
)
from rlcore_testing.conformance.policy_learning import ParameterChecks, SupervisedChecks
from rlcore_testing.conformance.policy_memory import MemoryChecks
from rlcore_testing.conformance.policy_subject import PolicySubject, keys, require_decisions

PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".npy")


class SpecChecks(PolicySubject):
    """Checks of the spec."""

    def test_the_spec_fits_the_env(self) -> None:
        spec = self.spec
        chunks = spec.num_action_chunks
        hint = "the network may be wider; what act gives is the env's action"
        require("spec.action_dim", spec.action_dim, self.env_spec.action_dim, hint)
        assert 1 <= chunks <= spec.action_horizon, (
            f"spec has C = {chunks} and H = {spec.action_horizon}, expected 1 <= C <= H"
            "\n  hint: C actions of the H predicted are executed"
        )
        assert spec.value_dim in (0, 1, chunks), (
            f"spec.value_dim is {spec.value_dim}, expected 0, 1 or C = {chunks}"
            "\n  hint: no critic, a value per chunk, or a value per action"
        )

    def test_the_policy_has_the_facts_its_spec_function_gave(self) -> None:
        self.require_planned("policy.spec", self.spec, self.env_spec)


class SavingChecks(PolicySubject):
    """Checks of checkpoints."""

    def test_a_saved_policy_decides_the_same(self) -> None:
        policy = self.fresh()
        if self.spec.sft_objective is not None:
            policy.fit_normalizer([fake_demonstration(self.env_spec, 9)])
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "made" / "here"
            policy.save_pretrained(folder)
            pickles = sorted(file.name for file in folder.rglob("*") if file.suffix in PICKLES)
            hint = "safetensors for tensors, JSON for the rest"
            require("the list of pickles that save_pretrained wrote", pickles, [], hint)
            loaded = self.make(self.config(model_path=str(folder)))
        inputs, again = (p.prepare(self.observation()) for p in (policy, loaded))
        hint = "save weights, buffers, transforms and statistics: all that a load needs"
        require_arrays("of the inputs of the loaded policy", again, inputs, hint)
        expected = policy.act(inputs, keys())
        require_decisions("the loaded policy", loaded.act(again, keys()), expected, hint)

    def test_a_missing_checkpoint_is_the_user_s_error(self) -> None:
        hint = "look for the files of config.model_path before you open them, and name the folder"
        with tempfile.TemporaryDirectory() as parent:
            folder = str(Path(parent) / "nowhere")
            config = self.config(model_path=folder)
            text = require_refused("a missing model_path", lambda: self.make(config), hint)
        require("whether the error names the missing folder", folder in text, True, hint)


class PolicyConformance(
    SpecChecks,
    PreparingChecks,
    ActingChecks,
    EvaluatingChecks,
    ParameterChecks,
    MemoryChecks,
    SupervisedChecks,
    SavingChecks,
):
    """Checks of a policy.

    Set `name`, and `settings` and `env_spec` if the defaults are not suitable. Attributes and
    methods of :class:`PolicySubject` may be overridden.
    """
