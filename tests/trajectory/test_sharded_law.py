"""The exact law on eight host devices against the host's own, to the last digits; another law is told apart."""

import numpy as np
import pytest
from host_devices import printed_on

from dpjax import MarkovChain
from dpjax.trajectory import TrajectoryMechanism, sharded_law


def test_the_law_of_one_device_on_eight_seven_and_one():
    said = printed_on(8, "trajectory/sharded_on_devices.py")
    assert len(said["found"]) == 12
    for case, (off, zeros) in said["found"].items():
        assert off < 1e-14, case
        assert zeros, case
    assert said["another epsilon"] > 1e-4  # power: an epsilon 0.05 % off is far outside


@pytest.mark.parametrize(
    ("v", "devices", "message"),
    [(1.0, None, "one-dimensional"), ([np.nan], None, "one-dimensional"), ([1.0], [], "Give at least one")],
)
def test_bad_input_is_refused(v, devices, message):
    m = TrajectoryMechanism(MarkovChain.from_matrix(np.array([[0.5, 0.5], [0.3, 0.7]])), epsilon=1.0, rho=1.0)
    with pytest.raises(ValueError, match=message):
        sharded_law(m, np.array([0, 1]), v, devices=devices)
