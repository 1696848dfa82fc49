"""Rows B1 to B4 and B6 of the reproduction table: each published claim, decided by stored numbers, nominal and matched.

A claim is a list of inequalities between exact quantities. It holds if all are true, holds in part if some are true, and otherwise does not
hold on this data. Only the claims themselves are written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import xarray as xr

from dpjax.plot import style
from dpjax.plot import trajectory as curves
from experiments.reproduction import Row

Pair = tuple[xr.Dataset, xr.Dataset]  # Chen et al., Mechanism 1
LEVEL, SHOWN = 5.0, 1e-4  # nats; the smallest probability that 10,000 draws can resolve
FLAT, GROWS = 0.05, 0.01  # relative change of the entropy from half the length to the whole
LESS = 0.01  # a smaller relative decrease does not count as one


def verdict(inequalities: Iterable[bool]) -> str:
    """The verdict on a claim, from its inequalities."""
    found = [bool(x) for x in inequalities]
    if all(found):
        return "holds"
    return f"holds in part ({sum(found)} of {len(found)})" if any(found) else "does not hold on this data"


def pair(results: xr.Dataset, epsilon: float, *, matched: bool, start: str = "sensitive") -> Pair:
    """The cells of the baseline and of Mechanism 1 at one epsilon."""
    found = {
        curves.setting(c, "kind"): c for c in curves.comparison(curves.at(results, epsilon=epsilon, start=start), matched=matched)
    }
    return found["chen"], found["mechanism1"]


def pairs(results: xr.Dataset, *, matched: bool, start: str = "sensitive") -> list[Pair]:
    """The pairs of every epsilon."""
    return [pair(results, epsilon, matched=matched, start=start) for epsilon in curves.values(results, "epsilon")]


def both(decide: Callable[[bool], str]) -> str:
    """A verdict at the papers' parameters and at matched privacy."""
    return f"papers' parameters: {decide(False)}; matched: {decide(True)}"


def tail_rows(results: xr.Dataset) -> list[Row]:
    """Rows B1, B3, B4 and the tails of B6."""
    row = _rows_on(results)
    return [
        row(
            "B1",
            f"P(max error > {LEVEL:g} nats), epsilon 1",
            "0.39 (Chen et al.), 0.06 (Mechanism 1): 84 % smaller",
            both(lambda matched: _at_level(pair(results, 1.0, matched=matched), LEVEL)),
            _privacy(results),
        ),
        row(
            "B1",
            "P(max error > v), epsilon 1, at the v where the baseline's is nearest to 0.39",
            "84 % smaller",
            both(lambda matched: _nearest(pair(results, 1.0, matched=matched))),
            "this chain has other distances, so the same number of nats is a different error",
        ),
        row(
            "B1",
            "largest decrease over all v at which Mechanism 1 has 1e-4 or more",
            "multiple orders of magnitude, on every chain",
            both(lambda matched: _orders(pair(results, 1.0, matched=matched))),
            _privacy(results),
        ),
        row(
            "B3",
            "expected share of steps equal to the sensitive state",
            "sample trajectories (table 2, figures 5 to 7)",
            both(lambda matched: _agreement(pairs(results, matched=matched))),
            "exact; the figures show one draw each",
        ),
        row(
            "B4",
            "Mechanism 1's tail at or below the baseline's for all v and epsilon",
            "smaller errors for every epsilon (figure 8)",
            both(lambda matched: verdict(_below(pairs(results, matched=matched)))),
            _privacy(results),
        ),
        row(
            "B6",
            "the same tails with a uniform initial distribution",
            "similar (figure 10)",
            both(lambda matched: verdict(_below(pairs(results, matched=matched, start="uniform")))),
            "V_0 counts in the largest error, and is large for a uniform first state",
        ),
    ]


def entropy_rows(results: xr.Dataset) -> list[Row]:
    """Row B2 and the entropy of B6."""
    row = _rows_on(results)
    return [
        row(
            "B2",
            "mean empirical entropy lower than the baseline's",
            "for every epsilon and length",
            both(lambda matched: verdict(_lower(pairs(results, matched=matched)))),
            _privacy(results, 3.0),
        ),
        row(
            "B2",
            "largest decrease of the mean entropy",
            "80 % (Gainesville, epsilon 3)",
            both(lambda matched: _decrease(results, matched)),
            f"the sensitive trajectory's own entropy, {_own(results):.3g} nats per transition, limits what closeness can give",
        ),
        row(
            "B2",
            "flat in length from half of it on, while the baseline's grows",
            "on every chain",
            both(lambda matched: _flat(pairs(results, matched=matched))),
            f"flat: within {FLAT:.0%}; grows: by more than {GROWS:.0%}; the entropy also follows the sensitive trajectory's own",
        ),
        row(
            "B6",
            "mean empirical entropy lower than the baseline's, uniform initial distribution",
            "similar (figure 11)",
            both(lambda matched: verdict(_lower(pairs(results, matched=matched, start="uniform")))),
            _privacy(results, 3.0),
        ),
    ]


def _rows_on(results: xr.Dataset) -> Callable[[str, str, str, str, str], Row]:
    said = f"{style.data_of(results).removeprefix('Data: ').rstrip('.')}; {int(results['length'].max())} transitions, " + (
        f"{int(results['samples'].max()):,} trajectories per point"
    )

    def row(id_: str, quantity: str, published: str, ours: str, why: str) -> Row:
        return Row(id=id_, quantity=quantity, published=published, ours=ours, data=said, why=why)

    return row


def _privacy(results: xr.Dataset, epsilon: float = 1.0) -> str:
    """The cost of replacing one state under each mechanism at the papers' parameters."""
    chen, first = pair(results, epsilon, matched=False)
    exact = "" if bool(first["substitution_exact"] == 1) else " (bound)"
    return (
        f"at epsilon {epsilon:g} replacing one state costs {float(chen['substitution_epsilon']):.3g} nats under Chen et al. and up to "
        f"{float(first['substitution_epsilon']):.3g}{exact} under Mechanism 1; matched, at most {epsilon:g} under each"
    )


def _at_level(found: Pair, v: float) -> str:
    numbers = [cell.sel(threshold=v) for cell in found]
    words = " against ".join(
        f"{float(n['exceeds_mean']):.4f} ± {float(n['exceeds_sem']):.4f} (exact {float(n['exceedance']):.4g})" for n in numbers
    )
    chen, first = (float(n["exceedance"]) for n in numbers)
    if chen == 0:
        return f"{words}: no private trajectory can get that far away" if first == 0 else f"{words}: larger"
    return f"{words}: {_change(first / chen - 1)}, {verdict([first <= (1 - LESS) * chen, first <= 0.16 * chen])}"


def _nearest(found: Pair) -> str:
    exact = found[0]["exceedance"]
    v = float(found[0]["threshold"][int(np.argmin(np.abs(exact.values - 0.39)))])
    return f"at {v:g} nats {_at_level(found, v)}"


def _change(relative: float) -> str:
    return f"{abs(relative):.1%} {'smaller' if relative < 0 else 'larger'}"


def _orders(found: Pair) -> str:
    chen, first = (cell["exceedance"].values for cell in found)
    shown = first >= SHOWN
    if not shown.any():
        return "Mechanism 1 is below 1e-4 for every v"
    orders = float(np.log10(chen[shown] / first[shown]).max())
    return f"{orders:.2f} orders of magnitude, {verdict([orders >= 1, orders >= 2])}"


def _agreement(found: list[Pair]) -> str:
    def shares(cells: list[xr.Dataset]) -> str:
        return ", ".join(f"{float(cell['expected_agreement']):.2f}" for cell in cells)

    epsilons = ", ".join(f"{curves.setting(chen, 'epsilon'):g}" for chen, _ in found)
    return f"Chen {shares([c for c, _ in found])}, Mechanism 1 {shares([m for _, m in found])} at epsilon {epsilons}"


def _below(found: list[Pair]) -> list[bool]:
    """For each epsilon and each threshold that any error exceeds: whether Mechanism 1's tail is at or below the baseline's."""
    return [
        bool(first <= chen * (1 + 1e-9))
        for pair_ in found
        for chen, first in zip(*(cell["exceedance"].values for cell in pair_), strict=True)
        if max(chen, first) > 0
    ]


def _lower(found: list[Pair]) -> list[bool]:
    return [bool(low) for chen, first in found for low in (first["expected_entropy"] < chen["expected_entropy"]).values]


def _decrease(results: xr.Dataset, matched: bool) -> str:
    found = {
        float(curves.setting(chen, "epsilon")): float((1 - first["expected_entropy"] / chen["expected_entropy"]).max())
        for chen, first in pairs(results, matched=matched)
    }
    best = max(found, key=lambda epsilon: found[epsilon])
    at_three = f"{found[3.0]:.0%} at epsilon 3, " if 3.0 in found else ""
    return f"{at_three}{found[best]:.0%} at best (epsilon {best:g}), {verdict([found[best] >= LESS, found[best] >= 0.8])}"


def _growth(cell: xr.Dataset) -> float:
    """The relative change of the mean entropy from half the length to the whole length."""
    length = cell["length"].values
    half = int(np.argmin(np.abs(length - length[-1] / 2)))
    entropy = cell["expected_entropy"].values
    return float(entropy[-1] / entropy[half] - 1) if entropy[half] > 0 else math.inf


def _flat(found: list[Pair]) -> str:
    growth = [(_growth(chen), _growth(first)) for chen, first in found]
    words = "; ".join(
        f"{chen:+.1%} and {first:+.1%} at {curves.setting(p[0], 'epsilon'):g}"
        for (chen, first), p in zip(growth, found, strict=True)
    )
    return f"{words}: {verdict([abs(first) <= FLAT for _, first in growth] + [chen > GROWS for chen, _ in growth])}"


def _own(results: xr.Dataset) -> float:
    return float(curves.cells(results)[0]["sensitive_entropy"][-1])
