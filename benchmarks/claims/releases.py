"""Releases planned by `Plan.make`: the law of the release on neighbouring tables, against the claims of the statement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from benchmarks.claims import noise, referee
from benchmarks.claims.cases import Case
from benchmarks.claims.referee import exact, mp
from dpjax.release import Plan

FORMS = ("theorem7", "discrete-laplace", "discrete-gaussian")


def release(case: Case) -> None:
    """Check every form, for records and persons, replaced or added: delta at epsilon, for the parameters that the statement prints."""
    fields = _planned(case)
    epsilon, delta = Fraction(fields["epsilon"]), Fraction(fields["delta"])
    adjacency, m = fields["adjacency"].removesuffix("-person"), fields.get("records_a_person", 1)
    r = fields.get("records_a_person_and_row")
    for lost, gained in noise.spreads(case, m, r, adjacency):
        facts = {"lost": lost, "gained": gained, **{k: fields[k] for k in fields if k.endswith("_exactly")}}
        if fields["form"] == "discrete-laplace":
            moved = sum(lost) + sum(gained)
            case.at_most("Laplace noise's epsilon", moved / Fraction(fields["noise_scale_exactly"]), epsilon, **facts)
            continue
        truth = _divergence(fields, epsilon, lost, gained)
        if truth is not None:
            case.at_most(f"{fields['form']}'s delta", truth, delta, **facts)
            spent = fields.get("delta_spent_at_epsilon")
            if spent is not None and truth > mp.mpf(10) ** -300:
                case.at_most(f"{fields['form']}'s delta spent", truth, spent, **facts)


def statement(case: Case) -> None:
    """Check the sentences of a statement: every claim, and the cost of several records, each at its own epsilon and delta."""
    fields = _planned(case)
    m, r = fields.get("records_a_person", 1), fields.get("records_a_person_and_row")
    own = {"relation": fields["adjacency"].removesuffix("-person"), "epsilon": fields["epsilon"], "delta": fields["delta"]}
    # statements of version 1: "as if that one record had been another", with e^epsilon and delta for every adjacency
    claims = fields.get("claims", [{**own, "relation": "replace"}])
    for claim in claims:
        _judge(
            case,
            fields,
            f"a claim on {claim['relation']}",
            claim["relation"],
            m,
            r,
            Fraction(claim["epsilon"]),
            Fraction(claim["delta"]),
            claim,
        )
        if claim.get("factor") is not None:
            case.at_most("the factor is at least e^epsilon", mp.exp(exact(claim["epsilon"])), claim["factor"])
    if "records_a_person" not in fields:
        many = case.whole("several records", 2, 3)
        epsilon = many * Fraction(own["epsilon"])
        delta = many * mp.exp((many - 1) * exact(own["epsilon"])) * exact(own["delta"])
        if delta < 1:
            _judge(case, fields, "several records", own["relation"], many, None, epsilon, delta, own)


def _judge(
    case: Case,
    fields: Mapping[str, Any],
    what: str,
    relation: str,
    m: int,
    r: int | None,
    epsilon: Fraction,
    delta: Any,
    claim: Any,
) -> None:
    """Check the claim (epsilon, delta) for m records changed under the relation, in the placements of `noise.spreads`."""
    for lost, gained in noise.spreads(case, m, r, relation):
        facts = {"stated": dict(claim), "form": fields["form"], "lost": lost, "gained": gained}
        if fields["form"] == "discrete-laplace":
            loss = exact((sum(lost) + sum(gained)) / Fraction(fields["noise_scale_exactly"]))
            # one side of each noise, with its mode, has a probability above 1/2, and the loss on it is the largest
            favour = mp.mpf(2) ** -(len(lost) + len(gained))
            truth = mp.zero if loss <= exact(epsilon) else -mp.expm1(exact(epsilon) - loss) * favour
            case.at_most(what, truth, delta, **facts)
            continue
        truth = _divergence(fields, epsilon, lost, gained)
        if truth is not None:
            case.at_most(what, truth, delta, **facts)


def _planned(case: Case) -> Mapping[str, Any]:
    """The statement of a random plan."""
    form = case.one_of("form", FORMS)
    epsilon, delta = case.spread("epsilon", 1e-3, 1e3), case.spread("delta", 1e-200, 0.5)
    adjacency = case.one_of("adjacency", ("replace", "add-remove"))
    m = case.one_of("records_per_person", (None, None, 1, 2, 3, 12))
    r = None if m is None or case.chance(0.5) else case.whole("per_row", 1, m)
    alpha = case.spread("pseudocount", 1e-2, 1e4) if form == "theorem7" and case.chance(0.5) else None
    plan = case.call(
        "Plan.make",
        lambda: Plan.make(
            tuple("abcd"),
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            form=form,
            records_per_person=m,
            per_row=r,
            pseudocount=alpha,
        ),
    )
    return case.call("Plan.statement", plan.statement)


def _divergence(fields: Mapping[str, Any], epsilon: Fraction, lost: tuple[int, ...], gained: tuple[int, ...]) -> Any:
    """delta at epsilon of the released law for these counts lost and gained on empty cells; None if the referee is undecided."""
    try:
        if fields["form"] == "theorem7":
            s, alpha = Fraction(fields["scale_exactly"]), Fraction(fields["pseudocount_exactly"])
            if lost == gained and len(lost) == 1:
                return referee.beta_pair(epsilon, s * alpha, s * alpha, s * lost[0])
            if len(lost) + len(gained) == 1:
                part = (*lost, *gained)[0]
                return referee.gamma_pair(epsilon, s * alpha, s * part, back=bool(gained))
            cells = [[(s * alpha, s * d) for d in parts] for parts in (lost, gained)]
            return referee.spread(epsilon, *cells)
        v = Fraction(fields["noise_variance_exactly"])
        if len(lost) + len(gained) == 1:
            return referee.gaussian_delta(epsilon, v, (*lost, *gained)[0], False)
        if lost == gained and len(lost) == 1:
            return referee.gaussian_delta(epsilon, v, lost[0], True)
        return _several_gaussians(epsilon, v, (*lost, *gained))
    except referee.UndecidedError:
        return None


def _several_gaussians(epsilon: Fraction, v: Fraction, moves: tuple[int, ...]) -> Any:
    """delta for counts that change by these whole numbers: the loss is (sum d^2 + 2 sum d x)/(2v), the law of the sum is a convolution."""
    if v > 200 or sum(moves) > 12 or float(epsilon) * float(v) > 1e6:
        return None
    exact_v = exact(v)
    reach = int(40 * math.sqrt(float(v))) + 3
    one = [mp.exp(-mp.mpf(x * x) / (2 * exact_v)) for x in range(-reach, reach + 1)]
    scale = 2**200
    total = sum(one, mp.zero)
    whole = [int(mp.floor(p / total * scale)) for p in one]  # the law in whole numbers, rounded down
    law, offset = [scale], 0
    for d in moves:
        wide = [0] * (2 * reach * d + 1)
        wide[::d] = whole
        law, offset = _convolved(law, wide, scale), offset + reach * d
    squares = sum(d * d for d in moves)
    factor = exact(epsilon)
    found = mp.zero
    for place, mass in enumerate(law):
        loss = (squares + 2 * mp.mpf(place - offset)) / (2 * exact_v)
        if mass and loss > factor:
            found += mp.mpf(mass) * -mp.expm1(factor - loss)
    return found / scale * (1 - mp.mpf(10) ** -25)


def _convolved(a: list[int], b: list[int], scale: int) -> list[int]:
    """The convolution of two laws in whole numbers, by one multiplication of large numbers."""
    bits = -(-(2 * scale.bit_length() + 24) // 8) * 8
    size = len(a) + len(b) - 1
    packed = sum_of(a, bits) * sum_of(b, bits)
    mask = (1 << bits) - 1
    width = bits // 8
    data = packed.to_bytes(size * width + 8, "little")
    return [(int.from_bytes(data[i * width : (i + 1) * width], "little") & mask) // scale for i in range(size)]


def sum_of(values: list[int], bits: int) -> int:
    """The whole number with these digits in base 2^bits; bits must be a multiple of 8."""
    return int.from_bytes(b"".join(x.to_bytes(bits // 8, "little") for x in values), "little")
