"""The rules of an evaluation, and the differences of two."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace

from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.contracts.specs import ComponentSpec, SimulatorVersions
from rlcore.runs.manifest import simulator_versions
from rlcore.runs.protocol_record import EvaluationProtocol, describe_difference

RULES = EvaluationProtocol(
    env="arm",
    trials={"reach": [100, 101]},
    max_episode_steps=20,
    num_action_chunks=4,
    sampling="deterministic",
    settings={},
    facts={},
    said={"reach": "reach it"},
)
OLD, NEW = (replace(RULES, simulator={"mujoco": version}) for version in ("3.3.0", "3.4.0"))


def test_unlike_versions_of_a_simulator_are_unlike_protocols() -> None:
    assert len({RULES.digest, OLD.digest, NEW.digest}) == 3
    assert replace(OLD).digest == OLD.digest
    difference = describe_difference(OLD.values, NEW.values)
    assert difference == "simulator.mujoco '3.3.0' and '3.4.0'"


def test_versions_are_named_before_other_differences() -> None:
    other = replace(NEW, max_episode_steps=30, env="hand", num_action_chunks=5)
    difference = describe_difference(OLD.values, other.values)
    assert difference.startswith("simulator.mujoco '3.3.0' and '3.4.0'")


def test_the_digest_of_an_env_without_libraries_has_no_entry_for_them() -> None:
    values = asdict(RULES)
    del values["simulator"]
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    assert RULES.values == values
    assert RULES.digest == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_versions_are_those_of_the_interpreter_that_simulates() -> None:
    libraries = (SimulatorVersions("Py_Yaml", ">=5"), SimulatorVersions("no-such-engine", ">=1"))
    component = ComponentSpec("env", "arm", "arm:make", tested=libraries)
    spec = replace(env_spec(ToyEnvConfig()), versions={"checkout": "abc123"})
    elsewhere = {"py-yaml": "5.4", "numpy": "1.26.4"}
    versions = simulator_versions(component, spec, elsewhere)
    assert versions == {"Py_Yaml": "5.4", "checkout": "abc123"}
    here = ComponentSpec("env", "arm", "arm:make", tested=(SimulatorVersions("NumPy", ">=1"),))
    assert set(simulator_versions(here, spec)) == {"NumPy", "checkout"}
