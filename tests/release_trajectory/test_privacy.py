"""The exact release's guarantee by brute force: every pair of trajectories, every output, at the whole-number distances."""

import itertools
import re
from fractions import Fraction

import jax
import mpmath
import numpy as np
import pytest
import scipy.stats

from dpjax.chains import MarkovChain
from dpjax.paths import shortest_paths
from dpjax.release import TrajectoryRelease, trajectory_statement
from dpjax.release.trajectory import STEPS, WholeLengthMechanism
from dpjax.selection import permute_and_flip
from dpjax.trajectory import pairwise_losses
from tests.release_trajectory.random_chains import P4, random_chain

STEPS_OF_TIME = 3
ROUND_OFF = 1e-11


def table(release):
    n = release.chain.n_states
    return np.stack([release.distances.to(s) for s in range(n)]).T


def step_law(release):
    """pi[s, i, o] of the exact law at the release's own whole-number gaps and rational scale."""
    D, n = table(release), release.chain.n_states
    law = np.zeros((n, n, n))
    for s, i in itertools.product(range(n), range(n)):
        near = release.distances.candidates(i)
        law[s, i, near] = permute_and_flip.law(D[near, s].astype(float), float(release.coin_scale))
    return law


def losses(law):
    """log P(o | w) - log P(o | v), its largest over outputs, for all pairs of s_1..s_n; s'_0 uniform."""
    n = len(law)
    words = list(itertools.product(range(n), repeat=STEPS_OF_TIME))
    logs = []
    for word in words:
        joint = np.full(n, 1 / n)
        for s in word:
            joint = joint[..., :, None] * law[s]
        logs.append(joint.reshape(-1))
    possible = logs[0] > 0
    logs = np.log(np.stack(logs)[:, possible])
    return np.array(words), np.stack([(row - logs).max(axis=1) for row in logs])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("base", ["e", "2"])
def test_no_pair_loses_more_than_its_whole_distance_promises(seed, base):
    release = TrajectoryRelease(chain=random_chain(seed, 3), epsilon=("0.3", "2", "1/3")[seed % 3], rho="1.7", log_base=base)
    words, found = losses(step_law(release))
    D = table(release)
    apart = sum((D + D.T)[words[:, [t]], words[:, t]] for t in range(STEPS_OF_TIME)) / (2 * STEPS)
    promised = float(release.epsilon / release.rho) * apart
    assert (found <= promised + ROUND_OFF).all()
    assert (found > 0.5 * promised)[apart > 0].any()  # the promise is not idle


def test_the_promise_is_attained_and_a_doubled_scale_breaks_it():
    chain = MarkovChain.from_matrix(P4)
    for factor, kept in ((1, True), (2, False)):
        release = TrajectoryRelease(chain=chain, epsilon=factor, rho=1)
        words, found = losses(step_law(release))
        D = table(release)
        apart = sum((D + D.T)[words[:, [t]], words[:, t]] for t in range(STEPS_OF_TIME)) / (2 * STEPS)
        assert bool((found <= apart + ROUND_OFF).all()) == kept
        if kept:
            assert np.max(found[apart > 0] / apart[apart > 0]) == pytest.approx(1.0, abs=1e-9)


def test_adjacent_under_the_papers_distances_is_adjacent_here():
    for seed in range(8):
        chain = random_chain(seed, 8)
        release = TrajectoryRelease(chain=chain, epsilon=1, rho=1)
        D, G = table(release), shortest_paths(chain)
        assert ((D + D.T) / (2 * STEPS) <= (G + G.T) / 2).all()


@pytest.mark.statistical
def test_steps_have_the_exact_law_and_not_that_of_another_target(below):
    """30,000 steps from one private state; a right law fails with probability 1e-6."""
    release = TrajectoryRelease(chain=random_chain(2, 6), epsilon=2, rho=1)
    law = step_law(release)
    private = int(np.argmax([len(release.distances.candidates(i)) for i in range(6)]))
    target, other = 0, 3
    seen = np.bincount([release.step(private, target, below) for _ in range(30_000)], minlength=6)
    near = release.distances.candidates(private)
    assert seen.sum() == seen[near].sum()
    assert scipy.stats.chisquare(seen[near], law[target, private, near] * seen.sum()).pvalue > 1e-6
    assert scipy.stats.chisquare(seen[near], law[other, private, near] * seen.sum()).pvalue < 1e-6


@pytest.mark.statistical
def test_the_first_state_has_the_chains_public_law(chain3, below):
    release = TrajectoryRelease(chain=chain3, epsilon=1, rho=1)
    seen = np.bincount([release.begin(None, below) for _ in range(30_000)], minlength=3)
    assert scipy.stats.chisquare(seen, chain3.initial_distribution * seen.sum()).pvalue > 1e-6
    assert scipy.stats.chisquare(seen, np.full(3, seen.sum() / 3)).pvalue < 1e-6
    assert {release.begin(2, below) for _ in range(20)} == {2}


def test_draws_do_not_depend_on_the_float_mode(chain3):
    """The same generator's numbers give the same states with JAX's 64-bit types on and off."""
    import random

    def run():
        release, generator = TrajectoryRelease(chain=chain3, epsilon="0.7", rho="2"), random.Random(5).randrange
        states = [release.begin(None, generator)]
        for s in np.random.default_rng(0).integers(0, 3, 300):
            states.append(release.step(states[-1], int(s), generator))
        return states, trajectory_statement(release).json()

    plain = run()
    with jax.enable_x64(True):
        assert run() == plain


def test_the_law_given_to_the_evaluations_is_the_release(chain3):
    release = TrajectoryRelease(chain=chain3, epsilon=1, rho=1)
    law = step_law(release)
    with np.errstate(divide="ignore"):
        logs = np.log(law)
    exact = np.array([[(logs[s] - logs[v]).max() for v in range(3)] for s in range(3)])
    np.testing.assert_allclose(pairwise_losses(WholeLengthMechanism(release)), exact, rtol=1e-9)
    mechanism = WholeLengthMechanism(release)
    D = table(release) / STEPS
    np.testing.assert_allclose(mechanism.loss_bounds(), (D + D.T) / 2, rtol=1e-12)


@pytest.mark.parametrize("bad", ["0", "-1", "nan", "inf", "1e400", "", "x", "1/0", float("nan"), True, None, "1e-13"])
@pytest.mark.parametrize("name", ["epsilon", "rho"])
def test_numbers_that_promise_nothing_are_refused(chain3, name, bad):
    with pytest.raises(ValueError, match=f"^{name} is "):
        TrajectoryRelease(**({"chain": chain3, "epsilon": 1, "rho": 1} | {name: bad}))


def test_numbers_are_taken_as_written(chain3):
    release = TrajectoryRelease(chain=chain3, epsilon="0.1", rho="1/3")
    assert release.coin_scale == Fraction(1, 10) / (2 * Fraction(1, 3) * 10**6)
    assert TrajectoryRelease(chain=chain3, epsilon=0.1, rho=1).epsilon == Fraction(0.1) != Fraction("0.1")


@pytest.mark.parametrize("start", [-1, 3])
def test_a_start_outside_the_chain_is_refused(chain3, start):
    with pytest.raises(ValueError, match="start is"):
        TrajectoryRelease(chain=chain3, epsilon=1, rho=1).begin(start)


NUMBER = r"([0-9.]+(?:e[-+]?[0-9]+)?)"
HEADLINE = re.compile(
    rf"One state replaced by another: epsilon {NUMBER}(?: \(the proved bound\))?, a factor of at most (?:{NUMBER}|e\^{NUMBER}) in the"
    r" probability of what is seen\. This is what protects a single state of the stream; m states replaced cost at most m times this epsilon\."
)
PROMISES = (
    re.compile(
        rf"Trajectories of the same length are adjacent when .+, summed over all times but the first, are at most rho = (\S+) nats"
        rf" \(Definition 4\)\. The probabilities of any event of the output under two adjacent trajectories differ by a factor of at"
        rf" most e\^{NUMBER}: pure {NUMBER}-differential privacy, delta 0\. This also covers trajectories with transitions that the chain does not"
        rf" have\."
    ),
    re.compile(rf"Replacing one state at one time by any other costs epsilon {NUMBER} at most \(.+\)\."),
    re.compile(
        rf"Trajectories further apart, by d nats in all, are protected less: they cost at most {NUMBER} d\. This holds at any length, for"
        r" each pair of trajectories; a person whose every state may change costs the sum over all times, which has no limit\."
    ),
    re.compile(
        rf"(?:Distinct states are {NUMBER} to {NUMBER} nats apart: adjacent trajectories differ in (?:any number of states|at most ([0-9]+)"
        rf" state\(s\)) after the first\.|WARNING: distinct states are farther apart than rho \(at least {NUMBER} nats\): adjacent trajectories"
        rf" differ in no state after the first, and epsilon = {NUMBER} promises nothing by itself\. Read the single-substitution epsilon instead\.)"
    ),
    re.compile(r"Each run on the same stream is a release of its own: their epsilons add\."),
)
STREAMS = [
    (MarkovChain.from_matrix(P4), "1", "1"),
    (MarkovChain.from_matrix(P4), "2", "1/3"),
    (random_chain(0, 3), "0.3", "1.7"),
    (random_chain(1, 3), "1.2345678", "6"),
    (random_chain(2, 3), "30", "4"),
]


@pytest.mark.parametrize(("chain", "epsilon", "rho"), STREAMS)
def test_every_sentence_of_the_statement_holds_by_exact_laws(chain, epsilon, rho):
    """Its words taken apart: one state, m states, adjacent trajectories, any distance; over all pairs of trajectories of three steps."""
    release = TrajectoryRelease(chain=chain, epsilon=epsilon, rho=rho)
    fields = trajectory_statement(release).fields
    words, found = losses(step_law(release))
    D = table(release)
    apart = sum((D + D.T)[words[:, [t]], words[:, t]] for t in range(STEPS_OF_TIME)) / (2 * STEPS)
    differ = (words[:, None] != words[None]).sum(axis=-1)
    adjacent = apart <= float(Fraction(rho))

    one, factor, power = HEADLINE.fullmatch(fields["headline"]).groups()
    assert found[differ == 1].max() <= float(one)
    assert float(one) == fields["single_substitution_epsilon"]
    assert power == one if factor is None else mpmath.mpf(factor) >= mpmath.exp(float(one))
    for m in (2, 3):
        assert found[differ == m].max() <= m * float(one)
    assert found[differ == 1].max() > 0.9 * float(one)

    said = [pattern.fullmatch(line) for pattern, line in zip(PROMISES, fields["promises"], strict=True)]
    assert all(said)
    assert Fraction(said[0][1]) == Fraction(rho) or said[0][1] == rho
    assert said[0][2] == said[0][3]
    assert Fraction(said[0][2]) >= Fraction(epsilon)
    assert found[adjacent].max() <= float(said[0][2]) + ROUND_OFF
    assert said[1][1] == one
    assert (found <= float(said[2][1]) * apart + ROUND_OFF).all()
    assert Fraction(said[2][1]) >= Fraction(epsilon) / Fraction(rho)
    near, far, most, least, again = said[3].groups()
    distinct = (D + D.T)[~np.eye(len(D), dtype=bool)] / (2 * STEPS)
    if near is None:
        assert fields["vacuous"]
        assert not (adjacent & (differ > 0)).any()
        assert Fraction(again) >= Fraction(epsilon)
        assert float(least) <= distinct.min()
    else:
        assert float(near) <= distinct.min() <= distinct.max() <= float(far)
        assert most is None or differ[adjacent].max() <= int(most)

    values = {claim["relation"]: claim for claim in fields["claims"]}
    assert (values["within rho"]["epsilon"], values["within rho"]["rho"]) == (float(said[0][2]), str(Fraction(rho)))
    assert values["one state replaced"]["epsilon"] == values["m states replaced"]["epsilon_a_state"] == float(one)
    assert values["any distance"]["epsilon_a_unit"] == float(said[2][1])
    for claim in values.values():
        assert claim["delta"] == 0
        assert claim.get("factor") is None or mpmath.mpf(claim["factor"]) >= mpmath.exp(claim["epsilon"])
