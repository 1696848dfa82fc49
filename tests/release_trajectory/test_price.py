"""The price: from the chain alone, its shares the exact law's, its epsilons ones that keep what they say."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.release import StreamPlan, TrajectoryRelease, trajectory_statement
from dpjax.release.stream import TARGETS, PublicRun, epsilon_for
from dpjax.release.trajectory import STEPS
from dpjax.selection import permute_and_flip
from tests.release_trajectory.random_chains import P4, random_chain


def test_the_shares_are_those_of_the_exact_law():
    release = TrajectoryRelease(chain=random_chain(1, 6), epsilon=2, rho=1)
    run = PublicRun(release)
    clear = run.in_the_clear(release.epsilon)
    after = []
    for i, s in itertools.pairwise(run.walk):
        near = release.distances.candidates(i)
        law = permute_and_flip.law(release.distances.to(s)[near] / STEPS, float(release.epsilon / 2))
        after.append(law[near == s].sum())
    assert clear.after_a_match == pytest.approx(np.mean(after), rel=1e-9)
    assert 0 < clear.share <= clear.worst <= 1


@pytest.mark.statistical
def test_the_share_is_what_released_streams_show(below):
    """8,000 states of released streams of the same public run: within 6 standard errors, a right share fails with less than 1e-6."""
    release = TrajectoryRelease(chain=MarkovChain.from_matrix(P4), epsilon=6, rho=1)
    run = PublicRun(release)
    same = []
    for _ in range(16):
        private = run.walk[0]
        for s in run.walk[1:]:
            private = release.step(private, s, below)
            same.append(private == s)
    share, blocks = np.mean(same), np.reshape(same, (16, -1)).mean(axis=1)
    error = blocks.std(ddof=1) * np.sqrt(1 / 16 + 1)  # of the mean of 16 runs, and of the price's own single run
    assert abs(share - run.in_the_clear(release.epsilon).share) < 6 * error
    assert abs(share - run.in_the_clear(Fraction(0)).share) > 6 * error  # an unused stream has another share


@pytest.mark.parametrize("seed", range(3))
def test_an_epsilon_for_a_target_keeps_it(seed):
    release = TrajectoryRelease(chain=random_chain(seed, 8), epsilon=5, rho="0.7")
    for target in TARGETS:
        epsilon = epsilon_for(release, target, release.distances.extremes().largest)
        reply = trajectory_statement(TrajectoryRelease(chain=release.chain, epsilon=epsilon, rho="0.7")).fields
        assert 0.3 * target < reply["single_substitution_epsilon"] <= target


def test_the_price_is_a_function_of_the_chain_and_needs_no_stream(chain3, call, tmp_path):
    release = TrajectoryRelease(chain=chain3, epsilon=1, rho=3)
    lines = StreamPlan(release=release).price()
    assert lines == StreamPlan(release=TrajectoryRelease(chain=chain3, epsilon=1, rho=3)).price()
    assert [line.split()[:3] for line in lines[-1 - len(TARGETS) : -1]] == [["at", "most", str(target)] for target in TARGETS]
    code, out, errors = call(b"SECRET\n", "--price", "-o", tmp_path / "absent" / "out")
    assert (code, errors) == (0, "")
    assert out.decode().splitlines() == lines
    code, out, errors = call(b"A\n")
    assert code == 0
    assert "\n".join(lines) in errors


def test_a_chain_without_a_choice_has_a_price_too():
    release = TrajectoryRelease(chain=MarkovChain.from_matrix([[0.0, 1.0], [1.0, 0.0]]), epsilon=1, rho=1)
    assert any("100.0%" in line for line in StreamPlan(release=release).price())
