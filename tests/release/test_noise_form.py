"""Noisy counts as a release: what they cost, their law, their statement, their error bars, and the audit."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from dpjax.audit import lower_bound
from dpjax.counts import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, PersonBound
from dpjax.counts.discrete_gaussian import concentrated_delta
from dpjax.release import PersonSampler, Plan, error_bars
from dpjax.release.error_bars import quantile
from dpjax.release.model import dataset, floored, read_release
from tests.release.conftest import form_of, records_of

LABELS = ("a", "b", "c")
NOISES = ("discrete-laplace", "discrete-gaussian")
MATRIX = [[40, 3, 0], [0, 0, 0], [5, 0, 900]]


@pytest.fixture(scope="module", params=NOISES)
def plan(request):
    return Plan.make(LABELS, epsilon=1.0, delta=0.0 if request.param == "discrete-laplace" else 0.01, form=request.param)


def test_scales_are_those_of_the_sensitivities():
    def scale(epsilon=0.5, **kw):
        return form_of("discrete-laplace", epsilon=epsilon, delta=0.1, **kw).parameter

    assert scale() == 4
    assert scale(adjacency="add-remove") == 2
    assert scale(0.1, persons=PersonBound(5)) == 100
    form = form_of("discrete-laplace", epsilon=0.5, delta=0.1)
    assert form.delta == 0
    with pytest.raises(ValueError, match="spends 1"):
        dataclasses.replace(form, parameter=Fraction(399, 100))
    one = form_of("discrete-gaussian", epsilon=1.0, delta=1e-6)
    five = form_of("discrete-gaussian", epsilon=1.0, delta=1e-6, persons=PersonBound(5))
    spread = form_of("discrete-gaussian", epsilon=1.0, delta=1e-6, persons=PersonBound(5, 1))
    assert one.parameter * 25 < five.parameter < one.parameter * 50
    assert five.parameter / spread.parameter == pytest.approx(5, rel=1e-3)
    with pytest.raises(ValueError, match="This noise spends"):
        dataclasses.replace(five, parameter=five.parameter / 2)


def test_concentrated_privacy_is_an_upper_bound_of_the_exact_curve():
    """One record replaced: squared sensitivity 2; the exact curve of the same noise lies below, within a factor of ten."""
    for variance, epsilon in ((20.0, 1.0), (5.0, 2.0), (300.0, 0.3)):
        exact = DiscreteGaussianMechanism(variance=variance).exact_delta(epsilon)
        assert exact <= concentrated_delta(epsilon, 1 / variance) <= 10 * exact


def test_a_persons_noise_covers_all_their_records():
    """Exactly: the loss of Laplace noise where five records move from one cell to another is attained and not passed."""
    form = form_of("discrete-laplace", epsilon=1.0, delta=0.0, persons=PersonBound(5))
    pmf = form.pmf(400)
    moved = np.log(pmf[5:] / pmf[:-5]).max() + np.log(pmf[:-5] / pmf[5:]).max()
    assert moved == pytest.approx(1.0, rel=1e-12)


def test_a_release_of_noisy_counts(plan):
    model = plan.draw(records_of(MATRIX))
    assert model.noisy
    assert np.array_equal(model.probabilities, floored(model.draws, model.support))
    np.testing.assert_allclose(model.probabilities.sum(axis=1), 1, atol=1e-15)
    assert (model.probabilities > 0).all()
    huge = plan.draw(records_of([[2**80, 0, 0]] * 3))
    assert abs(int(huge.draws[0, 0]) - 2**62) < 10_000
    data = dataset(model, plan.statement())
    assert "draws" not in data
    assert np.array_equal(data.noisy_count.values, model.draws)


def test_the_statement_says_what_was_done(plan):
    statement = plan.statement()
    pure = plan.form.name == "discrete-laplace"
    assert statement["delta"] == (0.0 if pure else 0.01)
    assert "draws_a_row" not in statement
    assert "max(y, 1/2)" in statement["zero_cells"]
    assert Fraction(statement["noise_scale_exactly" if pure else "noise_variance_exactly"]) == plan.form.parameter
    assert "noise of" in "\n".join(plan.price())
    for wrong in ({"pseudocount": 1.0}, {"draws": 100}, {"eta": 0.1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Plan.make(LABELS, epsilon=1.0, delta=0.01, form=plan.form.name, **wrong)


@pytest.mark.statistical
def test_error_bars_cover_the_shares(plan):
    """Level .8 promised for each cell; 300 releases: below 0.7 with probability under 1e-5. Those of noise a quarter as large fail."""
    matrix = np.array(MATRIX) + np.array([[0, 0, 0], [9, 0, 3], [0, 0, 0]])
    shares = matrix / matrix.sum(axis=1, keepdims=True)
    covered, narrow = [], []
    for _ in range(300):
        data = dataset(plan.draw(records_of(matrix)), plan.statement())
        bars = error_bars(data, level=0.8)
        covered.append((bars.lower.values <= shares) & (shares <= bars.upper.values))
        quieter = data.assign_attrs({k: v / 16 for k, v in data.attrs.items() if k in ("noise_scale", "noise_variance")})
        bars = error_bars(quieter, level=0.8)
        narrow.append((bars.lower.values <= shares) & (shares <= bars.upper.values))
    assert np.mean(covered, axis=0).min() > 0.7
    assert np.mean(narrow, axis=0).min() < 0.7
    with pytest.raises(ValueError, match="row_records"):
        error_bars(data, row_records=5)


def test_quantiles_are_those_of_sums():
    pmf = DiscreteLaplaceMechanism(epsilon=1.0).pmf
    law = pmf(200)
    three = np.convolve(np.convolve(law, law), law)
    for cells, exact in ((1, law), (3, three)):
        middle = len(exact) // 2
        q = quantile(pmf, cells, 0.01)
        assert exact[: middle - q].sum() + exact[middle + q + 1 :].sum() <= 0.01
        assert exact[: middle - q + 1].sum() + exact[middle + q :].sum() > 0.01


def released(plan, matrix, n, draw=None):
    """Log-likelihood ratios need whole noisy counts: the released ones."""
    return np.array([(draw or plan.draw)(records_of(matrix)).draws for _ in range(n)])


def ratio(form, first, second, drawn):
    """Log-likelihood ratio of noisy counts under two databases."""
    found = np.zeros(len(drawn))
    for matrix, sign in ((first, 1), (second, -1)):
        z = np.abs(drawn - np.array(matrix))
        loss = z / float(form.parameter) if form.name == "discrete-laplace" else z**2 / (2 * float(form.parameter))
        found -= sign * loss.sum(axis=(1, 2))
    return found


@pytest.mark.parametrize("pair", [([[3, 0], [0, 2]], [[2, 1], [0, 2]]), ([[0, 1], [0, 0]], [[0, 0], [1, 0]])])
@pytest.mark.parametrize("name", NOISES)
def test_the_whole_way_is_audited_and_a_quarter_of_the_noise_is_caught(name, pair):
    """600 releases, confidence 0.9999."""
    plan = Plan.make(("a", "b"), epsilon=1.0, delta=0.0 if name == "discrete-laplace" else 0.05, form=name)
    quiet = object.__new__(type(plan.form))
    quiet.__dict__.update({**plan.form.__dict__, "parameter": plan.form.parameter / (4 if name == "discrete-laplace" else 16)})
    found = []
    for form in (plan.form, quiet):
        one = dataclasses.replace(plan, form=form)
        p, q = (ratio(form, *pair, released(one, matrix, 600)) for matrix in pair)
        found.append(lower_bound(p, q, delta=plan.delta, confidence=1 - 1e-4).lower_bound)
    assert found[0] <= 1.0 < found[1]


@pytest.mark.parametrize("name", ["theorem7", *NOISES])
def test_persons_are_audited_and_a_forgotten_bound_is_caught(name):
    """A person of three records against another, with both kinds of spreading; records left unbounded prove more than is claimed."""
    plan = Plan.make(("a", "b"), epsilon=1.0, delta=0.05, form=name, records_per_person=3, row_records=5)
    lives = ([(0, 0)] * 30, [(1, 1)] * 30)

    def draws(person, bounded):
        found = []
        for _ in range(400):
            sampler = PersonSampler(PersonBound(3) if bounded else PersonBound(30))
            for pair in person:
                sampler.add("x", *pair)
            found.append(plan.draw(dataclasses.replace(sampler.records(), bound=plan.form.neighbours.persons)).draws)
        return np.array(found)

    bounds = []
    for bounded in (True, False):
        p, q = ((d := draws(person, bounded))[:, 0, 0] - d[:, 1, 1] for person in lives)
        bounds.append(lower_bound(p.astype(float), q.astype(float), delta=0.05, confidence=1 - 1e-4).lower_bound)
    assert bounds[0] <= 1.0 < bounds[1]


def test_the_command_takes_each_mechanism(call, tmp_path):
    (tmp_path / "labels.csv").write_text("a\nb\n")
    (tmp_path / "trips.csv").write_text("from,to\n" + "a,b\n" * 40)
    base = ("privatize-model", tmp_path / "trips.csv", "--epsilon", 1, "--labels", tmp_path / "labels.csv")
    gaussian = ("--delta", 1e-6)
    for name, more in (("discrete-laplace", ()), ("laplace", ()), ("discrete-gaussian", gaussian), ("gaussian", gaussian)):
        code, _, reply = call(*base, "--mechanism", name, *more, "-o", tmp_path / name)
        assert code == 0, reply
        assert read_release(tmp_path / name / "model.nc").noisy_count.shape == (2, 2)
        assert float(error_bars(tmp_path / name).upper.max()) <= 1
    assert call(*base, "--mechanism", "geometric", "-o", tmp_path / "x")[0] == 2
    code, _, reply = call(*base, "--mechanism", "discrete-laplace", "--form", "paper", "-o", tmp_path / "x")
    assert code == 2
    assert "The paper's form needs --mechanism pseudocount" in reply
