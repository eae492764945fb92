"""A checkpoint exported loads back: whole, with its adapters merged, or adapters alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from internals import compose, save_checkpoint, to_yaml
from rlcore_model_openpi.sizes import SIZES
from rlcore_testing.conformance.fake_env import fake_observation

from rlcore.cli.main import main
from rlcore.config.schema import RunConfig
from rlcore.contracts.rng import RowKeys
from rlcore.files.safetensors_header import read_headers
from rlcore.learner.update import Learner
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins
from rlcore.runs.checkpoint import POLICY
from rlcore.runs.env_facts import write_env_facts
from rlcore.runs.folder import RunFolder
from rlcore.runs.learner_state import write_learner

ROWS = 2
KEYS = RowKeys(tuple((7, row) for row in range(ROWS)))
COMMON = (
    "env=metaworld",
    "env.train.tasks=[button-press-v3]",
    "env.eval.tasks=[button-press-v3]",
    "algorithm=ppo",
    "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
)
LORA = ("actor.model.is_lora=true", "actor.model.lora_rank=4")
MODELS = ("openvla_tiny", "openvla_oft_tiny", "pi0_tiny", "smolvla_tiny")
FLOWS = {"pi0_tiny": "openpi", "smolvla_tiny": "smolvla"}
"""The section of keys of each flow policy."""


def built(config: RunConfig, **changes):
    """The policy of a configuration, without workers."""
    model = replace(config.actor.model, **changes)
    target = load_plugins().get("model", model.model_type).spec.target
    torch.manual_seed(0)
    return load_target(target)(model, env_spec=env_of(config))


def env_of(config: RunConfig):
    spec = load_plugins().get("env", config.env.train.env_type).spec.spec
    return load_target(spec)(config.env.train)


def decisions(policy, config: RunConfig):
    return policy.act(policy.prepare(fake_observation(env_of(config), ROWS)), KEYS)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[Path, object, RunConfig]]:
    """`run(model, *overrides)`: folder, policy and configuration of a run after one update,
    whose policy is off its start."""

    def made(model: str, *overrides: str):
        config = compose([*COMMON, f"model={model}", *overrides])
        policy = built(config)
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in policy.parameters():
                if parameter.requires_grad:
                    parameter += 0.05 * torch.randn(parameter.shape)
        folder = RunFolder.create(tmp_path, "run")
        folder.write_config(to_yaml(config))
        target = load_plugins().get("algorithm", "ppo").spec.target
        algorithm = load_target(target)(config.algorithm)
        learner = Learner(policy, algorithm, config.actor, config.algorithm, seed=0)
        save_checkpoint(
            folder.checkpoints,
            1,
            save_policy=policy.save_pretrained,
            save_learner=lambda path: write_learner(path, learner.state_dict()),
        )
        return folder.path, policy, config

    return made


@pytest.fixture
def base(tmp_path: Path) -> Callable[[str], Path]:
    """`base(model)`: a folder with a model that adapters may adapt."""

    def made(model: str) -> Path:
        config = compose([*COMMON, f"model={model}"])
        built(config).save_pretrained(tmp_path / "base")
        return tmp_path / "base"

    return made


def assert_alike(expected, got, atol: float) -> None:
    torch.testing.assert_close(
        torch.as_tensor(got.actions), torch.as_tensor(expected.actions), atol=atol, rtol=0
    )
    torch.testing.assert_close(got.logprobs, expected.logprobs, atol=10 * atol, rtol=0)
    torch.testing.assert_close(got.values, expected.values, atol=10 * atol, rtol=0)


def lora(model: str, base: Path) -> list[str]:
    more = [f"actor.model.{FLOWS[model]}.train_expert_only=false"] if model in FLOWS else []
    return [*LORA, *more, f"actor.model.model_path={base}"]


@pytest.mark.quick(1)
@pytest.mark.parametrize("model", MODELS)
def test_a_policy_loads_back(run, tmp_path, capsys, model):
    """All bits of it, under the names it was saved with."""
    folder, policy, config = run(model)
    dest = tmp_path / "out"
    assert main(["export", str(folder), str(dest)]) == 0
    assert f"actor.model.model_path={dest}" in capsys.readouterr().out
    saved = folder / "checkpoints" / "step_000001" / POLICY
    files = {path.relative_to(saved) for path in saved.rglob("*") if path.is_file()}
    assert files == {path.relative_to(dest) for path in dest.rglob("*") if path.is_file()}
    expected = decisions(policy, config)
    assert_alike(expected, decisions(built(config, model_path=str(dest)), config), 0)


@pytest.mark.quick(1)
@pytest.mark.parametrize("model", MODELS)
def test_adapters_are_merged(run, base, tmp_path, model):
    """Read by a configuration that knows of none."""
    folder, policy, config = run(model, *lora(model, base(model)))
    assert main(["export", str(folder), str(tmp_path / "out")]) == 0
    names = read_headers(tmp_path / "out" / "model.safetensors")
    assert not any("lora" in name for name in names)
    expected = decisions(policy, config)
    whole = built(config, model_path=str(tmp_path / "out"), is_lora=False)
    assert_alike(expected, decisions(whole, config), 1e-4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "kept_alone"), [("openvla_tiny", False), ("openvla_oft_tiny", True)]
)
def test_adapters_alone_and_back(run, base, tmp_path, capsys, model, kept_alone):
    """Whichever form the run's checkpoints have: alone they are the trained ones to the bit, and
    say what they adapt; merged again nobody needs that."""
    start = base(model)
    setting = f"actor.model.save_adapters_only={kept_alone}"
    folder, policy, config = run(model, *lora(model, start), setting)
    alone, whole = tmp_path / "alone", tmp_path / "whole"
    assert main(["export", str(folder), str(alone), "--adapter-only"]) == 0
    assert str(start) in capsys.readouterr().out
    assert not (alone / "model.safetensors").exists()
    expected = decisions(policy, config)
    assert_alike(expected, decisions(built(config, model_path=str(alone)), config), 0)
    assert main(["export", str(folder), str(whole)]) == 0
    start.rename(tmp_path / "gone")
    changes = {"model_path": str(whole), "is_lora": False, "save_adapters_only": False}
    assert_alike(expected, decisions(built(config, **changes), config), 1e-4)


@pytest.mark.long
def test_adapters_of_a_run_that_began_with_some(run, base, tmp_path, capsys):
    """Those of `lora_path` were trained on: exported alone they adapt the same model, merged they
    need none, and neither adds them twice."""
    start = base("openvla_tiny")
    folder, _, _ = run("openvla_tiny", *lora("openvla_tiny", start))
    first, alone, whole = (tmp_path / name for name in ("first", "alone", "whole"))
    assert main(["export", str(folder), str(first), "--adapter-only"]) == 0
    shutil.rmtree(folder)
    began = [*lora("openvla_tiny", start), f"actor.model.lora_path={first}"]
    folder, policy, config = run("openvla_tiny", *began)
    expected = decisions(policy, config)
    assert main(["export", str(folder), str(alone), "--adapter-only"]) == 0
    assert str(start) in capsys.readouterr().out
    changes = {"model_path": str(alone), "lora_path": None}
    assert_alike(expected, decisions(built(config, **changes), config), 0)
    assert main(["export", str(folder), str(whole)]) == 0
    changes = {"model_path": str(whole), "lora_path": None, "is_lora": False}
    assert_alike(expected, decisions(built(config, **changes), config), 1e-4)


def test_parts_are_exported_as_their_original_loader_reads_them(run, tmp_path):
    """FiLM's towers as a file of torch.save, under the names that it loads strictly."""
    film = ("implement_version=official", "use_film=true")
    folder, policy, config = run("openvla_oft_tiny", *(f"actor.model.{key}" for key in film))
    dest = tmp_path / "out"
    assert main(["export", str(folder), str(dest)]) == 0
    (file,) = dest.glob("*checkpoint*")
    towers = torch.load(file, weights_only=True)
    assert file.suffix == ".pt" and any(".lora_A.default." in name for name in towers)
    expected = decisions(policy, config)
    assert_alike(expected, decisions(built(config, model_path=str(dest)), config), 0)


@pytest.mark.parametrize("adapted", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_layout_of_another_system(run, base, tmp_path, capsys, monkeypatch, adapted):
    """LeRobot builds one size of π0, for which a small one stands here. Our reader takes it too."""
    monkeypatch.setitem(SIZES, "pi0", SIZES["small"])
    folder, policy, config = run("pi0_small", *(lora("pi0_small", base("pi0_small")) * adapted))
    write_env_facts(folder / "checkpoints" / "step_000001" / POLICY, env_of(config))
    dest = tmp_path / "out"
    assert main(["export", str(folder), str(dest), "--layout", "lerobot"]) == 0
    assert f"actor.model.model_path={dest}" in capsys.readouterr().out
    assert (dest / "policy_preprocessor.json").exists() and not list(dest.glob("rl_heads*"))
    assert not list(tmp_path.glob("*/tmp*"))
    expected = decisions(policy, config)
    whole = built(config, model_path=str(dest), is_lora=False)
    torch.testing.assert_close(
        torch.as_tensor(decisions(whole, config).actions),
        torch.as_tensor(expected.actions),
        atol=1e-4,
        rtol=0,
    )


def error_of(capsys, *arguments: object) -> str:
    """Return the error of an export that is refused."""
    assert main(["export", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_unknown_layouts_and_sizes_are_refused(run, tmp_path, capsys):
    folder, _, config = run("pi0_tiny")
    write_env_facts(folder / "checkpoints" / "step_000001" / POLICY, env_of(config))
    out = tmp_path / "out"
    assert "without --layout" in error_of(capsys, folder, out, "--layout", "lerobot")
    error = error_of(capsys, folder, out, "--layout", "lerobt")
    assert "'lerobt'" in error and "lerobot" in error
    assert not out.exists()


def test_a_model_without_other_layouts_refuses_one(run, tmp_path, capsys):
    folder, _, _ = run("openvla_tiny")
    error = error_of(capsys, folder, tmp_path / "out", "--layout", "lerobot")
    assert "--layout" in error and "openvla" in error


@pytest.mark.long
def test_a_refused_export_leaves_nothing_behind(run, base, tmp_path, capsys):
    folder, _, _ = run("openvla_tiny")
    taken, out = tmp_path / "taken", tmp_path / "out"
    taken.mkdir()
    (taken / "notes").write_text("mine")
    for path in (taken, taken / "notes"):
        assert str(path) in error_of(capsys, folder, path)
    assert (taken / "notes").read_text() == "mine"
    assert "all weights" in error_of(capsys, folder, out, "--adapter-only")
    assert "step_000002" in error_of(capsys, folder, out, "--checkpoint=step_000002")
    assert str(tmp_path / "nowhere") in error_of(capsys, tmp_path / "nowhere", out)
    fresh, _, _ = run("openvla_tiny", *LORA)
    assert "random weights" in error_of(capsys, fresh, out, "--adapter-only")
    adapted, _, _ = run("pi0_tiny", *lora("pi0_tiny", base("pi0_tiny")))
    assert "action expert" in error_of(capsys, adapted, out, "--adapter-only")
    assert not out.exists() and not list(tmp_path.glob(".partial*"))
