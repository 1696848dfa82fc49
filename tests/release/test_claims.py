"""Every sentence of every statement, taken apart and compared with exact laws: relation, unit, epsilon, delta, factor.

A claim's own words say which databases are neighbours; the test makes such databases, computes the law of what is published (noisy counts, or
draws from Dirichlet rows, with the support where it is chosen privately, over what is kept of a person) and its hockey-stick divergence.
"""

import functools
import itertools
import json
import math
import pathlib
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpjax._rationals import decimal_down, decimal_up, shown
from dpjax.counts import Neighbours, PersonBound, PseudocountMechanism
from dpjax.design.matrix import certify
from dpjax.release import Plan, restated, true_delta
from dpjax.release.statement import Statement, factor_up, shown_factor
from tests.release.laws import dirichlet_multinomial, outcomes

CELLS = tuple(itertools.product(range(2), repeat=2))
OTHERS = (((0, 0), (0, 0)), ((1, 0), (0, 0)), ((2, 1), (0, 3)))
MASK = np.array([[True, True], [False, True]])
FORMS = ("theorem7", "discrete-laplace", "discrete-gaussian")
NUMBER = r"([0-9.]+(?:e[-+]?[0-9]+)?)"
CLAIM = re.compile(
    rf"(?P<change>.+) costs epsilon = {NUMBER}, delta = {NUMBER}: the probabilities p and q of any event of the release, under two databases that"
    rf" differ so, satisfy p <= {NUMBER} q(?: \+ {NUMBER})? in either order \(.+\)\."
)
SEVERAL = re.compile(
    r"A record is one transition from a state to a state, counted once\. Records are protected, persons are not: (?P<change>.+) cost at most"
    r" \(m epsilon, m e\^\(\(m-1\) epsilon\) delta\), by group privacy; nothing better is claimed\."
)
UNITS = {
    "Replacing one record by any other": ("replace", "record"),
    "Replacing all records of one person by any others": ("replace", "person"),
    "Adding or removing one record": ("add-remove", "record"),
    "Adding or removing one person with all their records": ("add-remove", "person"),
    "Moving one record to another possible cell of its row": ("replace-within-row", "record"),
    "m records replaced by any others": ("replace", "record"),
    "m records added or removed": ("add-remove", "record"),
    "m records moved within their rows": ("replace-within-row", "record"),
}


def plan_of(form, adjacency, persons, support):
    """A plan of two states whose laws are small."""
    alpha = {"pseudocount": 6.0, "draws": 400} if form == "theorem7" else {}
    return Plan.make(
        ("a", "b"),
        epsilon=4.0 if persons and form != "theorem7" else 2.0,
        delta=0.05,
        form=form,
        adjacency=adjacency,
        support=support,
        records_per_person=2 if persons else None,
        **alpha,
    )


def added(table, records):
    found = np.array(table)
    for cell in records:
        found[cell] += 1
    return found


def kept(records, bound):
    """What may be kept of a person, each as likely as the other: a subset of `in_a_cell` of each row, then one of `records` of these."""
    rows = [[r for r in records if r[0] == i] for i in range(2)] if bound.per_row else [list(records)]
    found = []
    for parts in itertools.product(*(itertools.combinations(row, min(len(row), bound.in_a_cell)) for row in rows)):
        pool = [record for part in parts for record in part]
        found += list(itertools.combinations(pool, min(len(pool), bound.records)))
    return found


def mixture(others, records, bound):
    """[(weight, table)] of the databases that the mechanism meets."""
    choices = [tuple(records)] if bound is None else kept(records, bound)
    return [(1 / len(choices), added(others, some)) for some in choices]


def neighbours(relation, unit, bound, changes=1):
    """Pairs of databases that differ by so many changes of this relation to this unit."""
    lives = [[(0, 0)] * 2, [(0, 1)] * 2, [(1, 1)] * 2, [(0, 1), (1, 1), (1, 1)], []]
    for others in OTHERS if bound is None else OTHERS[1:]:  # with an empty row, an empty cell, and neither
        if unit == "person":
            pairs = itertools.combinations(lives, 2) if relation == "replace" else ((life, []) for life in lives[:-1])
        elif relation == "add-remove":
            pairs = (([cell] * changes, []) for cell in CELLS)
            pairs = itertools.chain(pairs, [(list(CELLS[:changes]), [])])
        else:
            pairs = (([a] * changes, [b] * changes) for a, b in itertools.combinations(CELLS, 2))
            pairs = (pair for pair in pairs if relation == "replace" or pair[0][0][0] == pair[1][0][0])
        for one, other in pairs:
            yield mixture(others, one, bound), mixture(others, other, bound)


def supports(plan, table):
    """{support: probability}, from the law of the selection's noise."""
    if plan.selection is None:
        return {plan.support.tobytes(): 1.0}
    ratio, t = 1 / float(plan.selection.scale), plan.selection.threshold
    found = {}
    chance = [0.0 if table[cell] == 0 else at_least(t - int(table[cell]), ratio) for cell in CELLS]
    for some in itertools.product((True, False), repeat=4):
        support = np.array(some).reshape(2, 2)
        support[~support.any(axis=1)] = True
        weight = math.prod(p if k else 1 - p for p, k in zip(chance, some, strict=True))
        found[support.tobytes()] = found.get(support.tobytes(), 0.0) + weight
    return found


def at_least(k, ratio):
    """P(Z >= k) of discrete Laplace noise."""
    q = math.exp(-ratio)
    return q**k / (1 + q) if k >= 1 else 1 - q ** (1 - k) / (1 + q)


def blocks(plan, table, support):
    """The laws of the independent parts of what is published, given the support: {part: probabilities}."""
    rows = {i: np.flatnonzero(support[i]) for i in range(2) if support[i].sum() > 1}
    form = plan.form
    if form.noisy:
        wide = noise(form)
        return {(i, j): wide[8 - table[i, j] : len(wide) - table[i, j]] for i in rows for j in rows[i]}
    if form.name == "paper":
        form = fitted(form, tuple(table.sum(axis=1).tolist()))
    law = {}
    for i, cells in rows.items():
        urn = form.urn(i, [int(table[i, j]) for j in cells])
        if urn is not None:
            shapes = np.array(urn.weights) / urn.unit
            law[i] = row_law(tuple(shapes), plan.draws)
    return law


@functools.lru_cache(maxsize=64)
def noise(form):
    """The law of the noise as far as it matters, and by the largest count of a table beyond."""
    reach, least = 8, 1e-11 if form.neighbours.persons is None else 1e-7
    while form.pmf(reach)[0] > least:
        reach += 1
    return form.pmf(reach + 8)


@functools.lru_cache(maxsize=8)
def fitted(form, totals):
    return form.fitted(totals, np.array([2, 2]))


@functools.lru_cache(maxsize=512)
def row_law(shapes, draws):
    return np.exp(dirichlet_multinomial(shapes, outcomes(len(shapes), draws)))


def outer(arrays):
    found = np.ones(())
    for array in arrays:
        found = np.multiply.outer(found, array)
    return found


def divergence(plan, first, second, epsilon):
    """The larger of the two hockey-stick divergences of what is published of two mixtures of databases."""
    both = [(side, weight, table, supports(plan, table)) for side, mixed in enumerate((first, second)) for weight, table in mixed]
    found = np.zeros(2)
    for support in {s for *_, law in both for s in law}:
        mask = np.frombuffer(support, dtype=bool).reshape(2, 2)
        laws = [(side, weight * law.get(support, 0.0), blocks(plan, table, mask)) for side, weight, table, law in both]
        changed = [part for part in laws[0][2] if any(not np.array_equal(law[part], laws[0][2][part]) for *_, law in laws)]
        p, q = (
            sum(weight * outer([law[part] for part in changed]) for side, weight, law in laws if side == which) for which in (0, 1)
        )
        factor = math.exp(epsilon)
        found += np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum()
    return float(found.max())


def worst(plan, relation, unit, epsilon, changes=1):
    """The largest divergence over the neighbours of this relation that the test makes."""
    pairs = neighbours(relation, unit, plan.form.neighbours.persons, changes)
    return max(divergence(plan, first, second, epsilon * (1 + 1e-12)) for first, second in pairs)


def holds(plan, relation, unit, epsilon, delta, changes=1):
    return worst(plan, relation, unit, epsilon, changes) <= delta * (1 + 1e-9) + 1e-13


def taken_apart(sentence):
    """(relation, unit, epsilon, delta, factor) from the words of a claim alone."""
    found = CLAIM.fullmatch(sentence)
    assert found, sentence
    _, epsilon, delta, factor, more = found.groups()
    assert (more or "0") == delta
    return (*UNITS[found["change"]], float(epsilon), float(delta), factor)


SETTINGS = list(itertools.product(FORMS, ("replace", "add-remove"), (False, True), ("all", "public", "private")))


@pytest.fixture(scope="module")
def made():
    """Each plan once."""
    found = {}

    def make(form, adjacency, persons, support):
        key = form, adjacency, persons, support
        if key not in found:
            found[key] = plan_of(form, adjacency, persons, MASK if support == "public" else support)
        return found[key]

    return make


@pytest.mark.parametrize(("form", "adjacency", "persons", "support"), SETTINGS)
def test_every_claim_holds_by_exact_laws_and_the_old_sentence_does_not(made, form, adjacency, persons, support):
    """The old sentence claimed a replacement at the epsilon and delta of the release, whatever the adjacency."""
    plan = made(form, adjacency, persons, support)
    statement = plan.statement()
    unit = "person" if persons else "record"
    assert [(c["relation"], c["unit"]) for c in statement["claims"]] == [(adjacency, unit)] + [("replace", unit)] * (
        adjacency == "add-remove"
    )
    for claim, sentence in zip(statement["claims"], statement["meaning"], strict=True):
        relation, unit, epsilon, delta, factor = taken_apart(sentence)
        assert claim["words"] == sentence
        assert (relation, unit, epsilon, delta, float(factor)) == tuple(
            claim[name] for name in ("relation", "unit", "epsilon", "delta", "factor")
        )
        assert Fraction(factor) >= Fraction(str(mpmath.exp(epsilon)))
        assert holds(plan, relation, unit, epsilon, delta), sentence
    primary = statement["claims"][0]
    assert (primary["epsilon"], primary["delta"]) == (plan.epsilon, plan.delta)
    attained = support != "private" or form == "discrete-laplace" or (form == "discrete-gaussian" and not persons)
    if attained or adjacency == "replace":  # elsewhere sums and bounds are not tight in tables so small
        assert holds(plan, "replace", unit, plan.epsilon, plan.delta) == (adjacency == "replace")


@pytest.mark.parametrize(("form", "adjacency"), list(itertools.product(FORMS, ("replace", "add-remove"))))
@pytest.mark.parametrize("support", ["all", "private"])
def test_m_records_cost_what_the_statement_says(made, form, adjacency, support):
    plan = made(form, adjacency, False, support)
    statement = plan.statement()
    relation, unit = UNITS[SEVERAL.fullmatch(statement["who"])["change"]]
    assert (relation, unit) == (adjacency, "record")
    for m in (1, 2, 3):
        values = {"m": m, "epsilon": plan.epsilon, "delta": plan.delta}
        words = (m * plan.epsilon, m * math.exp((m - 1) * plan.epsilon) * plan.delta)
        assert words == pytest.approx(tuple(value(statement["group_privacy"][name], values) for name in ("epsilon", "delta")))
        assert holds(plan, relation, unit, *words, changes=m)


def value(formula, values):
    return eval(formula, {"__builtins__": {}, "exp": math.exp}, values)


@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_of_a_replacement_are_tight_where_they_are_called_exact(made, form):
    plan = made(form, "add-remove", False, "all")
    claim = plan.claims()[1]
    assert claim.basis.startswith("exact")
    if form == "discrete-laplace":
        assert claim.epsilon == 2 * plan.epsilon
        assert worst(plan, "replace", "record", claim.epsilon * 0.999) > 1e-6
    elif form == "discrete-gaussian":
        assert worst(plan, "replace", "record", claim.epsilon) > claim.delta * (1 - 1e-5)
    else:
        rich = Plan.make(("a", "b"), epsilon=2.0, delta=0.05, adjacency="add-remove", pseudocount=6.0, draws=20_000)
        first, second = ([(1.0, np.array([row, [0, 0]]))] for row in ([1, 0], [0, 1]))
        assert 0.97 * claim.delta < divergence(rich, first, second, claim.epsilon) <= claim.delta


def test_the_numbers_of_the_issue():
    """At epsilon 1: discrete Laplace 2 epsilon; at delta 1e-6 pseudo-counts 4e-5, discrete Gaussian 2.1e-4."""
    found = {}
    for form in FORMS:
        plan = Plan.make(
            ("a", "b", "c"), epsilon=1.0, delta=0.0 if form == "discrete-laplace" else 1e-6, form=form, adjacency="add-remove"
        )
        found[form] = plan.claims()[1]
    assert (found["discrete-laplace"].epsilon, found["discrete-laplace"].delta, found["discrete-laplace"].factor) == (
        2.0,
        0.0,
        7.39,
    )
    assert found["theorem7"].delta == pytest.approx(4e-5, rel=0.02)
    assert found["discrete-gaussian"].delta == pytest.approx(2.12e-4, rel=0.01)


def test_the_papers_form_claims_moves_within_rows_alone():
    plan = Plan.make(("a", "b"), epsilon=2.0, delta=0.05, form="paper", eta=0.2, draws=40)
    statement = plan.statement()
    [(relation, unit, epsilon, delta, _)] = [taken_apart(sentence) for sentence in statement["meaning"]]
    assert (relation, unit, epsilon, delta) == ("replace-within-row", "record", 2.0, 0.05)
    assert UNITS[SEVERAL.fullmatch(statement["who"])["change"]] == (relation, unit)
    assert "every share of every row is at least 0.2" in statement["hidden"][2]
    for i, (counts, moved) in enumerate(itertools.product(((2, 8), (5, 5), (7, 3)), (1, 2, 3))):
        if counts[0] + moved > 0.8 * sum(counts):
            continue
        first, second = ([(1.0, np.array([row, [4, 6]]))] for row in (counts, (counts[0] + moved, counts[1] - moved)))
        found = divergence(plan, first, second, moved * epsilon)
        assert found <= moved * math.exp((moved - 1) * epsilon) * delta, i


def test_persons_with_a_bound_for_each_row_and_more_records_than_are_kept():
    """Exactly over what is kept: three or four records of which two are kept, one in a row."""
    plan = Plan.make(
        ("a", "b"), epsilon=2.0, delta=0.0, form="discrete-laplace", adjacency="add-remove", records_per_person=2, per_row=1
    )
    bound = PersonBound(2, 1)
    assert len(kept([(0, 0), (0, 1), (1, 1)], bound)) == 2
    crowd = [(0, 0), (0, 1), (1, 1), (1, 1)]
    for one, other in ((crowd, []), (crowd, [(0, 0)] * 3), ([(0, 0)], [(1, 0)])):
        relation = "add-remove" if not other else "replace"
        claim = next(c for c in plan.claims() if c.relation == relation)
        first, second = (mixture(OTHERS[1], life, bound) for life in (one, other))
        assert divergence(plan, first, second, claim.epsilon * (1 + 1e-12)) < 1e-13


FIXED = (
    "The claims below hold for every database: row totals, empty rows and empty cells are not taken as public, and a change that alters"
    " them is covered by the same numbers.",
    "Persons are protected: at most 2 records of a person are kept, a uniformly random part of that person's own records, and the rest left"
    " out before anything else is done. Each value of the column of identifiers counts as one person: a person with two identifiers"
    " counts as two, and records without an identifier were left out. Not covered: what one person's records say about another person.",
)
PROTECTED = {
    (
        "replace",
        False,
    ): "Protected: replacing any one record (one transition counted once) by any other, in the same row or in another.",
    ("replace", True): "Protected: replacing all records of any one person, however many, by any others.",
    ("add-remove", False): "Protected: adding or removing any one record (one transition counted once).",
    ("add-remove", True): "Protected: adding or removing any one person with all their records, however many.",
}


@pytest.mark.parametrize(("form", "adjacency", "persons", "support"), SETTINGS)
def test_no_sentence_is_left_unread(made, form, adjacency, persons, support):
    """What a statement says is a claim, the sum for m records, or one of a few sentences without a number that are written out here."""
    statement = made(form, adjacency, persons, support).statement()
    assert statement["hidden"] == [PROTECTED[adjacency, persons], FIXED[0]]
    assert all(CLAIM.fullmatch(sentence) for sentence in statement["meaning"])
    assert statement["who"] == FIXED[1] if persons else SEVERAL.fullmatch(statement["who"])
    assert f"whether or not any one {'person' if persons else 'record'} is in the data" in statement["not_hidden"]
    text = " ".join(str(Statement(statement)).split())
    for sentence in (*statement["hidden"], *statement["meaning"], statement["who"], statement["not_hidden"]):
        assert " ".join(sentence.split()) in text
    assert "had been" not in text
    price = made(form, adjacency, persons, support).price()
    assert [line for line in price if CLAIM.fullmatch(line)] == statement["meaning"]


def test_a_factor_is_rounded_up_and_a_given_number_is_printed_in_full():
    rng = np.random.default_rng(0)
    for epsilon in (
        *rng.uniform(0, 20, 300).tolist(),
        *(10.0 ** rng.uniform(-9, 1.3, 300)).tolist(),
        math.log(2),
        math.log(2000),
        1.0,
    ):
        exact = mpmath.exp(epsilon)
        assert mpmath.mpf(shown_factor(epsilon)) >= exact
        assert factor_up(epsilon) <= exact * 1.0011
    assert factor_up(20.5) is None
    for epsilon, delta in ((1.2345674, 1.2345674e-6), (0.30000000000000004, 1e-6 * (1 + 1e-9)), (2.7182818, 3.3333333333e-7)):
        plan = Plan.make(("a", "b"), epsilon=epsilon, delta=delta, form="discrete-gaussian", adjacency="add-remove")
        said = plan.statement()
        for sentence, claim in zip(said["meaning"], said["claims"], strict=True):
            _, _, e, d, factor = taken_apart(sentence)
            assert (e, d) == (claim["epsilon"], claim["delta"])
            assert mpmath.mpf(factor) >= mpmath.exp(e)
        assert taken_apart(said["meaning"][0])[2:4] == (epsilon, delta)
        head = re.match(rf"epsilon = {NUMBER}, delta = {NUMBER},", plan.price()[0])
        assert tuple(float(x) for x in head.groups()) == (epsilon, delta)


def test_nothing_is_claimed_at_a_delta_of_one():
    """Gaussian noise for persons at a delta near 1: the bound of a replacement is 1, and two steps leave none below 1."""
    plan = Plan.make(("a", "b"), epsilon=0.01, delta=0.9, form="discrete-gaussian", adjacency="add-remove", records_per_person=5)
    assert all(claim.delta < 1 for claim in plan.claims())
    assert plan.claims()[0].delta == 0.9


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_statement_of_version_1_is_restated_from_its_own_numbers(made, form, persons):
    plan = made(form, "add-remove", persons, "all")
    statement = plan.statement()
    new = ("claims", "group_privacy", "meaning", "hidden", "who", "not_hidden", "error_bars")
    old = {name: field for name, field in statement.items() if name not in new} | {
        "format": "dpjax privacy statement, version 1",
        "meaning": "as if that one record had been another",
    }
    again = restated(json.loads(json.dumps(old)))
    assert again["claims"] == statement["claims"]
    assert again["restates"] == old["format"]
    assert {name: again[name] for name in new if name in again} == {name: statement[name] for name in new if name in statement}
    with pytest.raises(ValueError, match="format is"):
        restated(statement)


@pytest.mark.parametrize("form", FORMS)
def test_a_statement_of_version_1_with_a_private_support_is_restated_with_what_it_spent(made, form):
    statement = made(form, "add-remove", False, "private").statement()
    old = {**statement, "format": "dpjax privacy statement, version 1", "selection_threshold": statement["selection_threshold"] - 1}
    again, more = restated(old), statement["selection_delta_spent"]
    assert again["delta"] == true_delta(old) > true_delta(statement) >= statement["model_delta"] + more * (1 - 1e-12)
    assert again["claims"][0]["delta"] == again["delta"]
    assert again["claims"][1]["delta"] > statement["claims"][1]["delta"]
    assert again["claims"][1]["epsilon"] == statement["claims"][1]["epsilon"]
    for name in ("model_epsilon", "model_delta", "selection_scale"):
        with pytest.raises(ValueError, match="statement"):
            restated({key: value for key, value in old.items() if key != name})


SECURITY = pathlib.Path(__file__).resolve().parents[2] / "SECURITY.md"
ROW = re.compile(r"\| (discrete Laplace|discrete Gaussian|pseudo-counts) \| \((.+), (.+)\) \| \((.+), (.+)\) \| \((.+), (.+)\) \|")


def test_the_table_of_what_earlier_statements_left_out_is_computed():
    rows = ROW.findall(SECURITY.read_text(encoding="utf-8"))
    assert len(rows) == 11
    names = {"discrete Laplace": "discrete-laplace", "discrete Gaussian": "discrete-gaussian", "pseudo-counts": "theorem7"}
    for name, epsilon, delta, *costs in rows:
        for persons, cost in ((None, costs[:2]), (3, costs[2:])):
            if persons and name == "pseudo-counts" and (epsilon, delta) != ("1", "1e-06"):
                continue  # minutes together; made in the same way
            plan = Plan.make(
                tuple("abcdefgh"),
                epsilon=float(epsilon),
                delta=float(delta),
                form=names[name],
                adjacency="add-remove",
                records_per_person=persons,
            )
            claim = plan.claims()[1]
            assert [shown(claim.epsilon), shown(claim.delta)] == cost


def test_decimals_err_on_their_side_at_powers_of_ten_and_beyond_floats():
    rng = np.random.default_rng(1)
    near = [10.0**k * (1 + s) for k in range(-12, 12) for s in (-1e-15, 0.0, 1e-15, 1e-7, -1e-7)]
    for value in (*near, *(10.0 ** rng.uniform(-300, 300, 300)).tolist()):
        for digits in (4, 6):
            up, down = decimal_up(value, digits), decimal_down(value, digits)
            assert Fraction(shown(down)) <= Fraction(repr(value)) <= Fraction(shown(up))
            assert up <= value * (1 + 1.01 * 10.0 ** (1 - digits))
            assert down >= value * (1 - 1.01 * 10.0 ** (1 - digits))
            assert len(shown(up).split("e")[0].replace(".", "").strip("0")) <= digits
            assert decimal_up(up, digits) == decimal_down(up, digits) == up
    assert decimal_up(0) == 0.0
    assert (decimal_up(0.03), decimal_down(0.03), decimal_up(0.1)) == (0.03, 0.03, 0.1)


@pytest.mark.parametrize(("adjacency", "word"), [("replace", "any"), ("add-remove", "add-remove")])
def test_a_certificate_names_the_relation_of_its_mechanism(adjacency, word):
    """It said "any record is replaced by any other" of a mechanism for one record more or fewer."""
    mechanism = PseudocountMechanism.calibrate(epsilon=1.0, delta=1e-6, pseudocount=30.0, adjacency=adjacency)
    found = certify(mechanism, 1.0, 1e-6)
    assert found.adjacency == word
    assert ("any record is replaced by any other" in str(found)) == (adjacency == "replace")
    assert ("any record is added or removed" in str(found)) == (adjacency == "add-remove")
    printed = re.search(rf"exact delta {NUMBER} at this epsilon", str(found))[1]
    assert found.exact_delta <= float(printed) <= found.exact_delta * 1.00001


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_no_certificate_speaks_of_persons(relation):
    """A mechanism that protects persons was certified as "any record is added or removed", whatever its relation."""
    neighbours = Neighbours(relation, PersonBound(2))
    mechanism = PseudocountMechanism.calibrate(epsilon=1.0, delta=1e-3, pseudocount=60.0, adjacency=neighbours)
    with pytest.raises(
        ValueError, match=r"(?s)^mechanism is .*A certificate covers records only: pass a mechanism that protects records"
    ):
        certify(mechanism, 1.0, 1e-3)
