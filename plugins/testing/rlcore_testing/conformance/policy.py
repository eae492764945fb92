"""Check whether a policy meets the contract of :class:`rlcore.contracts.protocols.Policy`.

    class TestMyModel(PolicyConformance):
        name = "my_model"
        settings = {"add_value_head": True}

The policy gets random observations of a fake env; set `env_spec` if it needs a particular one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import PolicySpec
from rlcore_testing.conformance.base import (
    Deviation,
    Finding,
    check,
    require,
    require_equal,
    require_fields,
)
from rlcore_testing.conformance.paper import paper_demonstration
from rlcore_testing.conformance.policy_acting import (
    ActingChecks,
    EvaluatingChecks,
    PreparingChecks,
)
from rlcore_testing.conformance.policy_learning import ParameterChecks, SupervisedChecks
from rlcore_testing.conformance.policy_memory import MemoryChecks
from rlcore_testing.conformance.policy_subject import DECIDED, PolicySubject, keys

PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".npy")


class SpecChecks(PolicySubject):
    """Checks of the spec."""

    def test_the_spec_fits_the_env(self) -> None:
        spec = self.spec
        require(
            spec.action_dim == self.env_spec.action_dim,
            f"spec.action_dim is {spec.action_dim}, expected the env's {self.env_spec.action_dim}",
            hint="the network may be wider; what act gives is the env's action",
        )
        require(
            1 <= spec.num_action_chunks <= spec.action_horizon,
            f"spec has C = {spec.num_action_chunks} and H = {spec.action_horizon}, expected "
            "1 <= C <= H",
            hint="C actions of the H predicted are executed",
        )
        require(
            spec.value_dim in (0, 1, spec.num_action_chunks),
            f"spec.value_dim is {spec.value_dim}, expected 0, 1 or C = {spec.num_action_chunks}",
            hint="no critic, a value per chunk, or a value per action",
        )

    def test_the_policy_has_the_facts_its_spec_function_gave(self) -> None:
        self.require_told("policy.spec", PolicySpec, self.spec, self.env_spec, before="workers")


class SavingChecks(PolicySubject):
    """Checks of checkpoints."""

    def test_a_saved_policy_decides_the_same(self) -> None:
        policy = self.fresh()
        if self.spec.sft_objective is not None:
            policy.fit_normalizer([paper_demonstration(self.env_spec, 9)])
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "made" / "here"
            policy.save_pretrained(folder)
            pickled = sorted(f.name for f in folder.rglob("*") if f.suffix in PICKLES)
            require(not pickled, f"save_pretrained wrote {', '.join(pickled)}, expected no pickles",
                    hint="safetensors for tensors, JSON for the rest")  # fmt: skip
            loaded = self.make(self.config(model_path=str(folder)))
        hint = "save weights, buffers, transforms and statistics: all that a load needs"
        prepared, again = (p.prepare(self.observation()) for p in (policy, loaded))
        for name, array in prepared.items():
            require_equal(f"input {name!r} of the loaded policy", again[name], array, hint=hint)
        first, second = policy.act(prepared, keys()), loaded.act(again, keys())
        require_fields(DECIDED, "of the loaded policy", second, first, hint=hint)

    def test_a_missing_checkpoint_is_the_user_s_error(self) -> None:
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "nowhere"
            try:
                self.make(self.config(model_path=str(folder)))
            except UserError as error:
                require(
                    str(folder) in str(error),
                    f"the error for a missing model_path does not name it: {error.message}",
                    hint="name the folder and what is missing there",
                )
                return
            except Exception as error:
                raise Deviation(
                    f"a missing model_path raised {type(error).__name__}, expected a "
                    "rlcore.contracts.errors.CheckpointError",
                    hint="look for the files before you open them",
                ) from error
        raise Deviation("a missing model_path was not noticed, expected an error",
                        hint="read config.model_path in the factory")  # fmt: skip


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


def check_policy(name: str, **settings: Any) -> list[Finding]:
    """Return the contract violations of model `name` under `settings`."""
    return check(PolicyConformance, name, settings)
