"""The protocol of the published table: its columns, and what stands in each."""

from __future__ import annotations

from rlcore_env_maniskill.protocol import OOD
from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.spec import env_spec


def test_columns_and_variants_are_those_of_the_published_table():
    columns = ["Training setting (IND)", "Vision", "Semantic", "Execution"]
    assert list(OOD.groups) == columns
    assert [len(OOD.groups[column]) for column in columns] == [1, 5, 5, 3]
    assert dict(OOD.averages) == {"Average of OOD": tuple(columns[1:])}
    assert list(OOD.groups["Execution"]) == [
        f"PutOnPlateInScene25{change}-v1" for change in ("Position", "EEPose", "PositionChangeTo")
    ]


def test_a_row_is_one_task_of_eighty_steps():
    for rows in OOD.groups.values():
        for name, changes in rows.items():
            spec = env_spec(ManiSkillConfig(**changes))
            assert (spec.tasks, spec.max_episode_steps) == ((name,), 80)
