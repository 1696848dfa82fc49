"""Row by row, what a count matrix can promise: public facts, claims as they are, and whether a target is within reach.

Nothing but what is public (`PublicRows`) is read, so a report may be shown before any data are touched.

Algorithm 2: a transition matrix whose rows go through the Dirichlet mechanism independently, composed in parallel (A-Theorem 3).

Adjacent databases differ in one record of one row, the other rows are independent and alike, so exactly delta_total(epsilon) =
max_i delta_i(epsilon) at a common epsilon, and epsilon_total(delta) = max_i epsilon_i(delta). By A-Theorem 1 the pair is (max_i
epsilon_i, max_i delta_i). Constant rows (one supported category) and withheld rows (released as the uniform law on their public
support) say nothing of the data. Changing a record's row changes two totals and is not covered: see `PseudocountMechanism`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dpjax._errors import invalid, require
from dpjax._random import checked_key
from dpjax._tracing import check_traced, conditions, frozen_pytree, is_traced, nan_unless, require_concrete
from dpjax.simplex import exact, theorem1
from dpjax.simplex._rounding import (
    Claim,
    Number,
    Numbers,
    Real,
    alike,
    check_delta,
    check_epsilon,
    delta_up,
    float64,
    plain,
    verified,
)
from dpjax.simplex.gamma import dirichlet
from dpjax.simplex.mechanism import Accounting
from dpjax.simplex.rows import PublicRows, Shares, as_float, check_k, check_one, check_shares, check_traced_shares, some

_CONSTANT = "one supported category: a public constant"
_WITHHELD = "withheld: released as the uniform law on its public support"
NO_PAIR = "n eta + 1/N > 1: no adjacent count vector has all shares >= eta, so a guarantee would be empty; declare a smaller floor"


class RowReport(NamedTuple):
    """Row by row, what is public, what is claimed, and whether a target could be met; a still row has epsilon = delta = 0.

    epsilon, delta: A-Theorem 1's, +inf and 1 where it does not apply at that k and gamma. exact_delta and delta_floor are at the
    target's epsilon, 1 where no adjacent pair exists. theorem1_reachable and exact_reachable: some k meets the target in that
    accounting.
    """

    n_records: Numbers
    n_categories: Numbers
    eta: Numbers
    k: Numbers
    k_min: Numbers
    epsilon: Numbers
    delta: Numbers
    exact_delta: Numbers
    delta_floor: Numbers
    theorem1_reachable: Numbers
    exact_reachable: Numbers
    reason_theorem1: tuple[str, ...]
    reason_exact: tuple[str, ...]


def largest_k(
    rows: PublicRows, epsilon: Number, delta: Number, accounting: str, gamma: Real | None
) -> tuple[Numbers, Numbers | None]:
    """The largest k of each row and the gamma that goes with it; k = 0 where no k meets the target."""
    shape = rows.n_records.shape
    given = None if gamma is None else np.broadcast_to(float64(gamma, "gamma"), shape)
    use = rows.has_adjacent_pair
    if accounting == "theorem1":
        use = use & (rows.eta < 0.25) & (True if given is None else given < 1 / rows.n_categories)
    k = np.where(rows.constant, 1.0, 0.0)
    if not use.any():
        return k, given
    public = {"eta": rows.eta[use], "n_records": rows.n_records[use], "n_categories": rows.n_categories[use]}
    if accounting == "exact":
        k[use] = exact.calibrate_exact(epsilon=epsilon, delta=delta, **public)
        return k, given
    k[use], best = theorem1.calibrate_theorem1(epsilon=epsilon, delta=delta, gamma=None if given is None else given[use], **public)
    chosen = np.full(shape, np.nan)
    chosen[use] = best
    return k, np.where(use, chosen, 0.5 / rows.n_categories)


def theorem1_reasons(rows: PublicRows, k: Numbers, gamma: Numbers) -> list[str]:
    """Why A-Theorem 1 does not apply to a row; empty where it does."""
    reasons = []
    for i in range(k.size):
        if not rows.has_adjacent_pair[i]:
            reasons.append(_CONSTANT if rows.constant[i] else NO_PAIR)
        elif rows.eta[i] >= 0.25:
            reasons.append(f"Assumption 3: eta = {rows.eta[i]:.6g} is not below 1/4")
        elif not gamma[i] < 1 / rows.n_categories[i]:
            reasons.append(f"Assumption 2: gamma = {gamma[i]:.6g} is not below 1/n")
        elif k[i] < rows.k_min[i] * (1 - 1e-12):
            reasons.append(f"Assumption 4: k = {k[i]:.6g} is below 3/(2 eta) = {rows.k_min[i]:.6g}")
        else:
            reasons.append("")
    return reasons


def theorem1_values(rows: PublicRows, k: Numbers, gamma: Numbers, where: Numbers) -> tuple[Numbers, Numbers]:
    """(epsilon, delta) of A-Theorem 1 for the rows `where`, whose assumptions the caller has checked."""
    if not where.any():
        return np.zeros(0), np.zeros(0)
    n = rows.n_categories[where]
    epsilon = theorem1.theorem1_epsilon(k[where], rows.eta[where], rows.n_records[where], n, gamma[where])
    return np.asarray(epsilon), np.asarray(theorem1.omega_delta(k[where], rows.eta[where], n, gamma[where]).delta)


def row_report(
    rows: PublicRows,
    *,
    epsilon: Number,
    delta: Number,
    k: Real | None = None,
    gamma: Real | None = None,
    withheld: Numbers | None = None,
) -> RowReport:
    """On the host: what each row of a count matrix can promise at the target (epsilon, delta); nothing but public facts is read.

    k None: 3/(2 eta_i). gamma None: none is stated, and the best one is taken for what is reachable.
    """
    require_concrete(
        (rows, epsilon, delta, k, gamma), "rows, target or parameters", "ask for a report outside the transformed function"
    )
    rows.check()
    shape = rows.n_records.shape
    still = rows.constant | (np.zeros(shape, bool) if withheld is None else np.asarray(withheld, bool))
    concentration = np.broadcast_to(float64(rows.k_min if k is None else k, "k"), shape)
    threshold = np.full(shape, np.nan) if gamma is None else np.broadcast_to(float64(gamma, "gamma"), shape)
    pair = rows.has_adjacent_pair & ~still
    reasons = theorem1_reasons(rows, concentration, np.where(np.isnan(threshold), 0.0, threshold))
    first = np.where(still, 0.0, np.inf)
    second, now, floor = (np.where(still, 0.0, 1.0) for _ in range(3))
    stated = pair & np.array([r == "" for r in reasons], bool) & ~np.isnan(threshold)
    first[stated], second[stated] = theorem1_values(rows, concentration, threshold, stated)
    if pair.any():
        public = {"eta": rows.eta[pair], "n_records": rows.n_records[pair], "n_categories": rows.n_categories[pair]}
        now[pair] = exact.exact_delta(epsilon, k=concentration[pair], **public)
        floor[pair] = exact.delta_floor(epsilon, **public)
    reach = [largest_k(rows, epsilon, delta, way, gamma)[0] > 0 for way in ("theorem1", "exact")]
    return RowReport(
        n_records=rows.n_records,
        n_categories=rows.n_categories,
        eta=rows.eta,
        k=concentration,
        k_min=rows.k_min,
        epsilon=first,
        delta=second,
        exact_delta=now,
        delta_floor=floor,
        theorem1_reachable=reach[0] | still,
        exact_reachable=reach[1] | still,
        reason_theorem1=_words(rows, still, reach[0], [_why_theorem1(r) for r in reasons]),
        reason_exact=_words(rows, still, reach[1], _why_exact(rows, floor, epsilon)),
    )


def _why_theorem1(reason: str) -> str:
    other = "no k >= 3/(2 eta) and gamma meet the target by A-Theorem 1"
    return other if not reason or reason.startswith(("Assumption 2", "Assumption 4")) else reason


def _why_exact(rows: PublicRows, floor: Numbers, epsilon: Number) -> list[str]:
    cells = rows.n_records * rows.eta
    under = "no k goes under delta = {:.3g} at epsilon = {:g}: the rarest cell has N eta = {:.3g} records"
    return [under.format(f, epsilon, m) if p else NO_PAIR for f, m, p in zip(floor, cells, rows.has_adjacent_pair, strict=True)]


def _words(rows: PublicRows, still: Numbers, reachable: Numbers, why: list[str]) -> tuple[str, ...]:
    """The reason of each row; empty where the target can be met."""
    quiet = [_CONSTANT if c else _WITHHELD for c in rows.constant]
    return tuple(q if s else "" if r else w for q, s, r, w in zip(quiet, still, reachable, why, strict=True))


def _array(x: Any) -> Any:
    return x if is_traced(x) else np.asarray(x)


@jax.jit
def row_concentrations(
    P: Float[Array, "rows n"], k: Float[Array, " rows"], still: Bool[Array, " rows"], public: Float[Array, "rows n"]
) -> Float[Array, "rows n"]:
    """k_i P_i, and the public row itself where the row says nothing of the data; pure, unchecked."""
    return jnp.where(still[:, None], public, k[:, None] * P)


@frozen_pytree("rows", "k", "gamma", static=("withheld",))
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MatrixMechanism:
    """P -> private P, row i a draw of Dirichlet(k_i P_i), with the joint guarantee of all rows.

    rows: what is public. k: one number or one for each row (unused in constant and withheld rows). gamma: for A-Theorem 1,
    likewise. withheld: rows that are replaced by the uniform law on their public support, which costs no privacy.

    A pytree: k, gamma and the numbers of `rows` are leaves and may be traced, support and withheld rows are static. Figures of traced numbers
    are unrounded, in their dtype, and differentiable. One matrix: `jax.vmap` maps over several.
    """

    rows: PublicRows
    k: np.ndarray | float
    gamma: np.ndarray | float | None = None
    withheld: np.ndarray | None = None

    adjacency = "replace-within-row"

    def __post_init__(self) -> None:
        shape = self.rows.n_categories.shape
        require_concrete(self.withheld, "withheld", "choose the withheld rows outside the transformed function: they are structure")
        withheld = np.zeros(shape, bool) if self.withheld is None else np.broadcast_to(np.asarray(self.withheld, bool), shape)
        object.__setattr__(self, "withheld", withheld)
        k: Any = self._each(self.k, "k")
        k = jnp.where(self._still, jnp.ones_like(k), k) if is_traced(k) else np.where(self._still, 1.0, k)
        object.__setattr__(self, "k", k)
        if self.gamma is not None:
            object.__setattr__(self, "gamma", self._each(self.gamma, "gamma"))
        self.check()

    def check(self) -> None:
        """Raise unless the numbers, which a pytree brings unchecked, can be those of the rows."""
        for name in ("k", "gamma"):
            value = getattr(self, name)
            fits = value is None or np.shape(value) == self._still.shape
            require(fits, name, np.shape(value), "call the methods of several matrices under jax.vmap")
        self.rows.check()
        k: Any = float64(self.k, "k")
        check_k(jnp.where(self._still, jnp.ones_like(k), k) if is_traced(k) else np.where(self._still, 1.0, k))
        if self.gamma is not None:
            gamma = float64(self.gamma, "gamma")
            if is_traced(gamma):
                low, n = alike(gamma, self.rows.n_categories)
                check_traced(self._still | ((low > 0) & (low * n < 1)), "gamma", "lie between 0 and 1/n_i")
                return
            wrong = ~self._still & ~((gamma > 0) & (gamma < 1 / self.rows.n_categories))
            require(
                not wrong.any(), "gamma", self.gamma, f"rows {some(wrong)} want it between 0 and 1/n_i (A-Theorem 1, Assumption 2)"
            )

    def _each(self, value: Real, name: str) -> Any:
        """One number for each row."""
        shape, given = self.rows.n_categories.shape, float64(value, name)
        remedy = f"give one number, or one for each of the {shape[0]} rows; jax.vmap maps over several matrices"
        require(given.shape in ((), (1,), shape), name, given.shape, remedy)
        return jnp.broadcast_to(given, shape) if is_traced(given) else np.broadcast_to(given, shape)

    @classmethod
    def calibrate(
        cls,
        *,
        rows: PublicRows,
        epsilon: Number,
        delta: Number,
        accounting: Accounting = "exact",
        gamma: Real | None = None,
        unreachable: Literal["raise", "withhold"] = "raise",
    ) -> MatrixMechanism:
        """On the host: the mechanism in which every row has the largest k that meets the joint (epsilon, delta).

        unreachable: where no k of a row meets the target, "raise" (ValueError with the rows) or "withhold" it. Whether a row can
        is a matter of its public totals, support and floor alone.
        """
        require_concrete((rows, epsilon, delta, gamma), "the target", "calibrate outside the transformed function")
        check_one(epsilon=epsilon, delta=delta)
        check_epsilon(epsilon), check_delta(delta)
        require(
            accounting in ("exact", "theorem1"),
            "accounting",
            accounting,
            'pass "exact", or "theorem1" for the paper\'s bound',
            must='be "exact" or "theorem1"',
        )
        require(
            unreachable in ("raise", "withhold"),
            "unreachable",
            unreachable,
            'pass "withhold" to replace rows without a guarantee',
            must='be "raise" or "withhold"',
        )
        k, best = largest_k(rows, epsilon, delta, accounting, gamma)
        lost = ~rows.constant & ~(k > 0)
        if lost.any() and unreachable == "raise":
            which = f"rows {some(lost)} ({int(lost.sum())} of {lost.size})"
            remedy = f'{which} cannot meet it; `row_report` says why; unreachable="withhold" replaces them'
            invalid("(epsilon, delta)", (float(epsilon), float(delta)), remedy)
        least = rows.k_min if accounting == "theorem1" else 0.0
        return verified(
            lambda c: cls(rows=rows, k=np.where(lost, 1.0, np.maximum(c * k, least)), gamma=best, withheld=lost),
            lambda m: bool(m.exact_delta(epsilon) <= delta if accounting == "exact" else m.epsilon <= epsilon and m.delta <= delta),
            epsilon,
            delta,
        )

    @property
    def _still(self) -> np.ndarray:
        """Rows that say nothing of the data: constant or withheld."""
        return self.rows.constant | np.asarray(self.withheld)

    @property
    def epsilon(self) -> Claim:
        """max_i epsilon_i by A-Theorem 1; needs gamma and Assumptions 2-4 in every row that is drawn."""
        first = self._theorem1[0]
        return jnp.max(first, initial=0.0) if is_traced(first) else np.float64(np.max(first, initial=0.0))

    @property
    def delta(self) -> Claim:
        """max_i delta_i by A-Theorem 1; needs gamma and Assumptions 2-4 in every row that is drawn. Traced: as `DirichletMechanism.delta`."""
        second = self._theorem1[1]
        return jnp.max(second, initial=0.0) if is_traced(second) else np.float64(np.max(second, initial=0.0))

    def exact_delta(self, epsilon: Real) -> Claim:
        """max_i delta_i(epsilon), exactly, rounded up; scalar or array. Traced: unrounded, in the dtype of what is traced."""
        with conditions() as held:
            k, eta, records, n = self._drawn()
        if is_traced(epsilon, k, eta, records):
            with conditions() as asked:
                point = check_epsilon(epsilon)
            each = jnp.exp(exact.log_traced_delta(point[..., None], k, eta, records, n))
            return nan_unless([*map(jnp.all, held), *asked], jnp.max(each, axis=-1, initial=0.0))
        values = delta_up(exact.log_delta_of(check_epsilon(epsilon)[..., None], k, eta, records, n))
        return plain(np.max(values, axis=-1, initial=0.0))

    def exact_epsilon(self, delta: Real) -> Claim:
        """max_i epsilon_i(delta), exactly, rounded up; scalar or array. Traced: unrounded, in the dtype of what is traced."""
        with conditions() as asked:
            targets = check_delta(delta)
        with conditions() as held:
            drawn = self._drawn()
        if is_traced(targets, *drawn):
            joint = jnp.max(exact.traced_epsilon(targets[..., None], *drawn), axis=-1, initial=0.0)
            return nan_unless([*map(jnp.all, held), *asked], joint)
        return plain(np.array([exact.joint_epsilon_of(d, *drawn) for d in targets.ravel()]).reshape(targets.shape))

    def report(self, epsilon: Number, delta: Number) -> RowReport:
        """On the host: every row's public facts, its privacy as it is, and whether it could meet (epsilon, delta)."""
        self.check()
        return row_report(self.rows, epsilon=epsilon, delta=delta, k=self.k, gamma=self.gamma, withheld=self.withheld)

    def privatize(self, key: Array, P: Shares) -> Float[Array, "rows n"]:
        """One private matrix, (rows, n), in the dtype of P; differentiable once in k and P, at a fixed quantile.

        A P with a value is checked on the host against the public rows. One key and one matrix: use jax.vmap for a batch.
        """
        key = checked_key(key)
        return self.draws(key, P, 1)[0]

    def draws(self, key: Array, P: Shares, n_draws: int, first: int = 0) -> Float[Array, "draws rows n"]:
        """n_draws private matrices, (n_draws, rows, n): those numbered first, first + 1, ..., each fixed by the key and its number.

        Each is a release: n of them cost n times, unless they only measure accuracy and stay secret.
        """
        shape = self.rows.support.shape
        require(np.shape(P) == shape, "P", np.shape(P), f"its shape must be that of the support, {shape}; use jax.vmap for a batch")
        with conditions() as held:
            self.check()
        matrix = as_float(P)
        if is_traced(P, self.rows.eta):
            known = ~self._still
            outside = jnp.where(self.rows.support, jnp.zeros_like(matrix), matrix)[known]
            check_traced(outside == 0, "P", "have positive entries inside the declared support alone")
            check_traced_shares(matrix[known], self.rows.eta[known], self.rows.n_categories[known], "P")
        else:
            self._check(np.asarray(P))
        k, public = (jnp.asarray(x, dtype=matrix.dtype) for x in (self.k, self._public_rows()))
        still = jnp.asarray(self._still)
        drawn = dirichlet(key, row_concentrations(matrix, k, still, public), n_draws, first)
        return nan_unless([*map(jnp.all, held)], jnp.where(still[None, :, None], public[None], drawn))

    def _public_rows(self) -> np.ndarray:
        return self.rows.support / self.rows.n_categories[:, None]

    def _check(self, P: np.ndarray) -> None:
        drawn = ~self._still
        outside = drawn & (np.where(self.rows.support, 0.0, P) != 0).any(axis=1)
        require(not outside.any(), "P", some(outside), "these rows have positive entries outside the declared support")
        if drawn.any():
            check_shares(P[drawn], self.rows.eta[drawn], self.rows.n_categories[drawn], "P")

    def _drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        self.check()
        drawn = ~self._still
        empty = drawn & ~self.rows.has_adjacent_pair
        if is_traced(empty):
            check_traced(~empty, "rows", "leave every drawn row two adjacent count vectors")
        else:
            require(not empty.any(), "rows", some(empty), NO_PAIR)
        return (
            _array(self.k)[drawn],
            _array(self.rows.eta)[drawn],
            _array(self.rows.n_records)[drawn],
            self.rows.n_categories[drawn].astype(float),
        )

    @functools.cached_property
    def _theorem1(self) -> tuple[Any, Any]:
        if self.gamma is None:
            invalid(
                "gamma",
                None,
                "A-Theorem 1 needs a gamma in (0, 1/n_i); exact_delta and exact_epsilon need none",
                problem="is not given",
            )
        self.check()
        drawn = ~self._still
        if is_traced(self):
            k, eta, records, n = self._drawn()
            gamma = _array(self.gamma)[drawn]
            first = theorem1.theorem1_epsilon(k, eta, records, n, gamma)
            return first, theorem1.omega_delta_at_corner(k, eta, n, gamma)
        reasons = theorem1_reasons(self.rows, np.asarray(self.k), np.asarray(self.gamma))
        broken = drawn & np.array([r != "" for r in reasons], dtype=bool)
        require(not broken.any(), "rows", some(broken), f"in row {np.argmax(broken)}: {reasons[int(np.argmax(broken))]}")
        return theorem1_values(self.rows, np.asarray(self.k), np.asarray(self.gamma), drawn)
