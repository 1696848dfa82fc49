"""A transition matrix whose rows go through the Dirichlet mechanism independently (Algorithm 2), and reports on its rows.

Parallel composition (A-Theorem 3). Adjacent databases differ in one record of one row; the other rows are independent and equally
distributed. So, at a common epsilon, exactly delta_total(epsilon) = max_i delta_i(epsilon), and epsilon_total(delta) = max_i
epsilon_i(delta). By A-Theorem 1 the pair is (max_i epsilon_i, max_i delta_i). Constant rows (one supported category) and withheld rows
(released as the uniform distribution on their public support) reveal nothing about the data. A change of a record's row changes two totals
and is not covered: use `PseudocountMechanism`.

A report reads only public facts (`PublicRows`), so that it may be shown before any data are read.
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
_WITHHELD = "withheld: released as the uniform distribution on its public support"
NO_PAIR = (
    "n eta + 1/N > 1: no adjacent count vector has all shares >= eta, so the guarantee would be empty: declare a smaller floor"
)


class RowReport(NamedTuple):
    """The public facts and the claims of each row. A constant or withheld row has epsilon = delta = 0.

    k_min is 3/(2 eta), the least k of A-Theorem 1. epsilon and delta are those of A-Theorem 1, and +inf and 1 if it does not apply at that
    k and gamma. exact_delta and delta_floor (the delta that no k goes below) are taken at the target's epsilon, and are 1 if no adjacent
    pair exists. theorem1_reachable and exact_reachable say whether some k meets the target in that accounting. reason_theorem1 and
    reason_exact say why none does, and are empty otherwise.
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
    """The largest k of each row, and its gamma; k = 0 if no k meets the target."""
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
    """Why A-Theorem 1 does not apply to each row; empty if it applies."""
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
    """On the host: what each row of a count matrix can promise at the target (epsilon, delta). Only public facts are read.

    Args:
        rows: The public facts of the matrix.
        epsilon: The target in nats, at least 0.
        delta: The target, strictly between 0 and 1.
        k: Concentrations, one number or (rows,). Default: 3/(2 eta_i).
        gamma: Thresholds of A-Theorem 1, one number or (rows,). Default: no epsilon and delta of A-Theorem 1 are stated, and the best gamma
            decides what is reachable.
        withheld: The rows released as uniform, (rows,), booleans. Default: none.

    Returns:
        A RowReport.
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
    """Why no k meets the target by A-Theorem 1, for one row."""
    other = "no k >= 3/(2 eta) with any gamma meets the target by A-Theorem 1"
    return other if not reason or reason.startswith(("Assumption 2", "Assumption 4")) else reason


def _why_exact(rows: PublicRows, floor: Numbers, epsilon: Number) -> list[str]:
    """Why no k meets the target by the exact accounting, for each row."""
    cells = rows.n_records * rows.eta
    under = "no k has delta below {:.3g} at epsilon = {:g}: the rarest cell has N eta = {:.3g} records"
    return [under.format(f, epsilon, m) if p else NO_PAIR for f, m, p in zip(floor, cells, rows.has_adjacent_pair, strict=True)]


def _words(rows: PublicRows, still: Numbers, reachable: Numbers, why: list[str]) -> tuple[str, ...]:
    """The reason for each row; empty if the target can be met."""
    quiet = [_CONSTANT if c else _WITHHELD for c in rows.constant]
    return tuple(q if s else "" if r else w for q, s, r, w in zip(quiet, still, reachable, why, strict=True))


def _array(x: Any) -> Any:
    return x if is_traced(x) else np.asarray(x)


@jax.jit
def row_concentrations(
    P: Float[Array, "rows n"], k: Float[Array, " rows"], still: Bool[Array, " rows"], public: Float[Array, "rows n"]
) -> Float[Array, "rows n"]:
    """k_i P_i; the public row itself for a constant or withheld row. Pure, unchecked."""
    return jnp.where(still[:, None], public, k[:, None] * P)


@frozen_pytree("rows", "k", "gamma", static=("withheld",))
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MatrixMechanism:
    """The mechanism P -> private P, where row i is a draw of Dirichlet(k_i P_i), with the joint guarantee of all rows.

    A pytree: k, gamma and the numbers of `rows` are leaves and may be traced; the support and the withheld rows are static. Figures of
    traced numbers are unrounded, in their dtype, and differentiable. It describes one matrix: use `jax.vmap` for several.

    Args:
        rows: The public facts of the matrix.
        k: Concentrations, one number or (rows,); not used in constant and withheld rows.
        gamma: Thresholds of A-Theorem 1, one number or (rows,), in (0, 1/n_i). Only `epsilon` and `delta` need them.
        withheld: The rows that are replaced by the uniform distribution on their public support, (rows,), booleans. They cost no privacy.

    Source:
        Algorithm 2 and A-Theorem 3 of the Dirichlet-mechanism paper.

    Example:
        >>> import numpy as np
        >>> from dpjax.simplex import MatrixMechanism, PublicRows
        >>> rows = PublicRows(n_records=[98, 50], support=np.ones((2, 5), bool), eta=0.1)
        >>> m = MatrixMechanism.calibrate(rows=rows, epsilon=1.0, delta=0.01)
        >>> bool(m.exact_delta(1.0) <= 0.01)
        True
    """

    rows: PublicRows
    k: np.ndarray | float
    gamma: np.ndarray | float | None = None
    withheld: np.ndarray | None = None

    adjacency = "replace-within-row"

    def __post_init__(self) -> None:
        shape = self.rows.n_categories.shape
        require_concrete(
            self.withheld, "withheld", "choose the withheld rows outside the transformed function: they are static structure"
        )
        withheld = np.zeros(shape, bool) if self.withheld is None else np.broadcast_to(np.asarray(self.withheld, bool), shape)
        object.__setattr__(self, "withheld", withheld)
        k: Any = self._each(self.k, "k")
        k = jnp.where(self._still, jnp.ones_like(k), k) if is_traced(k) else np.where(self._still, 1.0, k)
        object.__setattr__(self, "k", k)
        if self.gamma is not None:
            object.__setattr__(self, "gamma", self._each(self.gamma, "gamma"))
        self.check()

    def check(self) -> None:
        """Raise InputError unless the numbers are possible. A pytree brings them unchecked."""
        for name in ("k", "gamma"):
            value = getattr(self, name)
            fits = value is None or np.shape(value) == self._still.shape
            require(fits, name, np.shape(value), "use jax.vmap to call methods of several matrices")
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
                not wrong.any(),
                "gamma",
                self.gamma,
                f"rows {some(wrong)} require values between 0 and 1/n_i (A-Theorem 1, Assumption 2)",
            )

    def _each(self, value: Real, name: str) -> Any:
        """One number for each row."""
        shape, given = self.rows.n_categories.shape, float64(value, name)
        remedy = f"pass one number, or one for each of the {shape[0]} rows; use jax.vmap for several matrices"
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

        Args:
            rows: The public facts of the matrix. Only they decide whether a row can meet the target.
            epsilon: The target in nats, finite and at least 0.
            delta: The target, strictly between 0 and 1.
            accounting: "exact" (Theorem 6) or "theorem1" (A-Theorem 1 with its assumptions).
            gamma: Thresholds of A-Theorem 1, one number or (rows,). Default: the best ones.
            unreachable: "raise" an error for rows that no k brings to the target, or "withhold" those rows.

        Raises:
            InputError: A row cannot meet the target and `unreachable` is "raise".
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
            remedy = f'{which} cannot meet it: call `row_report` for the reasons, or pass unreachable="withhold" to replace them'
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
        """The rows that reveal nothing about the data: constant or withheld."""
        return self.rows.constant | np.asarray(self.withheld)

    @property
    def epsilon(self) -> Claim:
        """max_i epsilon_i by A-Theorem 1. Requires gamma and, in every row that is drawn, Assumptions 2-4."""
        first = self._theorem1[0]
        return jnp.max(first, initial=0.0) if is_traced(first) else np.float64(np.max(first, initial=0.0))

    @property
    def delta(self) -> Claim:
        """max_i delta_i by A-Theorem 1. Requires gamma and, in every row that is drawn, Assumptions 2-4.

        A traced mechanism gives the uncertified contour integral, as `DirichletMechanism.delta` does.
        """
        second = self._theorem1[1]
        return jnp.max(second, initial=0.0) if is_traced(second) else np.float64(np.max(second, initial=0.0))

    def exact_delta(self, epsilon: Real) -> Claim:
        """The exact joint delta max_i delta_i(epsilon), rounded up; scalar or array.

        A traced argument gives an unrounded value in its dtype.
        """
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
        """The exact joint epsilon max_i epsilon_i(delta), rounded up; scalar or array.

        A traced argument gives an unrounded value in its dtype.
        """
        with conditions() as asked:
            targets = check_delta(delta)
        with conditions() as held:
            drawn = self._drawn()
        if is_traced(targets, *drawn):
            joint = jnp.max(exact.traced_epsilon(targets[..., None], *drawn), axis=-1, initial=0.0)
            return nan_unless([*map(jnp.all, held), *asked], joint)
        return plain(np.array([exact.joint_epsilon_of(d, *drawn) for d in targets.ravel()]).reshape(targets.shape))

    def report(self, epsilon: Number, delta: Number) -> RowReport:
        """On the host: the public facts of every row, its privacy at the current k, and whether it can meet (epsilon, delta)."""
        self.check()
        return row_report(self.rows, epsilon=epsilon, delta=delta, k=self.k, gamma=self.gamma, withheld=self.withheld)

    def privatize(self, key: Array, P: Shares) -> Float[Array, "rows n"]:
        """One private matrix, (rows, n), in the dtype of P.

        Differentiable once in k and P, at a fixed quantile. For a batch use `jax.vmap`.

        Args:
            key: One typed JAX key.
            P: One matrix, (rows, n). A concrete P is checked on the host against the public rows.

        Raises:
            InputError: P has positive entries outside the support, or a row is not a valid vector of shares.
        """
        key = checked_key(key)
        return self.draws(key, P, 1)[0]

    def draws(self, key: Array, P: Shares, n_draws: int, first: int = 0) -> Float[Array, "draws rows n"]:
        """The private matrices numbered first, ..., first + n_draws - 1, (n_draws, rows, n). The key and its number fix each.

        Each is a release: n of them cost n times, unless they only measure accuracy and stay secret.

        Args:
            key: One typed JAX key.
            P: One matrix, (rows, n).
            n_draws: How many matrices.
            first: The number of the first one.
        """
        shape = self.rows.support.shape
        require(
            np.shape(P) == shape,
            "P",
            np.shape(P),
            f"its shape must equal the shape of the support, {shape}; use jax.vmap for a batch",
        )
        with conditions() as held:
            self.check()
        matrix = as_float(P)
        if is_traced(P, self.rows.eta):
            known = ~self._still
            outside = jnp.where(self.rows.support, jnp.zeros_like(matrix), matrix)[known]
            check_traced(outside == 0, "P", "have positive entries only inside the declared support")
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
        require(
            not outside.any(),
            "P",
            some(outside),
            "these rows have positive entries outside the declared support: set them to 0, or declare a larger support",
        )
        if drawn.any():
            check_shares(P[drawn], self.rows.eta[drawn], self.rows.n_categories[drawn], "P")

    def _drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        self.check()
        drawn = ~self._still
        empty = drawn & ~self.rows.has_adjacent_pair
        if is_traced(empty):
            check_traced(~empty, "rows", "allow two adjacent count vectors in every drawn row")
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
                "A-Theorem 1 needs a gamma in (0, 1/n_i): pass one, or use exact_delta and exact_epsilon, which need none",
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
