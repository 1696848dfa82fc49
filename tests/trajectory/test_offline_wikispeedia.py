"""The offline mechanism on the real web graph, beside Mechanism 1 at the same guarantee."""

import jax
import numpy as np
import pytest
import scipy.stats

from dpjax.chains import MarkovChain
from dpjax.datasets import read_wikispeedia
from dpjax.trajectory import OfflineMechanism, TrajectoryMechanism, exact_law, path_errors

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def web(shared_data):
    return MarkovChain.from_counts(read_wikispeedia(shared_data / "wikispeedia" / "paths_finished.tsv.gz").counts)


def trajectory(web, seed):
    """20 steps of the chain from its busiest article."""
    rng, path = np.random.default_rng(seed), [int(np.argmax(web.initial_distribution))]
    for _ in range(20):
        row = slice(web.matrix.indptr[path[-1]], web.matrix.indptr[path[-1] + 1])
        path.append(int(rng.choice(web.matrix.indices[row], p=web.matrix.data[row])))
    return np.array(path)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_error_is_under_a_tenth_of_mechanism_1s(web, seed):
    """At epsilon 3 and rho 1, a public start; figures on -s: mean V, entropy a step, P(max V > 4, 6, 8)."""
    word = trajectory(web, seed)
    laws = {
        "mechanism 1": exact_law(TrajectoryMechanism(web, epsilon=3.0, rho=1.0), word, word[0]),
        "mechanism 1, prior weight 1": exact_law(TrajectoryMechanism(web, epsilon=3.0, rho=1.0, prior_weight=1.0), word, word[0]),
        "offline, base weight 1": exact_law(OfflineMechanism(web, epsilon=3.0, rho=1.0, base_weight=1.0), word, word[0]),
        "offline, base weight 0": exact_law(OfflineMechanism(web, epsilon=3.0, rho=1.0), word, word[0]),
    }
    mean = {name: float(law.expected_error[1:].mean()) for name, law in laws.items()}
    for name, law in laws.items():
        print(f"\n{name:28} {mean[name]:.4f} {law.expected_entropy:.3f}", law.exceedance([4.0, 6.0, 8.0]), end="")
    assert web.n_states == 3817
    assert mean["offline, base weight 1"] < mean["mechanism 1"] / 10
    assert (laws["offline, base weight 1"].exceedance([4.0, 6.0, 8.0]) < laws["mechanism 1"].exceedance([4.0, 6.0, 8.0]) / 5).all()


@pytest.mark.statistical
def test_draws_lie_in_the_band_of_the_exact_tail_and_reject_a_wrong_epsilon(web):
    """20,000 draws; binomial tests at failure rate 1e-6 each; the tail at epsilon 2.7 falls outside."""
    word, draws, levels = trajectory(web, 0), 20_000, np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    m = OfflineMechanism(web, epsilon=3.0, rho=1.0, base_weight=1.0)
    with jax.enable_x64(True):
        paths = m.sample(jax.random.key(1), word, draws, start=word[0])
        largest = np.asarray(path_errors(m.graph.distances_to(word), paths)).max(axis=1)

    def smallest_p(law):
        tail = np.clip(law.exceedance(levels), 0.0, 1.0)
        return min(scipy.stats.binomtest(int((largest > v).sum()), draws, p).pvalue for v, p in zip(levels, tail, strict=True))

    assert smallest_p(exact_law(m, word, word[0])) > 1e-6
    assert smallest_p(exact_law(OfflineMechanism(web, epsilon=2.7, rho=1.0, base_weight=1.0), word, word[0])) < 1e-6
