"""The fit of a prior and what comes of it: gains on known tables, public tables, answers against direct solves, bad input."""

import jax
import numpy as np
import pytest

from dpjax.chains import stationary_distribution
from dpjax.estimate import Noise, NoisyCounts, answers, fit, floor, project, public_table
from dpjax.estimate.answers import hitting_times
from dpjax.paths import most_likely_path

SCALE = 4.0


def counts_of(seed, n=30, records=400.0):
    """Counts whose means are a product of a row's and a column's effect, most of them small."""
    rng = np.random.default_rng(seed)
    means = np.outer(rng.gamma(0.5, records, n) + 1, rng.dirichlet(np.full(n, 0.3)))
    means[np.diag_indices(n)] *= 4
    return rng.poisson(means).astype(float)


def noisy(counts, seed, support=None, labels=None):
    rng = np.random.default_rng(1000 + seed)
    q = -np.expm1(-1 / SCALE)
    noise = rng.geometric(q, counts.shape) - rng.geometric(q, counts.shape)
    noise = noise if support is None else np.where(support, noise, 0)
    return NoisyCounts(counts + noise, Noise("discrete-laplace", SCALE), support, labels)


def error(shares, counts):
    """Total variation of the rows, weighted by records."""
    own = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return float((counts.sum(axis=1) / counts.sum() * 0.5 * np.abs(shares - own).sum(axis=1)).sum())


@pytest.fixture(scope="module")
def fits():
    return [(counts, table, fit(table)) for counts, table in ((counts_of(s), noisy(counts_of(s), s)) for s in range(3))]


def test_the_estimate_beats_the_floor_by_a_quarter_and_the_projection(fits):
    for counts, table, estimate in fits:
        assert estimate.fitted is not None
        ours = error(estimate.shares, counts)
        assert ours < 0.75 * error(floor(table), counts)
        assert ours < 0.92 * error(project(table), counts)
        np.testing.assert_allclose(estimate.shares.sum(axis=1), 1.0, rtol=1e-12)
        assert (estimate.shares > 0).all()  # a row can always be left


def test_the_fit_says_how_it_went_and_is_the_same_again(fits):
    _, table, estimate = fits[0]
    steps = estimate.fitted.steps
    assert steps[0].terms == "rows, columns and self-loops"
    assert np.isnan(steps[0].gain)
    kept = [step for step in steps if not step.gain <= 0]  # the first has no gain
    assert estimate.fitted.terms == kept[-1].terms
    np.testing.assert_array_equal(estimate.shares, fit(table).shares)


def test_a_public_table_that_resembles_the_counts_helps_and_one_of_noise_does_not_harm():
    """Means with structure in every cell, which margins cannot explain and an earlier year shows."""
    rng = np.random.default_rng(9)
    means = np.outer(rng.gamma(0.5, 400.0, 30) + 1, rng.dirichlet(np.full(30, 0.3))) * rng.gamma(0.3, 1 / 0.3, (30, 30))
    counts, earlier = rng.poisson(means).astype(float), rng.poisson(3 * means).astype(float)
    table = noisy(counts, 1)
    alone, helped, useless = (fit(table, public=public) for public in ([], [earlier], [rng.gamma(1.0, 1.0, counts.shape)]))
    assert helped.fitted.weights[0] > 0.3, helped.fitted.steps
    assert error(helped.shares, counts) < 0.8 * error(alone.shares, counts)
    assert error(helped.shares, counts) < 0.75 * error(project(table), counts)
    assert error(useless.shares, counts) < 1.1 * error(alone.shares, counts)


def test_cells_outside_the_support_stay_empty():
    counts = counts_of(7)
    support = (counts > 0) | np.eye(len(counts), dtype=bool)
    table = noisy(counts, 7, support)
    estimate = fit(table, ranks=())
    assert (estimate.shares[~support] == 0).all()
    assert error(estimate.shares, counts) < error(project(table), counts) * 1.01


@pytest.mark.parametrize("shape", [(1, 5), (3, 4), (2, 2), (1, 1)])
def test_small_tables_are_fitted_too(shape):
    rng = np.random.default_rng(4)
    counts = rng.poisson(20.0, shape).astype(float)
    table = NoisyCounts(counts + rng.integers(-3, 4, shape), Noise("discrete-laplace", 2.0))
    estimate = fit(table)
    np.testing.assert_allclose(estimate.shares.sum(axis=1), 1.0, rtol=1e-12)
    assert np.abs(estimate.counts - table.counts).max() < 12


def test_nothing_but_noise_gives_rows_that_can_be_left():
    rng = np.random.default_rng(0)
    table = NoisyCounts(rng.integers(-6, 7, (6, 6)).astype(float), Noise("laplace", 3.0))
    shares = fit(table).shares
    assert np.isfinite(shares).all()
    assert (shares > 0).all()


def test_hitting_times_are_those_of_direct_solves_and_return_times_those_of_the_stationary_distribution():
    rng = np.random.default_rng(1)
    matrices = rng.gamma(0.3, 1.0, (40, 7, 7)) + 1e-4
    matrices /= matrices.sum(axis=2, keepdims=True)
    hit, back = hitting_times(matrices, 2, 5), hitting_times(matrices, 3, 3)
    with jax.enable_x64(True):
        pi = np.asarray(stationary_distribution(matrices))
    np.testing.assert_allclose(back, 1 / pi[:, 3], rtol=1e-8)
    for k in range(40):
        Q = np.delete(np.delete(matrices[k], 5, 0), 5, 1)
        assert hit[k] == pytest.approx(np.linalg.solve(np.eye(6) - Q, np.ones(6))[2], rel=1e-9)


def test_answers_carry_units_and_intervals_that_hold_their_mean(fits):
    table = fits[2][1]
    named = fit(NoisyCounts(table.counts, table.noise, labels=[f"zone {i}" for i in range(30)]), ranks=())
    of = ["stationary", "entropy", "hitting:zone 1:zone 2", "path:zone 3:zone 4", "shares", "mixing"]
    found = answers(named, jax.random.key(3), of, draws=60, level=0.8)
    for name in ("stationary", "entropy", "hitting_zone 1_zone 2", "path_zone 3_zone 4", "shares", "mixing"):
        low, mid, high = (found[name + suffix].values for suffix in ("_lower", "", "_upper"))
        assert (low <= high).all()
        assert np.isfinite(mid).all()
        assert found[name].attrs["units"]
    np.testing.assert_allclose(found.stationary.sum(), 1.0, rtol=1e-10)
    path = most_likely_path(named.matrix, 3, 4)
    assert len(found["path_zone 3_zone 4"].attrs["path"]) == len(path)
    again = answers(named, jax.random.key(3), ["stationary"], draws=60, level=0.8)
    np.testing.assert_array_equal(again.stationary_upper, found.stationary_upper)
    assert not np.array_equal(answers(named, jax.random.key(4), ["stationary"], draws=60).stationary, found.stationary)


@pytest.mark.statistical
def test_intervals_of_shares_cover_as_often_as_they_say_over_tables_of_the_prior():
    """Twelve tables with the same means, each released once: 90 % intervals of shares of 8 records and more."""
    rng = np.random.default_rng(11)
    means = np.outer(rng.gamma(0.5, 400.0, 30) + 1, rng.dirichlet(np.full(30, 0.3)))
    shares, cells = 0, 0
    for release in range(12):
        counts = rng.poisson(means).astype(float)
        found = answers(fit(noisy(counts, 50 + release), ranks=()), jax.random.key(release), ["shares"], draws=400)
        own, seen = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), counts >= 8
        inside = (own >= found.shares_lower.values) & (own <= found.shares_upper.values)
        shares, cells = shares + int(inside[seen].sum()), cells + int(seen.sum())
    assert cells > 1000
    assert 0.85 < shares / cells < 0.96  # intervals of half the width would cover about 59 %


def test_a_table_of_few_cells_takes_its_public_table_and_a_ring_of_one_way_is_refused_for_times():
    counts = np.array([[40.0, 3, 9], [2, 30, 1], [5, 5, 20]])
    found = fit(NoisyCounts(counts, Noise("laplace", 2.0)), public=[counts + 1])
    assert found.fitted.weights[0] > 0.1
    one_way = np.triu(np.ones((3, 3), bool))
    closed = fit(NoisyCounts(np.where(one_way, counts, 0), Noise("laplace", 2.0), one_way))
    with pytest.raises(ValueError, match="does not let every state be reached"):
        answers(closed, jax.random.key(0), ["stationary"])
    assert answers(closed, jax.random.key(0), ["shares"], draws=20).shares.shape == (3, 3)


def test_questions_that_would_share_a_name_are_refused():
    table = NoisyCounts(np.full((4, 4), 9.0), Noise("laplace", 2.0), labels=["a", "b_c", "a_b", "c"])
    found = fit(table)
    for of in (["hitting:a:b_c", "hitting:a_b:c"], ["entropy", "entropy"]):
        with pytest.raises(ValueError, match="twice"):
            answers(found, jax.random.key(0), of)
    colons = fit(NoisyCounts(np.full((4, 4), 9.0), Noise("laplace", 2.0), labels=["a", "b:c", "a:b", "c"]))
    with pytest.raises(ValueError, match="two ways"):
        answers(colons, jax.random.key(0), ["hitting:a:b:c"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"counts": np.zeros((2, 2)), "noise": ("uniform", 1.0)}, "noise"),
        ({"counts": np.zeros((2, 2)), "noise": ("laplace", 0.0)}, "scale"),
        ({"counts": np.zeros((2, 2)), "noise": ("laplace", float("nan"))}, "scale"),
        ({"counts": [[0.5, 1.0]], "noise": ("discrete-laplace", 1.0)}, "not whole"),
        ({"counts": [[np.inf, 1.0]], "noise": ("laplace", 1.0)}, "finite"),
        ({"counts": [[1e300, 1.0]], "noise": ("laplace", 1.0)}, "2\\^53"),
        ({"counts": [1.0, 2.0], "noise": ("laplace", 1.0)}, "shape"),
        ({"counts": [[3.0, 1.0]], "noise": ("laplace", 1.0), "support": np.array([[False, True]])}, "leaves out the cell"),
        ({"counts": [[0.0, 0.0]], "noise": ("laplace", 1.0), "support": np.array([[False, False]])}, "no cell in row"),
        ({"counts": [[0.0, 0.0]], "noise": ("laplace", 1.0), "support": np.ones((2, 2), bool)}, "support has the shape"),
        ({"counts": np.zeros((2, 2)), "noise": ("laplace", 1.0), "labels": ["a", "a"]}, "twice"),
        ({"counts": np.zeros((2, 2)), "noise": ("laplace", 1.0), "labels": ["a"]}, "labels"),
    ],
)
def test_bad_tables_are_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        NoisyCounts(**{**arguments, "noise": Noise(*arguments["noise"])})


def test_bad_questions_and_public_tables_are_refused(fits):
    _, table, estimate = fits[0]
    key = jax.random.key(0)
    for of, says in [
        (["median"], "unknown question"),
        (["hitting:1"], "unknown question"),
        (["hitting:1:99"], "99"),
        (["path:1:1"], "itself"),
        ("stationary", "is a text"),
    ]:
        with pytest.raises(ValueError, match=says):
            answers(estimate, key, of)
    with pytest.raises(ValueError, match="draws"):
        answers(estimate, key, draws=3)
    with pytest.raises(ValueError, match="level"):
        answers(estimate, key, level=1.0)
    with pytest.raises(ValueError, match="shape"):
        public_table(np.ones((2, 2)), table)
    with pytest.raises(ValueError, match="below 0"):
        public_table(-np.ones((30, 30)), table)
