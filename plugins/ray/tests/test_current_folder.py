"""Workers of Ray import nothing that happens to lie in the current folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from rlcore_ray.cluster import without_current_folder


def test_a_path_without_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = os.pathsep.join(["", "/a", "sub", ""])
    expected = os.pathsep.join(["/a", str(tmp_path / "sub")])
    assert without_current_folder(paths) == expected
    assert without_current_folder("") == ""


CLUSTER = """
import json, os, sys
if sys.platform == "linux":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import ray
from rlcore.config.schema import ClusterConfig
from rlcore_ray.cluster import cluster_session

@ray.remote(num_cpus=0)
def look():
    import os, sys
    return os.getcwd(), sys.path

with cluster_session(ClusterConfig()):
    folder, path = ray.get(look.remote())
    import psutil
    address = ray.get_runtime_context().gcs_address
    cores = ray.cluster_resources()["CPU"]
    print(json.dumps([folder, path, address, "RAY_AUTH_TOKEN" in os.environ, cores]))
    sys.stdout.flush()
    sys.stdin.readline()
"""


@pytest.mark.long
def test_workers_of_ray_do_not_look_there_and_strangers_do_not_get_in(tmp_path, monkeypatch):
    """One cluster for both, as it takes seconds to start."""
    here = tmp_path / "here"
    here.mkdir()
    for name in ("json", "signal", "numpy", "rlcore", "ray", "sitecustomize"):
        (here / f"{name}.py").write_text("raise ImportError\n")
    monkeypatch.chdir(here)
    script = tmp_path / "script.py"
    script.write_text(CLUSTER)
    home = tmp_path / "home"
    home.mkdir()
    variables = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    driver = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=variables | {"HOME": str(home), "PYTHONPATH": "lib"},
    )
    assert driver.stdin is not None and driver.stdout is not None
    try:
        folder, path, address, has_token, cores = json.loads(driver.stdout.readline())
        assert folder == str(here) and str(here) not in path and "" not in path
        assert str(here / "lib") in path
        assert has_token and not (home / ".ray").exists()
        if sys.platform == "linux":
            assert cores == 1  # those that this process may use
        from ray._raylet import GcsClient  # what `ray.init` and Ray's own tools connect with
        from ray.exceptions import AuthenticationError

        with pytest.raises(AuthenticationError):
            GcsClient(address=address)
    finally:
        driver.communicate("\n", timeout=60)
    assert driver.returncode == 0
