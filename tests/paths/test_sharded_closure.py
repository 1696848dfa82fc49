"""The closure on eight host devices: the distances of one device, bit for bit."""

import numpy as np
import pytest
from host_devices import printed_on

from dpjax.paths import sharded_closure


def test_the_same_bits_on_eight_three_and_one_device():
    found = printed_on(8, "paths/sharded_on_devices.py")
    assert len(found) == 16
    assert all(found.values()), found


@pytest.mark.parametrize(
    ("lengths", "devices", "message"),
    [
        (np.zeros((2, 3)), None, "Give a square matrix"),
        (np.zeros((2, 2)), [], "Give at least one"),
        (np.array([[0.0, -1.0], [1.0, 0.0]]), None, "0 or more"),
        (np.array([[0.0, np.nan], [1.0, 0.0]]), None, "0 or more"),
    ],
)
def test_bad_input_is_refused(lengths, devices, message):
    with pytest.raises(ValueError, match=message):
        sharded_closure(lengths, devices)
