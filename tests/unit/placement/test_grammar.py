"""The placement grammar: every rule by hand, every error by its part and value."""

from __future__ import annotations

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
    ("entry", "words"),
    [
        ({"node_group": "bigg", "placement": 0}, ["'bigg'", "'big'", "small"]),
        ({"node_group": "big,big", "placement": 0}, ["big, big"]),
        ({"node_group": "small", "placement": "0-2"}, ["rank 2", "0-1"]),
        ({"group": "big", "placement": 0}, ["node_group", "group, placement"]),
        ({"node_group": "big"}, ["node_group", "placement"]),
    ],
    ids=["unknown", "overlapping", "out of range", "another key", "a key is missing"],
)
def test_invalid_node_groups_are_refused(refused, entry, words):
    with refused(PlacementError, "cluster.component_placement.env", *words):
        env_only(entry, 12, GROUPS)


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0-4", ["'0-4'", "rank 4", "0-3"]),
        ("0,4", ["'4' of '0,4'", "rank 4", "0-3"]),
        (7, ["rank 7", "0-3"]),
        ("3-1", ["'3-1'", "1-3"]),
        ("0-2,1", ["'1' of '0-2,1'", "1 comes after 2"]),
        ("1,1", ["1 comes after 1"]),
        ("all,0", ["0 comes after 3"]),
        ("All", ["'all'", "'All'"]),
        ("0,,1", ["'' of '0,,1'"]),
        ("0-1-2", ["'0-1-2'"]),
        ("0:all", ["'all'"]),
        ("0-3:0-2", ["3 processes", "4 resources"]),
        ("0-1:0-2", ["3 processes", "2 resources"]),
        ("0:1", ["0-0", "0 is missing"]),
        ("0:0,1:2", ["0-1", "1 is missing"]),
        ("0:0,1:0", ["0-1", "0 appears twice"]),
        (0.5, ["0.5"]),
        (True, ["True"]),
    ],
)
def test_an_invalid_rank_map_is_refused_with_its_part(refused, value, words):
    with refused(PlacementError, "cluster.component_placement.env", *words):
        env_only(value, 4)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"env": 0, "rollout": 0}, ["'actor'"]),
        ({"env,rollout": 0, "rollout,actor": 0}, ["'rollout'", 2]),
        ({"env,env": 0, "rollout,actor": 0}, ["'env'", 2]),
        ({"env,rolout,actor": 0}, ["'rolout'", "'rollout'", "actor, env, rollout"]),
        ("env", ["'env'"]),
    ],
    ids=["missing", "in two entries", "twice in an entry", "unknown", "no mapping"],
)
def test_an_invalid_mapping_is_refused_with_its_component(refused, mapping, words):
    with refused(PlacementError, "cluster.component_placement", *words):
        parse(mapping, 4)


def test_yaml_reads_an_unquoted_colon_in_base_60(refused):
    mapping = yaml.safe_load("{env: 1:30, rollout: 0, actor: 0}")
    assert mapping["env"] == 90  # the trap itself
    with refused(PlacementError, 90, "'1:30'"):
        parse(mapping, 16)


def test_a_placement_without_ranks_is_refused(refused):
    with refused(PlacementError):
        parse({"env,rollout,actor": "all"}, 0)
