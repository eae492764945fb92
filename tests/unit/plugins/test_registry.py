"""Plugins are found, loaded and looked up, and bad ones are named with the reason."""

from __future__ import annotations

import pytest

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.errors import PluginError
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry
from rlcore.plugins.validate import problem_of

GOOD = """
    from rlcore.contracts.hookspecs import hookimpl
    from rlcore.contracts.specs import ComponentSpec
    RLCORE_API = (0, 1)

    @hookimpl
    def rlcore_components():
        return [ComponentSpec(kind="env", name="maze", target="maze_impl:make")]
"""


def hook(name: str, marker: str = "@hookimpl") -> str:
    """A hook that yields, which a wrapper must."""
    return f"\n    {marker}\n    def {name}(run): yield"


def bad_rows(registry: Registry) -> dict[str, str]:
    return {row.name: row.reason for row in registry.rows() if row.status == "BAD"}


def test_a_stranger_is_found_through_its_entry_point_alone(install):
    install("their-maze", "maze_plugin", GOOD, version="2.5")
    registry = Registry.load(environ={})
    found = registry.get("env", "maze")
    assert (found.distribution, found.version, found.plugin) == ("their-maze", "2.5", "maze_plugin")
    assert found.spec.target == "maze_impl:make"
    assert "maze" in registry.names("env")
    assert "maze" not in bad_rows(registry)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import module_that_does_not_exist", "bad_plugin.py:1)"),
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
        ("X = 1", "None"),
        ("RLCORE_API = '0.1'", "'0.1'"),
        # while the major number is 0, minor ones must be equal
        ("RLCORE_API = (0, 0)", "pip install --upgrade bad-one"),
        ("RLCORE_API = (0, 2)", "pip install --upgrade rlcore"),
        ("RLCORE_API = (1, 0)", "1.0"),
        (GOOD.replace("rlcore_components", "rlcore_component"), "'rlcore_components'"),
        (GOOD + hook("rlcore_after_rolout"), "'rlcore_after_rollout'"),
        (GOOD + hook("rlcore_after_rollout", "@hookimpl(wrapper=True)"), "wrapper"),
        (GOOD + hook("rlcore_after_rollout", ""), "@rlcore.hookimpl"),
        (GOOD.replace("return [", "return 3 or ["), "int"),
        (GOOD.replace("return [", "[", 1), "NoneType"),
        (GOOD.replace("return [", "raise ValueError('boom'); return ["), "ValueError: boom"),
        (GOOD.replace("_components()", "_components(nonsense)"), "nonsense"),
    ],
)
def test_a_bad_plugin_is_a_row_with_the_reason_and_the_others_work(install, source, named):
    install("bad-one", "bad_plugin", source)
    registry = Registry.load(environ={})
    assert named in bad_rows(registry)["bad_plugin"]
    assert registry.get("command", "train").distribution == "rlcore"


@pytest.mark.parametrize(
    ("component", "kind", "name"),
    [
        ("ComponentSpec('env', 'maze', len)", "env", "maze"),
        ("ComponentSpec('env', 'maze', 'maze_impl')", "env", "maze"),
        ("ComponentSpec('env', 'my maze', 'a:b')", "env", "my maze"),
        ("ComponentSpec('enviro', 'maze', 'a:b')", "component", "maze"),
        ("ComponentSpec(['env'], 'maze', 'a:b')", "component", "maze"),
        ("ComponentSpec('env', 'maze', 'a:b', packages='numpy')", "env", "maze"),
        ("ComponentSpec('command', '-x', 'a:b')", "command", "-x"),
        ("{'name': 'maze'}", "plugin", "half_bad"),
    ],
)
def test_a_bad_component_is_a_row_and_its_siblings_work(install, snapshot, component, kind, name):
    source = GOOD.replace("return [", f"return [{component}, ").replace('"maze"', '"maze2"')
    install("half-bad", "half_bad", source)
    registry = Registry.load(environ={})
    (bad,) = [row for row in registry.rows() if row.status == "BAD"]
    assert (bad.kind, bad.name) == (kind, name)
    assert bad.reason == snapshot
    assert registry.get("env", "maze2").distribution == "half-bad"


def test_two_claims_name_both_and_spare_the_rest(install, refused):
    install("maze-a", "plugin_a", GOOD, version="1.0")
    install("maze-b", "plugin_b", GOOD, version="2.0")
    registry = Registry.load(environ={})
    with refused(PluginError, "maze-a 1.0 and maze-b 2.0"):
        registry.get("env", "maze")
    rows = [row for row in registry.rows() if row.name == "maze"]
    assert [row.status for row in rows] == ["BAD", "BAD"]
    assert "maze-a 1.0 and maze-b 2.0" in rows[0].reason
    assert registry.get("env", "toy").spec.name == "toy"


@pytest.mark.parametrize(("distribution", "name"), [("a-maze", "a_maze"), ("zz", "testing")])
def test_of_two_claims_ours_stays(install, refused, distribution, name):
    """Whether the other plugin precedes it by name, or has the name of its plugin."""
    theirs = GOOD.replace('"maze"', '"toy"').replace("maze_impl", "theirs")
    install(distribution, name, theirs)
    registry = Registry.load(environ={})
    if name == "testing":
        reason = bad_rows(registry)[name]
        assert "'testing'" in reason and "RLCORE_BLOCK_PLUGINS=zz" in reason
    else:
        claims = ("rlcore-testing", "a-maze", "RLCORE_BLOCK_PLUGINS=a-maze")
        with refused(PluginError, *claims, text=False):  # it names our version
            registry.get("env", "toy")
    registry = Registry.load(environ={"RLCORE_BLOCK_PLUGINS": distribution})
    assert registry.get("env", "toy").spec.target.startswith("rlcore_testing")


def test_variables_choose_and_block(install):
    install("their-maze", "maze_plugin", GOOD)
    install("other-maze", "other_plugin", GOOD.replace('"maze"', '"labyrinth"'))
    only = Registry.load(environ={"RLCORE_PLUGINS": "maze_plugin"})
    assert only.names("env") == ["maze"]
    by_distribution = Registry.load(environ={"RLCORE_PLUGINS": "other-maze"})
    assert by_distribution.names("env") == ["labyrinth"]
    blocked = Registry.load(environ={"RLCORE_BLOCK_PLUGINS": "maze_plugin"})
    assert "maze" not in blocked.names("env")
    assert "labyrinth" in blocked.names("env")


def test_core_stays_whatever_is_blocked_or_called_like_it(install):
    site = install("a-maze", "core", GOOD)  # before ours, by its name
    registry = Registry.load(environ={"RLCORE_BLOCK_PLUGINS": "core,rlcore"})
    assert "train" in registry.names("command") and "maze" not in registry.names("env")
    registry = Registry.load(environ={})
    assert "train" in registry.names("command") and site.is_dir()
    assert "core" in bad_rows(registry)["core"]


def test_every_hook_call_can_be_traced(install, capsys):
    install("their-maze", "maze_plugin", GOOD)
    Registry.load(environ={"RLCORE_TRACE_HOOKS": "1"})
    assert "rlcore_components" in capsys.readouterr().err


def test_an_unknown_name_lists_the_choices(install, refused):
    install("their-maze", "maze_plugin", GOOD)
    registry = Registry.load(environ={"RLCORE_PLUGINS": "maze_plugin"})
    with refused(PluginError, "env 'mase'", "'maze'", text=False):  # it names plugins left out
        registry.get("env", "mase")


def test_a_name_that_a_plugin_does_not_support_is_refused_with_its_reason(install, refused):
    lost = """unsupported=("maze_lost: it has no way out",), target="""
    install("their-maze", "maze_plugin", GOOD.replace("target=", lost))
    registry = Registry.load(environ={"RLCORE_PLUGINS": "maze_plugin"})
    with refused(PluginError, "env 'maze_lost'", "it has no way out", "rlcore train --help env"):
        registry.get("env", "maze_lost")
    with refused(PluginError, "model 'maze_lost'", text=False):
        registry.get("model", "maze_lost")


@pytest.mark.parametrize("kind", ["env", "model", "tracker"])
def test_a_broken_plugin_is_named_where_a_name_is_not_found(install, refused, kind):
    install("rlcore-env-maze", "maze_plugin", "import module_that_does_not_exist")
    named = ("'maze_plugin'", "rlcore-env-maze 1.0", "module_that_does_not_exist")
    registry = Registry.load(environ={})
    for name in ("maze", "slider"):  # as its distribution is called, and not
        with refused(PluginError, *named, text=False):  # it names the file
            registry.get(kind, name)


def test_plugins_that_are_left_out_are_named_where_a_name_is_not_found(install, refused):
    install("acme", "acme_plugin", GOOD)
    with refused(PluginError, "RLCORE_BLOCK_PLUGINS", "'acme_plugin'", text=False):
        Registry.load(environ={"RLCORE_BLOCK_PLUGINS": "acme"}).get("env", "maze")


@pytest.mark.parametrize("variable", ["RLCORE_BLOCK_PLUGINS", "RLCORE_PLUGINS"])
@pytest.mark.parametrize("blocked", ["maze_plugin", "rlcore-env-maze"])
def test_a_plugin_that_is_left_out_is_named(install, refused, variable, blocked):
    install("rlcore-env-maze", "maze_plugin", GOOD)
    chosen = blocked if variable == "RLCORE_BLOCK_PLUGINS" else "core"
    registry = Registry.load(environ={variable: chosen})
    with refused(PluginError, "env 'maze'", "'maze_plugin'", f"unset {variable}"):
        registry.get("env", "maze")


def test_doctor_asks_the_named_plugins_and_survives_a_failing_one(install):
    doctor = """
        from rlcore.contracts.hookspecs import hookimpl
        RLCORE_API = (0, 1)

        @hookimpl
        def rlcore_doctor(config):
            BODY
    """
    finding = '{"name": "gl", "detail": "no EGL"}'
    install("one", "doctor_one", doctor.replace("BODY", f"return [{finding}]"))
    install("two", "doctor_two", doctor.replace("BODY", "return 1 / 0"))
    registry = Registry.load(environ={"RLCORE_PLUGINS": "one,two"})
    gl = {"name": "gl", "status": "missing", "detail": "no EGL", "fix": ""}
    assert registry.doctor(None, {"doctor_one"}) == [gl]
    findings = {item["name"]: item["detail"] for item in registry.doctor(None)}
    assert findings.pop("gl") == "no EGL"
    failure = findings["doctor_two"]
    assert "ZeroDivisionError: division by zero" in failure and "doctor_two.py:" in failure


def test_the_versions_of_all_plugins_are_asked_for(install):
    text = """
        from rlcore.contracts.hookspecs import hookimpl
        from rlcore.contracts.specs import OtherInterpreter
        RLCORE_API = (0, 1)

        @hookimpl
        def rlcore_versions(envs):
            return [OtherInterpreter(side, "NAME", {}, {}) for side in envs]
    """
    for name in ("one", "two"):
        install(name, f"asked_{name}", text.replace("NAME", name))
    registry = Registry.load(environ={"RLCORE_PLUGINS": "one,two"})
    found = registry.versions({"train": None, "eval": None})
    asked = {(version.side, version.executable) for version in found}
    assert asked == {("eval", "one"), ("eval", "two"), ("train", "one"), ("train", "two")}


def test_load_target(refused):
    assert load_target("rlcore.contracts.errors:PluginError") is PluginError
    with refused(PluginError, "'PlugingError'", "'PluginError'"):
        load_target("rlcore.contracts.errors:PlugingError")
    with refused(PluginError, "'rlcore.nothing'"):
        load_target("rlcore.nothing:x")


@pytest.mark.parametrize(
    ("source", "failure"),
    [("def f(:", "SyntaxError"), ("int('x')", "ValueError: invalid"), ("exit(0)", "SystemExit")],
)
def test_a_module_that_fails_while_it_loads_is_named(
    tmp_path, monkeypatch, refused, source, failure
):
    (tmp_path / "broken_maze.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with refused(PluginError, "broken_maze:make", failure, text=False) as error:
        load_target("broken_maze:make")
    first, second, *_ = error.value.message.splitlines()
    assert failure in first and second.startswith("Traceback")


@pytest.mark.parametrize("name", ["pi0.5", "2d_env", "my-env", "a+b"])
def test_a_name_that_can_be_typed_will_do(name):
    assert problem_of(ComponentSpec("model", name, "a:b")) == ""
