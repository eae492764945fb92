"""The placement grammar: every rule by hand, every error by what it must say."""

from __future__ import annotations

import re

import pytest
import yaml

from rlcore.contracts.errors import PlacementError
from rlcore.placement.grammar import parse


def ranks(mapping, total, component, groups=None):
    """`[(process rank, resources), ...]` of a component."""
    placement = parse(mapping, total, groups)
    return [(p.rank, p.resources) for p in placement.processes[component]]


def env_only(value, total, groups=None):
    return ranks({"env": value, "rollout,actor": "all"}, total, "env", groups)


# -- the four published layouts -----------------------------------------------------------------


def one_each(first, last):
    """Process i on resource first + i."""
    return [(i, (rank,)) for i, rank in enumerate(range(first, last + 1))]


@pytest.mark.parametrize(
    ("mapping", "total", "env", "rollout", "actor"),
    [
        ({"env,rollout,actor": "all"}, 8, (0, 7), (0, 7), (0, 7)),
        ({"env": "0-3", "rollout": "4-7", "actor": "0-7"}, 8, (0, 3), (4, 7), (0, 7)),
        ({"env": "0-1", "rollout": "2-5", "actor": "6-7"}, 8, (0, 1), (2, 5), (6, 7)),
        ({"env": "0-7", "rollout": "8-15", "actor": "0-15"}, 16, (0, 7), (8, 15), (0, 15)),
        ({"env": "0-3", "rollout": "4-7", "actor": "8-15"}, 16, (0, 3), (4, 7), (8, 15)),
    ],
)
def test_published_layouts(mapping, total, env, rollout, actor):
    assert ranks(mapping, total, "env") == one_each(*env)
    assert ranks(mapping, total, "rollout") == one_each(*rollout)
    assert ranks(mapping, total, "actor") == one_each(*actor)


# -- parts --------------------------------------------------------------------------------------


def test_the_worked_example_of_the_grammar():
    # 4 processes on resources 0-1: two each. Three more on 3, 4, 5. Eight on 7-10: two each.
    assert env_only("0-1:0-3,3-5,7-10:7-14", 11) == [
        (0, (0,)), (1, (0,)), (2, (1,)), (3, (1,)),
        (4, (3,)), (5, (4,)), (6, (5,)),
        (7, (7,)), (8, (7,)), (9, (8,)), (10, (8,)), (11, (9,)), (12, (9,)), (13, (10,)),
        (14, (10,)),
    ]  # fmt: skip


def test_more_resources_than_processes():
    assert env_only("0-3:0-1", 4) == [(0, (0, 1)), (1, (2, 3))]
    assert env_only("all:0", 3) == [(0, (0, 1, 2))]


def test_more_processes_than_resources():
    assert env_only("1:0-2", 2) == [(0, (1,)), (1, (1,)), (2, (1,))]
    assert env_only("all:0-3", 2) == [(0, (0,)), (1, (0,)), (2, (1,)), (3, (1,))]


def test_processes_may_be_numbered_in_any_order():
    assert env_only("0:1,1:0", 2) == [(0, (1,)), (1, (0,))]
    # left out, the numbers go on from the greatest so far
    assert env_only("0:1,1:0,2", 3) == [(0, (1,)), (1, (0,)), (2, (2,))]


def test_a_yaml_int_is_a_rank():
    assert ranks(yaml.safe_load("{env: 0, rollout: 1, actor: 2}"), 3, "rollout") == [(0, (1,))]


def test_whitespace_is_trimmed():
    mapping = {" env , rollout": " 0 - 1 : 0 , 2 ", "actor": " all "}
    assert ranks(mapping, 3, "rollout") == [(0, (0, 1)), (1, (2,))]
    assert ranks(mapping, 3, "actor") == one_each(0, 2)


# -- node groups --------------------------------------------------------------------------------

GROUPS = {"big": [8, 9, 10, 11], "small": [0, 1]}


def test_ranks_count_within_a_node_group():
    entry = {"node_group": "big", "placement": "1-2"}
    assert env_only(entry, 12, GROUPS) == [(0, (9,)), (1, (10,))]


@pytest.mark.parametrize("labels", ["big, small", ["big", "small"]])
def test_several_groups_follow_one_another(labels):
    entry = {"node_group": labels, "placement": "3-4"}
    assert env_only(entry, 12, GROUPS) == [(0, (11,)), (1, (0,))]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"node_group": "bigg", "placement": 0},
            "node_group 'bigg'.*mean 'big'.*big, small",
        ),
        ({"node_group": "big,big", "placement": 0}, "overlap"),
        ({"node_group": "small", "placement": "0-2"}, r"env.*rank 2 is out of range.*0-1"),
        ({"group": "big", "placement": 0}, "keys node_group and placement, got group, placement"),
        ({"node_group": "big"}, "keys node_group and placement, got node_group"),
    ],
)
def test_bad_node_groups(entry, message):
    with pytest.raises(PlacementError, match=message):
        env_only(entry, 12, GROUPS)


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0-4", r"part '0-4': rank 4 is out of range; allowed: 0-3"),
        ("0,4", r"part '4' of '0,4': rank 4 is out of range"),
        (7, r"rank 7 is out of range; allowed: 0-3"),
        ("3-1", r"part '3-1': a range must ascend, got '3-1'; write 1-3"),
        ("0-2,1", r"part '1' of '0-2,1': resource ranks must ascend without repeats, but 1 .* 2"),
        ("2,0", r"must ascend without repeats, but 0 comes after 2"),
        ("1,1", r"but 1 comes after 1"),
        ("all,0", r"but 0 comes after 3"),
        ("All", r"ranks must be 'all', a number or a-b, got 'All'"),
        ("", r"got ''"),
        ("0,,1", r"part '' of '0,,1'"),
        ("-1", r"got '-1'"),
        ("0-1-2", r"got '0-1-2'"),
        ("0:all", r"a number or a-b after the colon, got 'all'"),
        ("0:", r"after the colon, got ''"),
        ("0-3:0-2", r"3 processes on 4 resources; one number must divide the other"),
        ("0-1:0-2", r"3 processes on 2 resources"),
        ("0:1", r"process ranks must be 0-0, each once, but 0 is missing"),
        ("0:0,1:2", r"must be 0-1, each once, but 1 is missing"),
        ("0:0,1:0", r"must be 0-1, each once, but 0 appears twice"),
        (0.5, r"must be ranks such as all.*got 0\.5"),
        (True, r"got True"),
        (None, r"got None"),
        ([0, 1], r"got \[0, 1\]"),
    ],
)
def test_a_bad_rank_map_says_which_part_and_what_is_allowed(value, message):
    with pytest.raises(PlacementError, match=message) as caught:
        env_only(value, 4)
    assert "cluster.component_placement.env" in caught.value.message


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"env": 0, "rollout": 0}, "component 'actor' is missing"),
        ({"env,rollout": 0, "rollout,actor": 0}, "component 'rollout' appears in 2 entries"),
        ({"env,env": 0, "rollout,actor": 0}, "component 'env' appears in 2 entries"),
        (
            {"env,rolout,actor": 0},
            "unknown component 'rolout'.*mean 'rollout'.*actor, env, rollout",
        ),
        ({"env,,actor": 0}, "unknown component ''"),
        ("env", "must map component names to ranks, got 'env'"),
        (None, "got None"),
        ({}, "component 'env' is missing"),
    ],
)
def test_a_bad_map_names_the_component(mapping, message):
    with pytest.raises(PlacementError, match=message):
        parse(mapping, 4)


def test_yaml_reads_an_unquoted_colon_in_base_60():
    mapping = yaml.safe_load("{env: 1:30, rollout: 0, actor: 0}")
    assert mapping["env"] == 90  # the trap itself
    with pytest.raises(PlacementError, match="rank 90 is out of range") as caught:
        parse(mapping, 16)
    assert caught.value.hint is not None
    assert re.search("write '1:30'", caught.value.hint)


def test_no_ranks_at_all():
    with pytest.raises(PlacementError, match="there are no ranks"):
        parse({"env,rollout,actor": "all"}, 0)
