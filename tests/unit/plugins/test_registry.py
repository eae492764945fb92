"""Finding, loading, blaming and looking up plugins."""

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
    ("source", "reason"),
    [
        ("import module_that_does_not_exist", "No module named 'module_that_does_not_exist'"),
        ("import module_that_does_not_exist", "bad_plugin.py:1)"),
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
        ("X = 1", "has no RLCORE_API = (major, minor), found None"),
        ("RLCORE_API = '0.1'", "found '0.1'"),
        (
            "RLCORE_API = (0, 0)",  # while the major number is 0, minor ones must be equal
            "asks for plugin API 0.0, this rlcore offers 0.1: pip install --upgrade bad-one",
        ),
        (
            "RLCORE_API = (0, 2)",
            "asks for plugin API 0.2, this rlcore offers 0.1: pip install --upgrade rlcore",
        ),
        ("RLCORE_API = (1, 0)", "asks for plugin API 1.0, this rlcore offers 0.1"),
        (
            GOOD.replace("rlcore_components", "rlcore_component"),
            "unknown hook rlcore_component. Did you mean 'rlcore_components'?",
        ),
        (
            GOOD + "\n    @hookimpl\n    def rlcore_after_rolout(run): pass",
            "unknown hook rlcore_after_rolout. Did you mean 'rlcore_after_rollout'?",
        ),
        (
            GOOD + "\n    @hookimpl(wrapper=True)\n    def rlcore_after_rollout(run): yield",
            "rlcore_after_rollout is a hook wrapper, which is never called",
        ),
        (GOOD.replace("return [", "return 3 or ["), "must return a list, got int"),
        (GOOD.replace("return [", "[", 1), "rlcore_components must return a list, got NoneType"),
        (
            GOOD + "\n    def rlcore_after_rollout(run): pass",
            "rlcore_after_rollout is not marked: write @rlcore.hookimpl above it",
        ),
        (GOOD.replace("return [", "raise ValueError('boom'); return ["), "ValueError: boom"),
        (GOOD.replace("_components()", "_components(nonsense)"), "nonsense"),
    ],
)
def test_a_bad_plugin_is_a_row_with_the_reason_and_the_others_work(install, source, reason):
    install("bad-one", "bad_plugin", source)
    registry = Registry.load(environ={})
    assert reason in bad_rows(registry)["bad_plugin"]
    assert registry.get("command", "train").distribution == "rlcore"


@pytest.mark.parametrize(
    ("component", "row", "reason"),
    [
        (
            "ComponentSpec('env', 'maze', len)",
            ("env", "maze"),
            "target of a component must be a string, got builtin_function_or_method",
        ),
        (
            "ComponentSpec('env', 'maze', 'maze_impl')",
            ("env", "maze"),
            "target must read 'module:attr', got 'maze_impl'",
        ),
        (
            "ComponentSpec('env', 'my maze', 'a:b')",
            ("env", "my maze"),
            "a name consists of letters, digits, _ . + and -, got 'my maze'",
        ),
        (
            "ComponentSpec('enviro', 'maze', 'a:b')",
            ("component", "maze"),
            "kind must be one of env, model, algorithm, placement, backend, dataset, tracker, "
            "protocol, command, wrapper, got 'enviro'. Did you mean 'env'?",
        ),
        (
            "ComponentSpec(['env'], 'maze', 'a:b')",
            ("component", "maze"),
            "kind of a component must be a string, got list",
        ),
        (
            "ComponentSpec('env', 'maze', 'a:b', packages='numpy')",
            ("env", "maze"),
            "packages of a component must be a tuple of strings, got 'numpy'",
        ),
        (
            "ComponentSpec('command', '-x', 'a:b')",
            ("command", "-x"),
            "a name consists of letters, digits, _ . + and -, got '-x'",
        ),
        (
            "{'name': 'maze'}",
            ("plugin", "half_bad"),
            "rlcore_components listed a dict, not a ComponentSpec",
        ),
    ],
)
def test_a_bad_component_is_a_row_and_its_siblings_work(install, component, row, reason):
    source = GOOD.replace("return [", f"return [{component}, ").replace('"maze"', '"maze2"')
    install("half-bad", "half_bad", source)
    registry = Registry.load(environ={})
    (bad,) = [row for row in registry.rows() if row.status == "BAD"]
    assert (bad.kind, bad.name) == row
    assert bad.reason == reason
    assert registry.get("env", "maze2").distribution == "half-bad"


def test_two_claims_name_both_and_spare_the_rest(install):
    install("maze-a", "plugin_a", GOOD, version="1.0")
    install("maze-b", "plugin_b", GOOD, version="2.0")
    registry = Registry.load(environ={})
    with pytest.raises(PluginError, match=r"claimed by maze-a 1.0 and maze-b 2.0"):
        registry.get("env", "maze")
    rows = [row for row in registry.rows() if row.name == "maze"]
    assert [row.status for row in rows] == ["BAD", "BAD"]
    assert "maze-a 1.0 and maze-b 2.0" in rows[0].reason
    assert registry.get("env", "toy").spec.name == "toy"


@pytest.mark.parametrize(("distribution", "name"), [("a-maze", "a_maze"), ("zz", "testing")])
def test_of_two_claims_ours_stays(install, distribution, name):
    """Whether the other one comes before it by its name, or is called as its plugin is."""
    theirs = GOOD.replace('"maze"', '"toy"').replace("maze_impl", "theirs")
    install(distribution, name, theirs)
    registry = Registry.load(environ={})
    if name == "testing":
        reason = bad_rows(registry)[name]
        assert reason.endswith("has the name 'testing': remove one of them, or set "
                               "RLCORE_BLOCK_PLUGINS=zz")  # fmt: skip
    else:
        with pytest.raises(PluginError, match=r"by rlcore-testing \S+ and a-maze") as caught:
            registry.get("env", "toy")
        assert caught.value.hint == "remove one of them, or set RLCORE_BLOCK_PLUGINS=a-maze"
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


def test_an_unknown_name_lists_the_choices(install):
    install("their-maze", "maze_plugin", GOOD)
    registry = Registry.load(environ={"RLCORE_PLUGINS": "maze_plugin"})
    with pytest.raises(
        PluginError, match=r"no env 'mase'\. Did you mean 'maze'\? Choose from: maze"
    ):
        registry.get("env", "mase")


def test_a_name_that_a_plugin_does_not_support_is_refused_with_its_reason(install):
    lost = """unsupported=("maze_lost: it has no way out",), target="""
    install("their-maze", "maze_plugin", GOOD.replace("target=", lost))
    registry = Registry.load(environ={"RLCORE_PLUGINS": "maze_plugin"})
    with pytest.raises(PluginError) as caught:
        registry.get("env", "maze_lost")
    assert caught.value.message == "env 'maze_lost' is not supported: it has no way out"
    assert caught.value.hint == "rlcore train --help env"
    with pytest.raises(PluginError, match="there is no model 'maze_lost'"):
        registry.get("model", "maze_lost")


def test_a_broken_plugin_is_named_when_its_component_is_asked_for(install):
    install("rlcore-env-maze", "maze_plugin", "import module_that_does_not_exist")
    registry = Registry.load(environ={})
    with pytest.raises(PluginError, match=r"'maze_plugin' .*rlcore-env-maze 1.0.* is BAD.*module_"):
        registry.get("env", "maze")


@pytest.mark.parametrize("kind", ["env", "model", "tracker"])
def test_a_broken_plugin_is_named_where_a_name_is_not_found(install, kind):
    install("acme", "acme_plugin", "import module_that_does_not_exist")
    with pytest.raises(PluginError, match=r"'slider'.*'acme_plugin' \(acme 1.0\) is BAD.*module_"):
        Registry.load(environ={}).get(kind, "slider")


def test_plugins_that_are_left_out_are_named_where_a_name_is_not_found(install):
    install("acme", "acme_plugin", GOOD)
    with pytest.raises(PluginError) as caught:
        Registry.load(environ={"RLCORE_BLOCK_PLUGINS": "acme"}).get("env", "maze")
    assert caught.value.message.endswith(
        "It may belong to a plugin not loaded (rlcore doctor): RLCORE_BLOCK_PLUGINS leaves out "
        "'acme_plugin'"
    )


@pytest.mark.parametrize("variable", ["RLCORE_BLOCK_PLUGINS", "RLCORE_PLUGINS"])
@pytest.mark.parametrize("named", ["maze_plugin", "rlcore-env-maze"])
def test_a_plugin_that_is_left_out_is_named(install, variable, named):
    install("rlcore-env-maze", "maze_plugin", GOOD)
    chosen = named if variable == "RLCORE_BLOCK_PLUGINS" else "core"
    with pytest.raises(PluginError) as caught:
        Registry.load(environ={variable: chosen}).get("env", "maze")
    assert caught.value.message == (
        f"env 'maze' can't be used: {variable} leaves out plugin 'maze_plugin' (rlcore-env-maze)"
    )
    assert caught.value.hint == f"unset {variable}"


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
    said = "its doctor failed: ZeroDivisionError: division by zero "
    assert findings["doctor_two"].startswith(said) and "doctor_two.py:" in findings["doctor_two"]


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
    assert sorted((one.side, one.executable) for one in found) == [
        ("eval", "one"), ("eval", "two"), ("train", "one"), ("train", "two"),
    ]  # fmt: skip


def test_load_target():
    assert load_target("rlcore.contracts.errors:PluginError") is PluginError
    with pytest.raises(PluginError, match=r"no 'PlugingError'. Did you mean 'PluginError'"):
        load_target("rlcore.contracts.errors:PlugingError")
    with pytest.raises(PluginError, match=r"No module named 'rlcore.nothing'"):
        load_target("rlcore.nothing:x")


@pytest.mark.parametrize(
    ("source", "said"),
    [("def f(:", "SyntaxError"), ("int('x')", "ValueError: invalid"), ("exit(0)", "SystemExit")],
)
def test_a_module_that_fails_while_it_loads_is_named(tmp_path, monkeypatch, source, said):
    (tmp_path / "broken_maze.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError) as caught:
        load_target("broken_maze:make")
    message = caught.value.message
    first, second, *_ = message.splitlines()
    assert first.startswith(f"broken_maze:make can't be loaded: {said}")
    assert second.startswith("Traceback")


@pytest.mark.parametrize("name", ["pi0.5", "2d_env", "my-env", "a+b"])
def test_a_name_that_can_be_typed_will_do(name):
    assert problem_of(ComponentSpec("model", name, "a:b")) == ""
