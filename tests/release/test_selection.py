"""The private support: its exact (epsilon, delta), by brute force over neighbouring databases, and what was wrong with the old threshold."""

import collections
import importlib.metadata
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from dpjax.counts import Neighbours, PersonBound
from dpjax.release import Plan, ThresholdedSelection, true_delta
from dpjax.release.selection import selection_delta
from tests.release.old_threshold import old_delta, old_distance, old_selection, unverified

RECORD = PersonBound(1)


def kept(count, scale, threshold):
    """P(count + Z >= threshold) for count >= 1 and 0 for 0, by the law of Z: the sum over the whole numbers near it, beyond them the tail."""
    if count == 0:
        return mpmath.mpf(0)
    ratio = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
    at = threshold - count
    own = (1 - ratio) / (1 + ratio)
    below = sum(own * ratio ** abs(z) for z in range(min(at, 0), max(at, 0)))
    at_least_0 = own / (1 - ratio)
    return at_least_0 - below if at > 0 else at_least_0 + below


def bounded(cells, most, in_a_cell):
    """All ways in which a person's records, at most `most`, fall into so many cells."""
    return np.array([p for p in itertools.product(range(in_a_cell + 1), repeat=cells) if sum(p) <= most])


def worst(selection, cells, others):
    """The largest hockey-stick divergence at epsilon of the kept sets over all neighbouring tables of so many cells.

    others: what the other persons may have in a cell. A record is a person of one record.
    """
    bound = selection.neighbours.persons or RECORD
    lives = bounded(cells, bound.records, bound.in_a_cell)
    if selection.neighbours.relation == "replace":
        pairs = [(p, q) for p in lives for q in lives]
    else:
        pairs = [pair for p in lives for pair in ((p, 0 * p), (0 * p, p))]
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    stay = np.full(max(others) + bound.in_a_cell + 1, np.nan)
    missed = stay.copy()
    for count in {other + own for other in others for own in range(bound.in_a_cell + 1)}:
        with mpmath.workdps(40):  # `kept` cancels
            chance = kept(count, selection.scale, selection.threshold)
            stay[count], missed[count] = float(chance), float(1 - chance)
    largest = 0.0
    for other in itertools.combinations_with_replacement(others, cells):  # cells are alike: their order does not matter
        counts = [np.array(other) + side for side in (first, second)]
        laws = []
        for c in counts:
            law = np.ones((len(pairs), 1))
            for cell in range(cells):
                law = np.concatenate([law * missed[c[:, cell], None], law * stay[c[:, cell], None]], axis=1)
            laws.append(law)
        excess = np.maximum(laws[0] - math.exp(selection.epsilon) * laws[1], 0).sum(axis=1)
        largest = max(largest, float(excess.max()))
    return largest


def near(selection):
    """Counts of the others that matter: none, one, and those about the threshold."""
    t = selection.threshold
    return sorted({0, 1, *(c for c in (t - 2, t - 1, t) if c >= 0)})


def random_targets(number, seed, most):
    """Random (epsilon, delta), adjacency, bound and share, of which the selection gets its share."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        records = int(rng.integers(1, most + 1))
        per_row = None if rng.random() < 0.5 else int(rng.integers(1, records + 1))
        share = rng.uniform(0.05, 0.95)
        epsilon, delta = share * float(np.exp(rng.uniform(-2, 2))), share * float(10 ** rng.uniform(-5, -0.02))
        persons = None if records == 1 and rng.random() < 0.5 else PersonBound(records, per_row)
        yield {
            "epsilon": epsilon,
            "delta": delta,
            "adjacency": Neighbours(("replace", "add-remove")[int(rng.integers(2))], persons),
        }


def test_brute_force_over_neighbouring_tables_finds_the_stated_delta_and_no_more():
    """40 random selections for records and persons of up to three: never above what is said, and equal to it; one threshold less is."""
    for target in random_targets(40, 7, 3):
        chosen = ThresholdedSelection.calibrate(**target)
        persons = target["adjacency"].persons
        m = 1 if persons is None else persons.records
        found = worst(chosen, m + 1, near(chosen))
        assert found <= chosen.delta_spent * (1 + 1e-9), target
        assert found >= chosen.delta_spent * (1 - 1e-9), target
        assert chosen.delta_spent <= target["delta"]
        if chosen.threshold > 1:
            less = unverified(chosen, threshold=chosen.threshold - 1)
            assert worst(less, m + 1, near(less)) > target["delta"], target


@pytest.mark.parametrize(
    ("epsilon", "delta", "adjacency"),
    [
        (0.3, 0.05, "add-remove"),
        (0.9, 0.05, "add-remove"),
        (1.8, 0.045, "replace"),
        (1.8, 0.045, "add-remove"),
        (0.5, 0.01, "add-remove"),
    ],
)
def test_brute_force_finds_what_the_old_threshold_spent(epsilon, delta, adjacency):
    old = old_selection(epsilon, delta, adjacency)
    assert worst(old, 2, near(old)) > delta
    with pytest.raises(ValueError, match=r"threshold is .* It spends delta"):
        ThresholdedSelection(**old.__dict__ | {"scale": old.scale * (1 + Fraction(1, 10**9))})


def test_the_worst_partition_is_one_of_three():
    """All partitions of up to twelve records, at thresholds from 1 on, against the closed form; also by 50 digits."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        m = int(rng.integers(1, 13))
        r = int(rng.integers(1, m + 1))
        scale = Fraction(float(np.exp(rng.uniform(-2, 4)))).limit_denominator(1000)
        threshold = int(rng.integers(1, 1 + math.ceil(1 + 12 * float(scale))))
        with mpmath.workdps(50):
            missed = [1 - kept(j, scale, threshold) for j in range(r + 1)]
            best = 1 - min(mpmath.fprod(missed[j] for j in partition) for partition in partitions(m, r))
            found = selection_delta(scale, threshold, PersonBound(m, r))
            assert best <= found <= best * (1 + mpmath.mpf("1e-11")), (m, r, scale, threshold)


def partitions(total, most):
    """The partitions of a whole number into parts of at most `most`."""
    if total == 0:
        yield ()
    for part in range(1, min(total, most) + 1):
        yield from ((part, *rest) for rest in partitions(total - part, part))


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("persons", [None, PersonBound(3), PersonBound(40, 7), PersonBound(10_000, 1)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-7), (1e-5, 1e-12), (8.0, 0.05), (0.01, 0.6), (2.0, 1e-300), (900.0, 1e-3)])
def test_the_least_threshold_that_meets_delta_is_taken(epsilon, delta, adjacency, persons):
    chosen = ThresholdedSelection.calibrate(epsilon=epsilon, delta=delta, adjacency=Neighbours(adjacency, persons))
    assert chosen.delta_spent <= delta
    assert chosen.threshold == 1 or selection_delta(chosen.scale, chosen.threshold - 1, persons) > delta
    assert isinstance(chosen.scale, Fraction)
    exact = min(Fraction(epsilon), Fraction(repr(epsilon)))
    assert chosen.scale * exact == {"replace": 2, "add-remove": 1}[adjacency] * (persons or RECORD).records


def test_a_replaced_record_needs_97_where_101_was_used():
    assert ThresholdedSelection.calibrate(epsilon=0.3, delta=3e-7, adjacency="replace").threshold == 97
    assert old_selection(0.3, 3e-7, "replace").threshold == 101


OVERSPENT = [  # adjacency, persons, epsilon, share, the largest ratio, that at delta 1e-6 of the selection
    ("add-remove", None, 1.0, 0.3, 1.348, 1.0631),
    ("add-remove", None, 3.0, 0.3, 2.46, 2.3973),
    ("add-remove", None, 2.0, 0.9, 6.05, 2.8937),
    ("replace", None, 2.0, 0.9, 1.226, 0.9747),
    ("replace", None, 4.0, 0.9, 3.01, 2.8937),
    ("replace", None, 8.0, 0.9, 18.2, 0.5426),
    ("add-remove", PersonBound(3, 1), 1.0, 0.3, 1.105, 1.0722),
    ("add-remove", PersonBound(3, 1), 3.0, 0.3, 1.349, 1.2966),
    ("replace", PersonBound(3), 3.0, 0.3, 0.430, 0.4245),
]


@pytest.mark.parametrize(("adjacency", "persons", "epsilon", "share", "most", "at"), OVERSPENT)
def test_how_much_more_the_old_threshold_spent(adjacency, persons, epsilon, share, most, at):
    """The selection's true delta over the stated one: the largest over deltas from 1e-9 to .05, and at 1e-6, where 30 digits confirm it."""
    ratios = []
    for delta in [1e-6, *np.geomspace(1e-9, 0.05, 300)]:
        old = old_selection(epsilon * share, delta, adjacency, persons)
        ratios.append(selection_delta(old.scale, old.threshold, persons) / delta)
    one = persons or RECORD
    old = old_selection(epsilon * share, 1e-6, adjacency, persons)
    with mpmath.workdps(30):
        missed = [1 - kept(j, old.scale, old.threshold) for j in range(one.in_a_cell + 1)]
        spent = 1 - min(mpmath.fprod(missed[j] for j in partition) for partition in partitions(one.records, one.in_a_cell))
    assert float(spent / mpmath.mpf(1e-6)) == pytest.approx(at, rel=1e-3)
    assert ratios[0] == pytest.approx(at, rel=1e-3)
    assert max(ratios) == pytest.approx(most, rel=2e-3)


def test_the_event_of_the_issue_under_the_old_threshold():
    """One record a to b against none at (2, .05), share .9, add-remove: it is kept with .142, where .045 was said, and .0234 now."""
    old = old_selection(1.8, 0.045, "add-remove")
    now = ThresholdedSelection.calibrate(epsilon=1.8, delta=0.045, adjacency="add-remove")
    chances = [float(kept(1, one.scale, one.threshold)) for one in (old, now)]
    assert chances == pytest.approx([0.14185, 0.02345], abs=1e-5)
    assert old_delta(float(old.scale), old.threshold, old_distance("add-remove")) == pytest.approx(0.02345, abs=1e-5)


def test_large_counts_are_kept_absent_ones_never_and_an_empty_row_keeps_all():
    chosen = ThresholdedSelection.calibrate(epsilon=1.0, delta=1e-3, adjacency="replace")
    for _ in range(200):
        support = chosen.select({(0, 1): 500, (1, 1): 2**70, (2, 0): 0}, 3)
        assert support.tolist() == [[False, True, False], [False, True, False], [True, True, True]]


def misfit(found, draws, scale, threshold):
    """p-value of the numbers of times that counts 1, 2, ... were kept."""
    expected = np.array(
        [[float(draws * p), float(draws * (1 - p))] for p in (kept(c + 1, scale, threshold) for c in range(len(found)))]
    )
    seen = np.stack([found, draws - np.array(found)], axis=1)
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(found)))


def test_pairs_are_kept_with_the_probability_that_the_proof_says():
    """Counts 1 to 8 beside a full pair, 1,500 draws: failure rate 1e-6; the law of a threshold that is one off is rejected."""
    chosen = unverified(
        ThresholdedSelection.calibrate(epsilon=1.0, delta=0.1, adjacency="replace"), scale=Fraction(13, 7), threshold=5
    )
    counts = {(i, j): 4 * i + j + 1 for i in range(2) for j in range(4)}
    found = np.zeros(8, dtype=int)
    for _ in range(1500):
        support = chosen.select({**counts, (0, 8): 10**9, (1, 8): 10**9}, 9)
        found += support[:2, :4].ravel()
    assert misfit(found, 1500, chosen.scale, 5) > 1e-6
    assert misfit(found, 1500, chosen.scale, 6) < 1e-12
    assert misfit(found, 1500, chosen.scale, 4) < 1e-12


def test_opendp_keeps_pairs_with_the_same_probability():
    """A referee: OpenDP's `make_laplace_threshold` at this scale and threshold, 2,000 draws; failure rate 1e-6."""
    measurement = opendp_measurement(13 / 7, 5)
    found = collections.Counter(c for _ in range(2000) for c in measurement({c: c for c in range(1, 9)}))
    assert misfit([found[c] for c in range(1, 9)], 2000, Fraction(13, 7), 5) > 1e-6


@pytest.mark.skipif(not importlib.metadata.version("opendp").startswith("0.16."), reason="the map of OpenDP 0.16")
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 3e-7), (0.9, 0.05), (2.0, 1e-3)])
@pytest.mark.parametrize("persons", [None, PersonBound(3), PersonBound(5, 2)])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_the_old_threshold_is_the_least_that_the_map_of_opendp_allows(epsilon, delta, adjacency, persons):
    old = old_selection(epsilon, delta, adjacency, persons)
    distance = old_distance(adjacency, persons)
    said = opendp_measurement(float(old.scale), old.threshold).map(distance)[1]
    assert said == pytest.approx(old_delta(float(old.scale), old.threshold, distance), rel=1e-6)
    assert said <= delta
    if old.threshold > distance[2] + 1:
        assert opendp_measurement(float(old.scale), old.threshold - 1).map(distance)[1] > delta


def opendp_measurement(scale, threshold):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.map_domain(dp.atom_domain(T="i64"), dp.atom_domain(T="i64"))
    return dp.m.make_laplace_threshold(domain, dp.l01inf_distance(dp.absolute_distance(T="i64")), scale=scale, threshold=threshold)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0. Give a number above 0"),
        ({"epsilon": -1.0}, "epsilon is -1.0"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"delta": 0.0}, "delta is 0.0. Give a number strictly between 0 and 1"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"delta": math.nan}, "delta is nan"),
        ({"epsilon": 1e-13}, "Too little for a private support: raise epsilon, delta or the share"),
        ({"epsilon": 1e-10, "delta": 1e-300}, "Too little for a private support"),
    ],
)
def test_bad_targets_are_refused_in_a_sentence(wrong, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        ThresholdedSelection.calibrate(**{"epsilon": 0.3, "delta": 1e-6, "adjacency": "replace", **wrong})


def test_a_selection_that_spends_more_than_it_says_is_refused():
    good = ThresholdedSelection.calibrate(epsilon=0.3, delta=3e-7, adjacency="replace").__dict__
    for wrong, said in (
        ({"threshold": good["threshold"] - 1}, "It spends delta = "),
        ({"threshold": 0}, "whole number"),
        ({"scale": good["scale"] * Fraction(999_999, 1_000_000)}, "spends more than epsilon"),
        ({"adjacency": Neighbours("replace", PersonBound(2))}, "spends more than epsilon"),
    ):
        with pytest.raises(ValueError, match=said):
            ThresholdedSelection(**good | wrong)


def old_statement(plan):
    """The statement that earlier versions wrote for the plan's numbers."""
    neighbours = plan.form.neighbours
    old = old_selection(plan.selection.epsilon, plan.selection.delta, neighbours.relation, neighbours.persons)
    found = plan.statement() | {"selection_scale": float(old.scale), "selection_threshold": old.threshold}
    for name in ("selection_scale_exactly", "selection_delta_spent"):
        del found[name]
    return found, old


PERSONS = {"records_per_person": 3, "per_row": 1}
PLANS = [
    *(
        ("discrete-laplace", 0.9, adjacency, bound)
        for adjacency in ("replace", "add-remove")
        for bound in ({}, PERSONS, {"records_per_person": 3})
    ),
    ("discrete-gaussian", 0.9, "replace", PERSONS),
    ("theorem7", 0.5, "add-remove", {}),
]


@pytest.mark.parametrize(("form", "share", "adjacency", "bound"), PLANS)
def test_the_true_delta_of_a_statement(form, share, adjacency, bound):
    plan = Plan.make(("a", "b"), epsilon=3.0, delta=0.02, form=form, support="private", share=share, adjacency=adjacency, **bound)
    statement = plan.statement()
    assert true_delta(statement) <= statement["delta"]
    assert true_delta(statement) == pytest.approx(plan.form.delta + plan.selection.delta_spent)
    assert Fraction(statement["selection_scale_exactly"]) == plan.selection.scale
    assert statement["selection_delta_spent"] <= statement["selection_delta"]
    before, old = old_statement(plan)
    one = plan.form.neighbours.persons or RECORD
    spent = 1 - min(
        mpmath.fprod(1 - kept(j, old.scale, old.threshold) for j in partition)
        for partition in partitions(one.records, one.in_a_cell)
    )
    assert true_delta(before) == pytest.approx(plan.form.delta + float(spent))
    if (adjacency, bound, form) == ("add-remove", {}, "discrete-laplace"):
        assert true_delta(before) > 2 * before["delta"]


def test_a_statement_without_a_private_support_is_taken_at_its_word_and_a_damaged_one_is_not():
    assert true_delta(Plan.make(("a", "b"), epsilon=1.0, delta=0.02).statement()) == 0.02
    whole = Plan.make(("a", "b"), epsilon=1.0, delta=0.02, support="private").statement()
    for name in ("adjacency", "selection_scale", "selection_epsilon", "model_delta"):
        for damaged in ({k: v for k, v in whole.items() if k != name}, whole | {name: "x"}, whole | {name: None}):
            if name == "selection_scale":
                damaged.pop("selection_scale_exactly")
            with pytest.raises(ValueError, match=r"Give a statement\.json as dpjax wrote it"):
                true_delta(damaged)
    for wrong in (
        {"selection_threshold": 0},
        {"selection_scale_exactly": "1/0"},
        {"selection_scale_exactly": "-1"},
        {"selection_threshold": "x"},
    ):
        with pytest.raises(ValueError, match=r"[Tt]he statement"):
            true_delta(whole | wrong)
    with pytest.raises(ValueError, match="spends more than the selection_epsilon"):
        true_delta(whole | {"selection_scale_exactly": "1"})
