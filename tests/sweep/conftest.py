"""What the sweep's tests share: the folder of the test workload on the path, and comparisons of stored values bit for bit."""

import functools
import pathlib
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from dpjax import sweep  # noqa: E402
from dpjax.sweep import blocks, planning  # noqa: E402

_compiled_once = functools.cache(blocks.Blocks)

AXES = {"mu": [-1.0, 0.0, 2.5], "sigma": [1.0, 3.0]}


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch):
    """Runs in this process share their executables, to save time; those in child processes compile their own."""
    monkeypatch.setattr(planning, "Blocks", _compiled_once)


@pytest.fixture
def config():
    """A config of six cells, 1,000 samples each in blocks of 64 (the last one partial), changed by keywords of [sweep]."""

    def make(**changes):
        table = {"samples": 1000, "seed": 3, "block": 64, "axes": AXES} | changes
        return sweep.from_table({"name": "test", "workload": "sweep_normals:build", "sweep": table})

    return make


@pytest.fixture
def stored():
    """Every number of a folder's results as bytes, by variable."""

    def read(directory):
        dataset = sweep.open(directory)
        return {name: np.asarray(dataset[name].values).tobytes() for name in dataset if name != "error"}

    return read
