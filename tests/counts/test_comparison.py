"""The comparison: each line from the mechanism it names, verdicts that follow the numbers, and the command's table, words and figure."""

import csv

import jax
import numpy as np
import pytest

from dpjax.chains import MarkovChain, stationary_distribution
from dpjax.counts import DirichletRows
from dpjax.counts.postprocess import dirichlet_errors
from dpjax.simplex import DirichletMechanism
from dpjax.sweep import compare_counts, compare_trajectory, count_verdicts, trajectory_verdicts
from dpjax.sweep.compare import GAUSSIAN, LAPLACE, LAPLACE_PROJECTED, PAPER, PSEUDOCOUNT, UNIFORM, Measured
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law, substitution_epsilon

COUNTS = np.array([[50, 30, 20], [12, 60, 28], [15, 25, 40]])
GRADED = np.array([50, 20, 10, 10, 10])  # as many grades as the built-in class has
DRAWS = 64  # everywhere, so that one compiled program of a mechanism serves every table of these shapes
P3 = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])


@pytest.fixture(scope="module")
def results():
    return compare_counts(jax.random.key(0), COUNTS, epsilons=[2.0, 4.0], delta=1e-4, draws=DRAWS)


def named(results, name, epsilon=2.0):
    return next(one for one in results if one.mechanism == name and one.epsilon == epsilon)


def test_every_mechanism_is_measured_and_errors_fall_with_epsilon(results):
    assert {one.mechanism for one in results} == {PAPER, PSEUDOCOUNT, LAPLACE, LAPLACE_PROJECTED, GAUSSIAN, UNIFORM}
    for name in (PSEUDOCOUNT, LAPLACE, GAUSSIAN):
        low, high = named(results, name), named(results, name, 4.0)
        assert all(getattr(high, field) < getattr(low, field) for field in ("kl", "tv", "stationary"))
    assert np.isnan(named(results, LAPLACE_PROJECTED).stationary)


def test_exact_lines_have_no_error_bar_and_sampled_ones_do(results):
    for name in (PAPER, PSEUDOCOUNT, UNIFORM):
        assert named(results, name).kl_se == named(results, name).tv_se == 0
    for name in (LAPLACE, GAUSSIAN):
        assert 0 < named(results, name).tv_se < 0.2 * named(results, name).tv
    assert named(results, UNIFORM).draws == 0


def test_the_uniform_guess_and_the_papers_form_are_what_they_say(results):
    P = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    weights = COUNTS.sum(axis=1) / COUNTS.sum()
    tv = weights @ (0.5 * np.abs(P - 1 / 3).sum(axis=1))
    assert named(results, UNIFORM).tv == pytest.approx(tv)
    pi = stationary_distribution(P)
    assert named(results, UNIFORM).stationary == pytest.approx(0.5 * np.abs(pi - 1 / 3).sum(), rel=1e-9)
    one = compare_counts(jax.random.key(0), GRADED, epsilons=[1.0], delta=0.01, draws=DRAWS)
    k = DirichletMechanism.calibrate(epsilon=1.0, delta=0.01, eta=0.1, n_records=100, n_categories=5).k
    shares = GRADED[None] / 100
    assert named(one, PAPER, 1.0).kl == pytest.approx(dirichlet_errors(shares, k * shares)[0][0], rel=1e-9)
    assert named(one, LAPLACE, 1.0).kl_se == 0  # exact for one vector
    assert all(np.isnan(r.stationary) for r in one)


def test_rows_that_cannot_be_private_are_the_uniform_law():
    counts = np.array([[500, 400, 100], [1, 60, 39], [15, 25, 40]])
    options = {"epsilons": [1.0], "delta": 1e-6, "draws": DRAWS, "mechanisms": [DirichletRows.name]}
    paper = named(compare_counts(jax.random.key(0), counts, **options), PAPER, 1.0)
    assert paper.note.startswith("1 of 3 rows withheld")  # the row with a single record in a cell


def test_empty_cells_of_a_declared_support_leave_the_papers_form_out():
    counts = np.array([[5, 0, 3], [1, 6, 3], [0, 2, 4]])
    found = compare_counts(jax.random.key(0), counts, epsilons=[2.0], delta=1e-4, draws=DRAWS, support="all")
    assert PAPER not in {one.mechanism for one in found}
    assert all(np.isfinite(one.kl) for one in found if one.mechanism != LAPLACE_PROJECTED)


def test_refusals_name_the_argument():
    for options in ({"delta": 0}, {"epsilons": [0.0]}, {"support": "some"}, {"draws": 1}):
        with pytest.raises(ValueError, match=f"{next(iter(options)).rstrip('s')}.* (is|must be) "):
            compare_counts(jax.random.key(0), COUNTS, **({"epsilons": [1.0], "delta": 1e-6, "draws": 4} | options))
    with pytest.raises(ValueError, match="rows are empty"):
        compare_counts(jax.random.key(0), np.array([[1, 1], [0, 0]]), epsilons=[1.0], delta=1e-6)


def line(name, epsilon, tv, se=0.0):
    return Measured(name, epsilon, 0.0, tv, se, tv, se, np.nan, 0.0, 10, "")


def test_verdicts_follow_the_numbers():
    made = [line(LAPLACE, 1.0, 0.2, 0.01), line(PSEUDOCOUNT, 1.0, 0.9), line(UNIFORM, 1.0, 0.8)]
    made += [line(LAPLACE, 2.0, 0.3, 0.001), line(PSEUDOCOUNT, 2.0, 0.1), line(UNIFORM, 2.0, 0.8)]
    words = count_verdicts(made)
    assert words[1] == f"Smallest TV of the rows: {LAPLACE} (a baseline) at epsilon 1; {PSEUDOCOUNT} (ours) at epsilon 2."
    assert not any("stationary" in one for one in words)
    assert words[-1].endswith("further from the rows than the uniform guess at epsilon 1.")
    close = [line(LAPLACE, 1.0, 0.2, 0.01), line(GAUSSIAN, 1.0, 0.21, 0.01), line(UNIFORM, 1.0, 0.8)]
    assert f"{LAPLACE} and {GAUSSIAN} (a baseline)" in count_verdicts(close)[1]


def test_trajectories_are_matched_at_the_substitution_epsilon():
    chain, states = MarkovChain.from_matrix(P3), np.array([0, 0, 1, 2, 1, 0])
    found = compare_trajectory(chain, states, epsilons=[1.0], rho=1.0)
    nominal = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
    assert found[0].substitution == pytest.approx(substitution_epsilon(nominal))
    assert [one.substitution for one in found[1:]] == [1.0] * 4
    law = exact_law(ChenMechanism(chain, epsilon=1.0, b=1), states, start=0)
    assert found[3].mean_error == pytest.approx(law.expected_error[1:].mean())
    hits = law.marginals[np.arange(1, 6), states[1:]]
    assert found[3].error_rate == pytest.approx(1 - hits.mean())
    assert found[4].error_rate == pytest.approx(2 / (2 + np.e))
    assert found[1].mean_error > found[0].mean_error  # matched is the smaller scale here
    words = " ".join(trajectory_verdicts(found))
    assert "1 costs 2.86" in words
    assert "Smallest mean distance" in words


def test_where_all_pairs_are_too_many_the_bound_is_matched(monkeypatch):
    from dpjax.trajectory import losses

    chain, states = MarkovChain.from_matrix(P3), np.array([0, 0, 1])
    exact = compare_trajectory(chain, states, epsilons=[1.0])
    monkeypatch.setattr(losses, "AFFORDABLE", 1.0)
    bounded = compare_trajectory(chain, states, epsilons=[1.0])
    assert not bounded[1].exact
    assert bounded[1].mean_error > exact[1].mean_error
    assert "by its proved bound" in " ".join(trajectory_verdicts(bounded))


def test_the_command_writes_table_words_and_figure(call, tmp_path):
    code, out, _ = call("compare", "grades", "--epsilon", "2,1", "--delta", "0.0026", "--draws", str(DRAWS), "-o", tmp_path)
    assert code == 0
    assert out.startswith("NOT PRIVATE")
    assert "synthetic" in out.lower()
    assert "- Smallest KL of the rows: discrete Laplace, floored" in out
    lines = (tmp_path / "comparison.csv").read_text().splitlines()
    assert lines[0].startswith("# NOT PRIVATE")
    table = list(csv.DictReader(lines[1:]))
    assert {row["epsilon"] for row in table} == {"1.0", "2.0"}
    assert (tmp_path / "comparison.png").stat().st_size > 10_000
    assert out.rstrip().endswith("comparison.pdf")


def test_the_command_compares_a_config_and_a_trajectory(call, tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("from,A,B\nA,30,10\nB,15,25\n")
    config = tmp_path / "config.toml"
    config.write_text(
        'name = "x"\nworkload = "trajectory"\n[data]\nsource = "count-matrix"\npath = "counts.csv"\n[sweep]\nsamples = 1\n'
    )
    code, out, _ = call("compare", config, "--set", f"data.path={path}", "--epsilon", "1", "-o", tmp_path / "out")
    assert code == 0
    assert "randomised response among all states" in out
    assert "20 transitions, simulated" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "DATA is 'nowhere'"),
        (("grades", "--epsilon", "1,x"), "--epsilon is '1,x'"),
        (("grades", "--epsilon", "1,1"), "every epsilon once"),
        (("grades", "--epsilon", "0"), "positive, finite"),
        (("grades", "--set", "colour=red"), "an option of grades is 'colour'"),
    ],
)
def test_wrong_calls_say_what_is_wrong(call, arguments, said):
    code, _, errors = call("compare", *arguments)
    assert code == 2
    assert said in errors
