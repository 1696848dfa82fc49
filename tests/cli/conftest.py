"""The command in this process and in another, and a config of a workload that needs no data."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "tests" / "sweep"
sys.path.insert(0, str(WORKLOADS))

CONFIG = """
name = "normals"
workload = "sweep_normals:build"
[sweep]
samples = 40
block = 16
[sweep.axes]
mu = [0.0, 1.0, 2.0]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def process():
    """The command started in a process of its own."""

    def start(*arguments, code="import sys; from dpjax.cli import main; sys.exit(main())"):
        environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{WORKLOADS}"}
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)

    return start
