"""What other distributions import of core is public, written down, and changes on purpose.

To write the signatures anew: `python tests/contract/test_public.py`. A change that breaks a plugin
also needs another `API_VERSION` (rlcore/plugins/validate.py).
The list is docs/api.md itself.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from public_api import MODULES, PAGE, definition, file_of, imported, is_public, names_of, signatures

from rlcore.contracts.version import API_VERSION

ROOT = Path(__file__).parents[2]
SIGNATURES = ROOT / "docs/api-signatures.txt"
PACKAGES = sorted(path.parent for path in ROOT.glob("plugins/**/rlcore_*/__init__.py"))

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    # shows the parts that `rlcore train` is made of, so it takes them as they are
    "examples/minimal.py": (
        "rlcore.learner.update", "rlcore.rollout.builder", "rlcore.rollout.messages",
        "rlcore.rollout.schedule",
    ),
    # checks a plugin with what checks it in a run
    "plugins/testing/rlcore_testing/conformance": (
        "rlcore.config.bind", "rlcore.config.tasks", "rlcore.validation.env",
        "rlcore.learner.update", "rlcore.learner.acting", "rlcore.validation.policy",
        "rlcore.rollout.batch_invariance",
    ),
    # explains what core composes
    "plugins/tools/rlcore_tools/provenance.py": (
        "rlcore.config.bind", "rlcore.config.explain", "rlcore.config.overrides",
        "rlcore.config.scalars",
    ),
    # reads what core notes beside the episodes of an evaluation
    "plugins/tools/rlcore_tools/runs/record.py": ("rlcore.files.reading", "rlcore.runs.parquet"),
    "plugins/data/lerobot/rlcore_data_lerobot": ("rlcore.files.reading",),
    # looks at what is installed, and whose it is
    "plugins/tools/rlcore_tools/check": (
        "rlcore.checks.plugin_files", "rlcore.plugins.trial_import",
    ),
    "plugins/tools/rlcore_tools/check/configuration.py": ("rlcore.config.compose",),
    "plugins/tools/rlcore_tools/cli/check.py": (
        "rlcore.checks.plugin_files", "rlcore.plugins.entry_points",
    ),
    # asks whose a name is already
    "plugins/tools/rlcore_tools/new/make.py": ("rlcore.plugins.distributions",),
    # composes a recipe from a file of another system, step by step as core does
    "plugins/rlinf/rlcore_rlinf": (
        "rlcore.config.bind", "rlcore.config.translation", "rlcore.config.recipes",
        "rlcore.config.choices",
    ),
    # holds the files of a run against each other, those of core's own bookkeeping included
    "plugins/tools/rlcore_tools/runs/doubts.py": (
        "rlcore.runs.summary", "rlcore.runs.history", "rlcore.runs.sft_record",
        "rlcore.runs.state",
    ),
    # a library of core's own in another distribution: processes, interpreters, their signals
    "plugins/simulation/rlcore_simulation": ("rlcore.config.compose", "rlcore.utils.signals"),
    # plays jobs of core's commands, and plans each as core does
    "plugins/sweeps/rlcore_sweeps": (
        "rlcore.checks.facts", "rlcore.checks.places", "rlcore.cli.main", "rlcore.cli.request",
        "rlcore.config.choices", "rlcore.config.compose", "rlcore.config.overrides",
        "rlcore.config.recipes", "rlcore.config.scalars", "rlcore.placement.inventory",
        "rlcore.placement.memory", "rlcore.utils.signals", "rlcore.runs.folder",
        "rlcore.utils.stdio", "rlcore.files.lock",
    ),
    # carries out what core's workers and plans say, as core's own local group does
    "plugins/ray/rlcore_ray": (
        "rlcore.utils.mkl", "rlcore.placement.inventory", "rlcore.placement.plan",
        "rlcore.utils.signals", "rlcore.utils.watchdog", "rlcore.rollout.messages",
        "rlcore.workers.channel", "rlcore.workers.env_worker", "rlcore.workers.policy_worker",
        "rlcore.workers.roles",
    ),
    # reads the headers of safetensors files as core does
    "plugins/models/weights": ("rlcore.files.reading", "rlcore.files.safetensors_header"),
    "plugins/tools/rlcore_tools/export.py": ("rlcore.runs.acting",),
}  # fmt: skip
"""`{file or folder: modules that it may import besides the public ones}`."""


def importers() -> list[Path]:
    packages = [file for package in PACKAGES for file in package.rglob("*.py")]
    return sorted([*packages, *ROOT.glob("examples/*.py")])


def private(file: Path) -> set[str]:
    """What a file imports that is not public."""
    return {
        f"{module}:{name}"
        for module, name in imported(file.read_text())
        if not is_public(module, name)
    }


def test_plugins_and_examples_import_public_names_alone():
    found, used = {}, set()
    for file in importers():
        place = file.relative_to(ROOT).as_posix()
        for each in private(file):
            module = each.partition(":")[0]
            excused = {(at, module) for at, modules in EXCEPTIONS.items()
                       if place.startswith(at) and module in modules}  # fmt: skip
            used |= excused
            if not excused:
                found.setdefault(place, []).append(each)
    assert found == {}
    stale = {(at, each) for at, modules in EXCEPTIONS.items() for each in modules} - used
    assert stale == set(), "nobody needs these exceptions any more"


def test_what_the_docs_show_imports_public_names_alone():
    blocks = [
        (page.name, block)
        for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    assert len(blocks) > 5
    lines = [
        (name, line.strip())
        for name, block in blocks
        for line in block.splitlines()
        if re.match(r"\s*(from|import) rlcore[.\s]", line)
    ]
    assert len(lines) > 10
    for name, line in lines:
        for module, taken in imported(line):
            assert is_public(module, taken), f"{name}: {line}"


def test_what_is_listed_is_there():
    for module, names in MODULES.items():
        assert file_of(module).is_file(), module
        for name in names or names_of(module):
            definition(module, name)


def test_signatures_change_on_purpose():
    assert SIGNATURES.read_text() == signatures(), (
        "a public signature has changed; if that is meant: python tests/contract/test_public.py"
    )


def test_the_page_is_read_whole_and_gives_the_version():
    page = PAGE.read_text()
    assert len(MODULES) == page.count("\n| `") > 30
    assert f"API {'.'.join(map(str, API_VERSION))}:" in page
    assert f"`RLCORE_API = {API_VERSION}`" in page


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from rlcore.contracts.specs import Episode", [("rlcore.contracts.specs", "Episode")]),
        ("import rlcore.contracts.specs", [("rlcore.contracts.specs", "")]),
        ("from rlcore.config import schema_tree as t\nt.walk(x)",
         [("rlcore.config.schema_tree", "walk")]),
        ("from rlcore import hookimpl", [("rlcore", "hookimpl")]),
        ("def f():\n    from rlcore.training import train\n    train.run()",
         [("rlcore.training.train", "run")]),
        ("from rlcore_testing import toy_env\nimport numpy", []),
    ],
)  # fmt: skip
def test_the_reader_of_imports(source, expected):
    assert list(imported(source)) == expected


@pytest.mark.parametrize(
    ("module", "name", "public"),
    [
        ("rlcore.contracts.specs", "Episode", True),
        ("rlcore.contracts.specs", "no_such_name", False),
        ("rlcore.files.atomic", "write_text", True),
        ("rlcore.files.atomic", "sweep", False),  # the module offers others only
        ("rlcore.training.train", "train", False),
    ],
)
def test_what_is_public(module, name, public):
    assert is_public(module, name) == public


if __name__ == "__main__":
    SIGNATURES.write_text(signatures())
