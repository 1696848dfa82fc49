"""The real web graph: 3,817 states, largest out-degree 393."""

import gzip

import jax
import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from dpjax.chains import MarkovChain
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law, path_errors, protection

DRAWS = 10_000


@pytest.fixture(scope="module")
def web(shared_data):
    with gzip.open(shared_data / "wikispeedia" / "counts_scc3817.csv.gz", "rt") as lines:
        i, j, count = np.loadtxt(lines, delimiter=",", skiprows=1, dtype=np.int64).T
    return MarkovChain.from_counts(scipy.sparse.csr_array((count, (i, j)), shape=(3817, 3817)))


@pytest.fixture(scope="module")
def trajectory(web):
    rng, path = np.random.default_rng(0), [int(np.argmax(web.initial_distribution))]
    for _ in range(50):
        row = slice(web.matrix.indptr[path[-1]], web.matrix.indptr[path[-1] + 1])
        path.append(int(rng.choice(web.matrix.indices[row], p=web.matrix.data[row])))
    return np.array(path)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("which", "wrong"), [("mechanism 1", 3.3), ("mechanism 2", 6.0)])
def test_the_exact_tail_lies_in_the_band_of_the_draws(web, trajectory, which, wrong):
    """Two-sided exact binomial tests at 50 thresholds, failure rate 1e-6 each; the tail at a wrong epsilon falls outside.

    Mechanism 2 leaves this trajectory early at any epsilon near 3, and its tail hardly moves: its wrong epsilon is the double.
    """
    make = {
        "mechanism 1": lambda epsilon: TrajectoryMechanism(web, epsilon=epsilon, rho=1.0),
        "mechanism 2": lambda epsilon: ChenMechanism(web, epsilon=epsilon),
    }[which]
    m, start, thresholds = make(3.0), int(trajectory[0]), np.linspace(0.0, 14.0, 50)
    with jax.enable_x64(True):
        paths = m.sample(jax.random.key(0), trajectory, DRAWS, start=start)
        largest = np.asarray(path_errors(m.graph.distances_to(trajectory), paths)).max(axis=1)
    hits = [int((largest > v).sum()) for v in thresholds]

    def smallest_p(law):
        tail = np.clip(law.exceedance(thresholds), 0.0, 1.0)
        return min(scipy.stats.binomtest(k, DRAWS, p).pvalue for k, p in zip(hits, tail, strict=True))

    assert smallest_p(exact_law(m, trajectory, start=start)) > 1e-6
    assert smallest_p(exact_law(make(wrong), trajectory, start=start)) < 1e-6


@pytest.mark.slow
def test_all_pairs_are_too_many_and_the_report_says_so(web):
    report = protection(TrajectoryMechanism(web, epsilon=1.0, rho=1.0))
    assert not report.exact
    assert report.n_pairs == 3817 * 3816 // 2
    assert "proved bound" in str(report)
