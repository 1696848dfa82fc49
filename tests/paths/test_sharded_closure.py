"""The closure on eight host devices: the distances of one device, bit for bit."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from dpjax.paths import sharded_closure

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_same_bits_on_eight_three_and_one_device():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    script = str(ROOT / "tests" / "paths" / "sharded_on_devices.py")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 16
    assert all(found.values()), found


@pytest.mark.parametrize(
    ("lengths", "devices", "message"),
    [
        (np.zeros((2, 3)), None, "give a square matrix"),
        (np.zeros((2, 2)), [], "give at least one"),
        (np.array([[0.0, -1.0], [1.0, 0.0]]), None, "0 or more"),
        (np.array([[0.0, np.nan], [1.0, 0.0]]), None, "0 or more"),
    ],
)
def test_bad_input_is_refused(lengths, devices, message):
    with pytest.raises(ValueError, match=message):
        sharded_closure(lengths, devices)
