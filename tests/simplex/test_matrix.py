import jax
import numpy as np
import pytest

from dpjax import DirichletMechanism
from dpjax.simplex import MatrixMechanism, PublicRows, exact, row_report
from dpjax.simplex.rows import smallest_shares

# rows: ordinary; one record in each of two categories; one category; two equal shares; a rare cell; a single-digit cell
COUNTS = np.array(
    [[500, 300, 200, 0], [1, 1, 0, 0], [0, 7, 0, 0], [50, 50, 0, 0], [400, 300, 100, 10], [3, 0, 20, 40]], dtype=float
)
P = COUNTS / COUNTS.sum(axis=1, keepdims=True)


@pytest.fixture
def rows():
    return PublicRows.from_counts(COUNTS, support="observed", eta="smallest share")


@pytest.fixture
def two_rows():
    return PublicRows(n_records=np.array([200.0, 60.0]), support=np.ones((2, 3), bool), eta=np.array([0.1, 0.15]))


def alone(rows, i, k, gamma=None):
    return DirichletMechanism(
        k=k, eta=float(rows.eta[i]), n_records=float(rows.n_records[i]), n_categories=int(rows.n_categories[i]), gamma=gamma
    )


def test_the_support_is_declared_or_said_to_be_observed(rows, two_rows):
    assert "support: observed in the data, treated as public by the user's declaration" in rows.statement
    assert "support: declared public by the user" in two_rows.statement
    with pytest.raises(TypeError):
        PublicRows.from_counts(COUNTS, eta=0.01)


def test_joint_curve_is_the_maximum_over_rows_at_one_epsilon(two_rows):
    m = MatrixMechanism(rows=two_rows, k=np.array([40.0, 12.0]), gamma=1e-3)
    single = [alone(two_rows, i, k, 1e-3) for i, k in enumerate((40.0, 12.0))]
    epsilon = np.linspace(0, 2, 9)
    np.testing.assert_allclose(m.exact_delta(epsilon), np.max([s.exact_delta(epsilon) for s in single], axis=0), rtol=1e-13)
    np.testing.assert_allclose(m.exact_epsilon(1e-4), max(s.exact_epsilon(1e-4) for s in single), rtol=1e-12)
    assert m.epsilon == max(s.epsilon for s in single)
    assert m.delta == max(s.delta for s in single)


def test_parallel_composition_is_not_worse_than_its_worst_row(two_rows):
    # one record of row 0 moves; the second row is an independent factor, the same under both: the joint law's delta is row 0's
    rng = np.random.default_rng(5)
    k, h, epsilon, n = 40.0, 40.0 / 200, 0.2, 200_000
    shares = np.array([0.105, 0.1, 0.795])
    first = rng.dirichlet(k * shares, n)
    second = rng.dirichlet(12.0 * np.array([0.2, 0.3, 0.5]), n)
    other = 12.0 * np.array([0.2, 0.3, 0.5]) - 1
    log_one = np.log(first) @ (k * shares - 1) + np.log(second) @ other
    log_two = np.log(first) @ (k * shares[[1, 0, 2]] - 1) + np.log(second) @ other
    np.testing.assert_allclose(log_one - log_two, h * np.log(first[:, 0] / first[:, 1]), rtol=1e-6, atol=1e-9)
    excess = -np.expm1(np.minimum(epsilon - (log_one - log_two), 0.0))
    claim = alone(two_rows, 0, k).exact_delta(epsilon)
    assert abs(excess.mean() - claim) < 5 * excess.std() / np.sqrt(n)


def test_every_row_gets_the_largest_k(two_rows):
    m = MatrixMechanism.calibrate(rows=two_rows, epsilon=1.0, delta=1e-3)
    for i in range(2):
        public = {"eta": two_rows.eta[i], "n_records": two_rows.n_records[i], "n_categories": 3}
        np.testing.assert_allclose(m.k[i], DirichletMechanism.calibrate(epsilon=1.0, delta=1e-3, **public).k, rtol=1e-12)
        np.testing.assert_allclose(alone(two_rows, i, float(m.k[i])).exact_delta(1.0), 1e-3, rtol=1e-9)
    assert m.exact_delta(1.0) <= 1e-3


def test_calibration_by_theorem_1(two_rows):
    m = MatrixMechanism.calibrate(rows=two_rows, epsilon=2.0, delta=0.02, accounting="theorem1")
    assert m.epsilon <= 2.0
    assert m.delta <= 0.02
    assert (m.k >= two_rows.k_min).all()
    assert m.exact_epsilon(0.02) < 1.0


def test_hostile_rows_are_reported_in_words(rows):
    report = row_report(rows, epsilon=1.0, delta=1e-3, gamma=1e-3)
    np.testing.assert_array_equal(report.exact_reachable, [True, False, True, False, True, False])
    np.testing.assert_array_equal(report.theorem1_reachable, [True, False, True, False, False, False])
    for i in (1, 3):
        assert "no adjacent count vector" in report.reason_exact[i]
        assert report.exact_delta[i] == 1
        assert report.epsilon[i] == np.inf
    assert "public constant" in report.reason_exact[2]
    assert report.epsilon[2] == report.delta[2] == report.exact_delta[2] == 0
    assert "N eta = 3" in report.reason_exact[5]
    np.testing.assert_allclose(report.delta_floor[5], np.exp(-3) / 7, rtol=1e-9)
    assert report.reason_exact[4] == ""
    np.testing.assert_allclose(report.k, report.k_min)


def test_withheld_rows_are_uniform_and_cost_nothing(rows):
    m = MatrixMechanism.calibrate(rows=rows, epsilon=1.0, delta=1e-3, unreachable="withhold")
    np.testing.assert_array_equal(m.withheld, [False, True, False, True, False, True])
    assert m.exact_delta(1.0) <= 1e-3
    drawn = np.asarray(m.privatize(jax.random.key(0), P))
    np.testing.assert_allclose(drawn[5], [1 / 3, 0, 1 / 3, 1 / 3], rtol=1e-6)
    np.testing.assert_array_equal(drawn[2], [0, 1, 0, 0])
    np.testing.assert_array_equal(drawn == 0, ~rows.support)
    np.testing.assert_allclose(drawn.sum(axis=1), 1, rtol=1e-6)
    assert "withheld" in m.report(1.0, 1e-3).reason_exact[5]


def test_a_lower_public_floor_makes_a_hostile_row_possible():
    declared = PublicRows(n_records=np.array([100.0]), support=np.ones((1, 2), bool), eta=np.array([0.2]))
    m = MatrixMechanism.calibrate(rows=declared, epsilon=1.0, delta=1e-3)
    m.privatize(jax.random.key(0), np.array([[0.5, 0.5]]))


def test_all_rows_constant():
    rows = PublicRows(n_records=np.array([5.0, 0.0]), support=np.eye(2, dtype=bool), eta=np.array([1.0, 1.0]))
    m = MatrixMechanism(rows=rows, k=1.0)
    assert m.exact_delta(0.5) == 0
    assert m.exact_epsilon(1e-5) == 0
    np.testing.assert_array_equal(m.privatize(jax.random.key(0), np.eye(2)), np.eye(2))


def test_draws_are_numbered(rows):
    m = MatrixMechanism.calibrate(rows=rows, epsilon=1.0, delta=1e-3, unreachable="withhold")
    key = jax.random.key(7)
    whole = np.asarray(m.draws(key, P, 6))
    assert whole.shape == (6, 6, 4)
    np.testing.assert_array_equal(whole[4:], m.draws(key, P, 2, first=4))
    np.testing.assert_array_equal(whole[0], m.privatize(key, P))
    traced = jax.jit(m.privatize)(key, jax.numpy.asarray(P, jax.numpy.float32))
    np.testing.assert_allclose(traced, whole[0], rtol=1e-5)


@pytest.mark.statistical
def test_rows_have_the_law_of_their_own_k(two_rows):
    # variance p(1-p)/(k+1) of each entry: six cells within 5 % at 40,000 draws (over six standard errors); a k 15 % off is not
    m = MatrixMechanism(rows=two_rows, k=np.array([40.0, 15.0]))
    matrix = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    x = np.asarray(m.draws(jax.random.key(3), matrix, 40_000))
    ratio = x.var(axis=0) / (matrix * (1 - matrix) / (np.array([[40.0], [15.0]]) + 1))
    assert (np.abs(ratio - 1) < 0.05).all()
    assert (np.abs(ratio * (np.array([[46.0], [17.25]]) + 1) / (np.array([[40.0], [15.0]]) + 1) - 1) > 0.05).all()


def test_bad_input(rows, two_rows):
    with pytest.raises(ValueError, match=r"Rows \[1, 3, 5\] \(3 of 6\) cannot meet it"):
        MatrixMechanism.calibrate(rows=rows, epsilon=1.0, delta=1e-3)
    with pytest.raises(ValueError, match=r"'\[1, 3\]'.*no adjacent"):
        MatrixMechanism(rows=rows, k=10.0).exact_delta(1.0)
    with pytest.raises(ValueError, match="gamma is not given"):
        _ = MatrixMechanism(rows=two_rows, k=40.0).epsilon
    with pytest.raises(ValueError, match="Assumption 4"):
        _ = MatrixMechanism(rows=two_rows, k=1.0, gamma=1e-3).epsilon
    with pytest.raises(ValueError, match="Assumption 2"):
        MatrixMechanism(rows=two_rows, k=40.0, gamma=0.4)
    m = MatrixMechanism(rows=two_rows, k=40.0)
    with pytest.raises(ValueError, match="Its shape must equal"):
        m.privatize(jax.random.key(0), np.ones((3, 3)) / 3)
    with pytest.raises(ValueError, match="smallest share"):
        m.privatize(jax.random.key(0), np.array([[0.05, 0.05, 0.9], [0.2, 0.2, 0.6]]))
    hollow = PublicRows(n_records=np.array([200.0]), support=np.array([[True, True, False]]), eta=np.array([0.1]))
    with pytest.raises(ValueError, match="outside the declared support"):
        MatrixMechanism(rows=hollow, k=40.0).privatize(jax.random.key(0), np.array([[0.3, 0.3, 0.4]]))


def test_bad_rows():
    with pytest.raises(ValueError, match="no supported category"):
        PublicRows(n_records=np.array([5.0]), support=np.zeros((1, 3), bool), eta=np.array([0.1]))
    with pytest.raises(ValueError, match="fewer than one record"):
        PublicRows(n_records=np.array([0.0]), support=np.ones((1, 3), bool), eta=np.array([0.1]))
    with pytest.raises(ValueError, match="cannot sum to one"):
        PublicRows(n_records=np.array([5.0]), support=np.ones((1, 3), bool), eta=np.array([0.4]))
    with pytest.raises(ValueError, match="no record"):
        smallest_shares(COUNTS, COUNTS >= 0)
    with pytest.raises(ValueError, match="whole numbers"):
        PublicRows.from_counts(np.array([[0.5, 1.0]]), support="observed", eta=0.1)


def test_records_outside_a_declared_support_are_refused_since_they_would_swell_the_totals():
    counts = np.array([[8, 2, 2, 88]] * 4)
    support = np.array([[True, True, True, False]] * 4)
    with pytest.raises(ValueError, match="records outside the declared support"):
        PublicRows.from_counts(counts, support=support, eta=0.16)
    with pytest.raises(ValueError, match="Its shape must equal the shape of the counts"):
        PublicRows.from_counts(counts, support=support[:, :3], eta=0.16)
    rows = PublicRows.from_counts(np.where(support, counts, 0), support=support, eta=0.16)
    assert rows.n_records.tolist() == [12, 12, 12, 12]


def test_the_joint_epsilon_is_the_largest_of_the_rows():
    """Row by row is the slow way; 12 random tables of up to 70 rows, n = 2 among them."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        rows = int(rng.integers(1, 71))
        records, n = 10 ** rng.uniform(1.3, 6, rows), rng.integers(2, 30, rows).astype(float)
        eta = rng.uniform(0.05, 0.9, rows) * (1 - 1 / records) / n
        k, delta = 10 ** rng.uniform(0, 1.2, rows) / eta, 10 ** rng.uniform(-9, -1)
        each = exact.epsilon_of(np.full(rows, delta), k, eta, records, n)
        assert exact.joint_epsilon_of(float(delta), k, eta, records, n) == pytest.approx(each.max(), rel=4e-15)


@pytest.mark.parametrize(
    ("n", "records", "eta", "k", "delta", "right"),
    [(3, 10, 0.1, 1e7, 1e-6, 698969.969), (2, 1000, 5e-7, 1.0, 1e-12, 55253.441), (3, 10, 0.1, 1e12, 1e-6, 6.93165590e10)],
)
def test_a_joint_epsilon_beyond_sixteen_doublings_is_found(n, records, eta, k, delta, right):
    """The search did not end. The values are mpmath's."""
    rows = PublicRows(n_records=np.array([float(records)]), support=np.ones((1, n), bool), eta=np.array([eta]))
    found = MatrixMechanism(rows=rows, k=k).exact_epsilon(delta)
    np.testing.assert_allclose(found, right, rtol=2e-8)
    assert MatrixMechanism(rows=rows, k=k).exact_delta(found) <= delta


def test_a_calibrated_matrix_meets_its_target_by_every_question():
    rng = np.random.default_rng(5)
    for _ in range(6):
        count, epsilon, delta = int(rng.integers(1, 40)), float(10 ** rng.uniform(-2, 1)), float(10 ** rng.uniform(-12, -2))
        rows = PublicRows(n_records=np.full(count, 1e4), support=np.ones((count, 3), bool), eta=rng.uniform(0.01, 0.3, count))
        m = MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta, unreachable="withhold")
        assert m.exact_delta(epsilon) <= delta
        assert (m.exact_delta([epsilon, epsilon]) <= delta).all()
        assert m.exact_epsilon(delta) <= epsilon
