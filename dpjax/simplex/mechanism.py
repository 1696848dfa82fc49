"""The Dirichlet mechanism on one count vector (A-Definition 5, Algorithm 1): its privacy, its calibration, and its expected error.

C holds the shares of N records in n categories, every share at least eta. The mechanism releases one draw of Dirichlet(k C). k, eta, N, n
(and gamma, which only the proof of Theorem 1 needs) are public. Adjacent databases differ in one record's category. The guarantee covers
databases whose shares are all at least eta, and no others.

*Expected error* is the expected KL divergence of C from its private draw (A-Theorem 2, A-Corollary 1). With C~ ~ Dirichlet(k C), log x -
psi(x) = L(x) > 0, and 0 log 0 = 0,

    E KL(C || C~) = sum_i C_i (log C_i + psi(k) - psi(k C_i)) = sum_i C_i L(k C_i) - L(k),

a sum in which no large terms cancel. Its derivatives are written in terms of m(x) = x L(x), below x = 1 as 1 - x log(1 + 1/x) + x L(x + 1),
so that they stay accurate and finite as a share falls to 0, where L(x) alone grows like 1/x.

y (log y - psi(y)) is convex. Over count vectors of N records with every category seen the maximum is therefore at the vertex (1/N, ...,
1/N, 1 - (n-1)/N) (Corollary 1), and over the bordered simplex at (eta, ..., eta, 1 - (n-1) eta).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import invalid, require
from dpjax._random import checked_key
from dpjax._tracing import check_traced, conditions, float_dtype, frozen_pytree, in_float64, is_traced, nan_unless, require_concrete
from dpjax.simplex import exact, theorem1
from dpjax.simplex._rounding import (
    SAFETY,
    Claim,
    Number,
    Real,
    alike,
    check_delta,
    check_epsilon,
    float64,
    in_blocks,
    in_trace,
    plain,
    require_all,
    verified,
)
from dpjax.simplex.gamma import dirichlet
from dpjax.simplex.rows import (
    Shares,
    as_float,
    check_adjacent_pair,
    check_border,
    check_count,
    check_k,
    check_one,
    check_positive,
    check_shapes,
    check_shares,
    check_traced_shares,
)
from dpjax.simplex.special import log_minus_digamma


@jax.custom_jvp
def _share_cost(C: Float[Array, "*shape"], k: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """C L(k C) = m(k C)/k for C, k > 0."""
    return C * log_minus_digamma(k * C)


@_share_cost.defjvp
def _share_cost_derivative(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    C, k = primals
    x = k * C
    near = x < 1.0
    small, large = jnp.where(near, x, 0.5), jnp.where(near, 1.0, x)
    slope = _slope_of_log_minus_digamma
    # m' and x m' - m = x^2 L'
    below = jnp.log(small) - jnp.log1p(small) + 1 / (1 + small) + log_minus_digamma(1 + small) + small * slope(1 + small)
    by_share = jnp.where(near, below, log_minus_digamma(large) + large * slope(large))
    by_k = jnp.where(near, small**2 * slope(1 + small) - 1 / (1 + small), large**2 * slope(large)) / k**2
    return _share_cost(C, k), by_share * tangents[0] + by_k * tangents[1]


def _slope_of_log_minus_digamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The derivative L'(x)."""
    return jax.jvp(log_minus_digamma, (x,), (jnp.ones_like(x),))[1]


@jax.jit
def kl_of_shares(C: Float[Array, "*batch n"], k: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """A-Theorem 2, pure and differentiable; zero shares are excluded. For float64."""
    concentration = jnp.broadcast_to(k[..., None], C.shape)
    positive = C > 0
    each = jnp.where(positive, _share_cost(jnp.where(positive, C, 1.0), concentration), 0.0)
    return each.sum(axis=-1) - log_minus_digamma(k)


@jax.jit
def kl_at_corner(
    least: Float[Array, "*shape"], n_categories: Float[Array, "*shape"], k: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """E KL at (least, ..., least, 1 - (n-1) least), pure; arguments of one shape. For float64."""
    rest = 1 - (n_categories - 1) * least
    return (n_categories - 1) * least * log_minus_digamma(k * least) + rest * log_minus_digamma(k * rest) - log_minus_digamma(k)


_theorem2 = in_float64(kl_of_shares)
_corner = in_blocks(kl_at_corner)


def _traced_corner(least: Array, n_categories: Array, k: Array) -> Array:
    """`kl_at_corner` in a form with accurate derivatives."""
    rest = 1 - (n_categories - 1) * least
    return (n_categories - 1) * _share_cost(least, k) + _share_cost(rest, k) - log_minus_digamma(k)


def expected_kl(C: np.ndarray | jax.Array | list | tuple, k: Real) -> Claim:
    """The expected KL divergence E KL(C || C~), in nats, of shares C from their private draw C~ ~ Dirichlet(k C).

    It is a function of the sensitive C: do not release it. A zero share adds nothing (0 log 0 = 0): it is a category outside the support,
    and its derivative is 0.

    Args:
        C: Shares on the simplex, (*batch, n).
        k: The concentration, positive; broadcasts against *batch.

    Returns:
        Nats, (*batch,), NumPy float64; a traced argument gives a traced value in its dtype.

    Raises:
        InputError: C is not on the simplex, or k is not positive.

    Source:
        A-Theorem 2.

    Example:
        >>> from dpjax.simplex import expected_kl
        >>> round(float(expected_kl([0.2, 0.3, 0.5], 100.0)), 6)
        0.010078
    """
    shares = float64(C, "C")
    remedy, rule = "give shares, such as counts / counts.sum()", "hold shares, all at least 0, on its last axis"
    require(shares.ndim >= 1, "C", C, remedy, must=rule)
    require_all(shares >= 0, "C", C, remedy, must=rule)
    batch, given = shares.shape[:-1], np.shape(k)
    remedy_k = f"its shape {given} must broadcast against the batch shape of C, {batch}"
    require(_fits(batch, given), "k", None, remedy_k, problem="is not one number, or one for each row of C")
    whole = "divide counts by their sum, which gives a float dtype"
    counted = is_traced(C) and not jnp.issubdtype(shares.dtype, jnp.floating)
    require(not counted, "C", None, whole, problem="holds whole numbers, not shares")
    if is_traced(shares, k):
        with conditions() as held:
            check_positive(k, "k")
            require_all(shares.sum(axis=-1) > 0, "C", C, remedy, must=rule)
            require_all((shares >= 0).all(axis=-1), "C", C, remedy, must=rule)
        return nan_unless(held, _traced_kl(shares, k))
    off = np.abs(shares.sum(axis=-1) - 1)
    require(
        bool((off <= 1e-5).all()),
        "C",
        C,
        f"its shares do not sum to one (they miss it by {float(np.max(off, initial=0.0)):g}): divide them by their sum",
    )
    concentration = check_positive(k, "k")
    batch = np.broadcast_shapes(shares.shape[:-1], concentration.shape)
    value = _theorem2(np.broadcast_to(shares, (*batch, shares.shape[-1])), np.broadcast_to(concentration, batch))
    require(bool(np.isfinite(value).all()), "k", k, "the divergence at this k is beyond the range of float64: pass a larger k")
    return plain(value)


def _fits(*shapes: tuple[int, ...]) -> bool:
    """Whether shapes broadcast."""
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _traced_kl(C: Any, k: Any) -> jax.Array:
    dtype = float_dtype(C, k)
    shares, concentration = jnp.asarray(C, dtype), jnp.asarray(k, dtype)
    check_traced(jnp.abs(shares.sum(axis=-1) - 1) <= 1e-5, "C", "hold shares that sum to one")
    batch = jnp.broadcast_shapes(shares.shape[:-1], concentration.shape)
    return kl_of_shares(_to_shape(shares, (*batch, shares.shape[-1])), _to_shape(concentration, batch))


def _to_shape(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.broadcast_to(x.reshape((1,) * (len(shape) - x.ndim) + x.shape), shape)


def expected_kl_bound(n_records: Real, n_categories: Real, k: Real, eta: Real | None = None) -> Claim:
    """A bound on E KL(C || C~), in nats, for every count vector: A-Corollary 1, or a sharper one for shares of at least eta.

    It does not depend on the data: all its arguments are public. Arguments broadcast.

    Args:
        n_records: The number of records N, at least n_categories (every category is seen).
        n_categories: The number of categories n.
        k: The concentration, positive.
        eta: The floor of the shares. Default: the bound of A-Corollary 1.

    Returns:
        Nats, rounded up, NumPy float64; a traced argument gives an unrounded value in its dtype.

    Raises:
        InputError: An argument is out of range.

    Source:
        A-Corollary 1; with eta, the same convexity argument on the bordered simplex (see the module).

    Example:
        >>> from dpjax.simplex import expected_kl_bound
        >>> round(float(expected_kl_bound(98, 5, 20.6)), 4), round(float(expected_kl_bound(98, 5, 20.6, eta=0.073)), 4)
        (0.1418, 0.1075)
    """
    check_shapes(n_records=n_records, n_categories=n_categories, k=k, eta=0.0 if eta is None else eta)
    with conditions() as held:
        n = check_count(n_categories, "n_categories", 2)
        records = check_positive(n_records, "n_records")
        concentration = check_positive(k, "k")
        if eta is not None and is_traced(n, eta):
            check_border(eta, n)
    if is_traced(n, records, concentration, eta):
        return nan_unless(held, _traced_bound(n, records, concentration, eta))
    if eta is None:
        require(
            bool((records >= n).all()),
            "n_records",
            n_records,
            "Corollary 1 assumes that every category is seen: pass n_categories or more",
        )
        least = 1 / records
    else:
        least = check_border(eta, n)
    least, n, concentration, _ = np.broadcast_arrays(least, n, concentration, records)
    value = _corner(np.minimum(least, 1 / n), n, concentration) * (1 + SAFETY)
    problem = "give shapes k/n_records or k eta beyond the range of float64"
    require(bool(np.isfinite(value).all()), "n_records, k and eta", None, "pass fewer records or a larger k", problem=problem)
    return plain(value)


def _traced_bound(n: Any, n_records: Any, k: Any, eta: Any) -> jax.Array:
    if eta is not None:
        return in_trace(_traced_corner, check_border(eta, n), n, k)
    records, number = alike(n_records, n)
    check_traced(records >= number, "n_records", "be n_categories or more (every category seen)")
    return in_trace(_traced_seen, n_records, n, k)


def _traced_seen(n_records: Array, n_categories: Array, k: Array) -> Array:
    return _traced_corner(1 / n_records, n_categories, k)


Accounting = Literal["exact", "theorem1"]


@frozen_pytree("k", "eta", "n_records", "gamma", static=("n_categories",))
@dataclasses.dataclass(frozen=True, kw_only=True)
class DirichletMechanism:
    """The Dirichlet mechanism C -> Dirichlet(k C) on count vectors of n_records records with all n_categories shares at least eta.

    All privacy figures are NumPy float64, in nats, rounded to the safe side. A pytree: k, eta, n_records and gamma are leaves and may be
    traced; n_categories is static. Figures of traced numbers are unrounded, in their dtype, and differentiable. Each field is one number:
    use `jax.vmap` for several mechanisms.

    Args:
        k: The concentration, between 1e-9 and 1e20.
        eta: The public floor of the shares, in (0, 1/n].
        n_records: The public number of records N.
        n_categories: The public number of categories n, at least 2.
        gamma: A threshold in (0, 1/n). Only A-Theorem 1 (`epsilon`, `delta`) needs it.

    Raises:
        InputError: A number is out of range, or no two adjacent count vectors have all shares >= eta.

    Source:
        A-Definition 5 and Algorithm 1 of the Dirichlet-mechanism paper; Theorem 6 for the exact figures.

    Example:
        >>> from dpjax import DirichletMechanism
        >>> m = DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=5, gamma=4e-4)
        >>> round(float(m.epsilon), 4), round(float(m.exact_epsilon(0.0026)), 4)
        (2.2119, 0.6294)
    """

    k: Number
    eta: Number
    n_records: Number
    n_categories: Number
    gamma: Number | None = None

    def __post_init__(self) -> None:
        check_one(k=self.k, eta=self.eta, n_records=self.n_records, n_categories=self.n_categories)
        n = check_count(self.n_categories, "n_categories", 2)
        check_k(self.k)
        border, records = check_border(self.eta, n), check_positive(self.n_records, "n_records")
        check_adjacent_pair(border, records, n)
        if self.gamma is not None:
            threshold = check_positive(self.gamma, "gamma")
            if is_traced(threshold, n):
                low, number = alike(threshold, n)
                check_traced(low * number < 1, "gamma", "be below 1/n")
                return
            require(
                bool(threshold < 1 / n),
                "gamma",
                self.gamma,
                f"pass a value below 1/n = {float(1 / n):.6g} (A-Theorem 1, Assumption 2)",
            )

    @classmethod
    def calibrate(
        cls,
        *,
        epsilon: Number,
        delta: Number,
        eta: Number,
        n_records: Number,
        n_categories: Number,
        accounting: Accounting = "exact",
        gamma: Number | None = None,
    ) -> DirichletMechanism:
        """On the host: the mechanism with the largest k that is (epsilon, delta)-private by the named accounting.

        Args:
            epsilon: The target in nats, finite and at least 0.
            delta: The target, strictly between 0 and 1.
            eta: The public floor of the shares.
            n_records: The public number of records.
            n_categories: The public number of categories.
            accounting: "exact" (Theorem 6, any k > 0) or "theorem1" (A-Theorem 1 with its assumptions).
            gamma: The threshold of A-Theorem 1. Default: the best one.

        Raises:
            InputError: No k meets the target; the message says what can be reached.
        """
        given = (epsilon, delta, eta, n_records, n_categories, gamma)
        require_concrete(given, "the target", "calibrate outside the transformed function")
        check_one(epsilon=epsilon, delta=delta, eta=eta, n_records=n_records, n_categories=n_categories)
        check_epsilon(epsilon), check_delta(delta)
        if accounting == "exact":
            k = exact.calibrate_exact(epsilon=epsilon, delta=delta, eta=eta, n_records=n_records, n_categories=n_categories)
            if not k > 0:
                _unreachable(epsilon, delta, eta, n_records, n_categories)
            return verified(
                lambda c: cls(k=c * float(k), eta=eta, n_records=n_records, n_categories=n_categories, gamma=gamma),
                lambda m: bool(m.exact_delta(epsilon) <= delta),
                epsilon,
                delta,
            )
        require(
            accounting == "theorem1",
            "accounting",
            accounting,
            'pass "exact", or "theorem1" for the paper\'s bound',
            must='be "exact" or "theorem1"',
        )
        k, best = theorem1.calibrate_theorem1(
            epsilon=epsilon, delta=delta, eta=eta, n_records=n_records, n_categories=n_categories, gamma=gamma
        )
        if not k > 0:
            theorem1.unreachable(epsilon, delta, eta, n_records, int(n_categories), gamma)
        return verified(
            lambda c: cls(
                k=max(c * float(k), 1.5 / float(eta)), eta=eta, n_records=n_records, n_categories=n_categories, gamma=float(best)
            ),
            lambda m: bool(m.epsilon <= epsilon and m.delta <= delta),
            epsilon,
            delta,
        )

    @property
    def epsilon(self) -> Claim:
        """A-Theorem 1's epsilon: equation (6) as printed for n >= 3, corrected for n = 2. Requires gamma and Assumptions 2-4."""
        gamma = self._gamma("epsilon")
        return theorem1.theorem1_epsilon(self.k, self.eta, self.n_records, self.n_categories, gamma)

    @property
    def tight_epsilon(self) -> Claim:
        """A-Theorem 1's epsilon with s = 1 - (n-2) eta: valid for every n, smaller than `epsilon` for n > 3."""
        gamma = self._gamma("tight_epsilon")
        return theorem1.theorem1_epsilon(self.k, self.eta, self.n_records, self.n_categories, gamma, "corrected")

    @property
    def delta(self) -> Any:
        """A-Theorem 1's delta: P(some share < gamma) at the worst count vector. Requires gamma and Assumptions 2-4.

        A traced mechanism gives the contour integral alone, which is not certified, for gamma up to 3 eta/4.
        """
        if not is_traced(self):
            return self.omega().delta
        gamma = self._gamma("delta")
        theorem1.check_theorem1(self.k, self.eta, self.n_categories, gamma)
        low, floor = alike(gamma, self.eta)
        check_traced(low <= 0.75 * floor, "gamma", "be at most 3 eta/4, where the contour integral is accurate")
        return theorem1.omega_delta_at_corner(self.k, self.eta, self.n_categories, gamma)

    def omega(self) -> theorem1.OmegaDelta:
        """On the host: A-Theorem 1's delta, the method that gave it, and its lower and upper bound."""
        gamma = self._gamma("delta")
        theorem1.check_theorem1(self.k, self.eta, self.n_categories, gamma)
        return theorem1.omega_delta(self.k, self.eta, self.n_categories, gamma)

    def exact_delta(self, epsilon: Real) -> Claim:
        """The exact delta at epsilon >= 0 (scalar or array), rounded up.

        A traced argument gives an unrounded value in its dtype.

        Source:
            Theorem 6.
        """
        return exact.exact_delta(epsilon, **self._public())

    def exact_epsilon(self, delta: Real) -> Claim:
        """The exact epsilon at delta in (0, 1) (scalar or array), rounded up.

        A traced argument gives an unrounded value in its dtype.

        Source:
            Theorem 6.
        """
        return exact.exact_epsilon(delta, **self._public())

    def renyi(self, alpha: Real) -> Claim:
        """The Rényi epsilon of order alpha > 1; +inf for alpha >= 1 + N eta. The Rényi epsilons of several releases add."""
        return exact.renyi_divergence(alpha, **self._public())

    def privatize(self, key: Array, C: Shares) -> Float[Array, "*batch n"]:
        """One private vector for each count vector C. Every vector drawn is a release of its own.

        Differentiable once in k and C, at a fixed quantile.

        Args:
            key: One typed JAX key.
            C: Shares, (*batch, n); the rows of the batch give independent draws. Zero shares beyond n_categories are structural (outside
                the public support) and stay exactly zero. A concrete C is checked on the host; a traced one is not.

        Returns:
            Private shares, (*batch, n), in the dtype of C. Each vector sums to one.

        Raises:
            InputError: A concrete C does not sum to one, does not have n_categories positive shares, or has a share below eta.
        """
        key = checked_key(key)
        with conditions() as held:
            n = check_count(self._public()["n_categories"], "n_categories", 2)
            check_k(self.k), check_border(self.eta, n), check_positive(self.n_records, "n_records")
        if is_traced(C, self.eta, self.n_categories):
            check_traced_shares(C, self.eta, self.n_categories)
        else:
            check_shares(C, np.asarray(self.eta), np.asarray(self.n_categories))
        shares = as_float(C)
        return nan_unless(held, dirichlet(key, jnp.asarray(self.k, dtype=shares.dtype) * shares, 1)[0])

    def _public(self) -> dict[str, Any]:
        """The public numbers, which must describe one mechanism."""
        several = [name for name in ("k", "eta", "n_records") if np.ndim(getattr(self, name)) > 0]
        remedy = "use jax.vmap to call methods of several mechanisms"
        require(not several, ", ".join(several), None, remedy, problem="holds the numbers of several mechanisms")
        return {"k": self.k, "eta": self.eta, "n_records": self.n_records, "n_categories": self.n_categories}

    def _gamma(self, asked: str) -> Any:
        """gamma, which must be given."""
        if self.gamma is None:
            remedy = (
                f"A-Theorem 1's {asked} needs a gamma in (0, 1/n): pass one, or use exact_delta and exact_epsilon, which need none"
            )
            invalid("gamma", None, remedy, problem="is not given")
        self._public()
        return self.gamma if is_traced(self.gamma) else float(self.gamma)


def _unreachable(epsilon: Number, delta: Number, eta: Number, n_records: Number, n_categories: Number) -> None:
    """Raise InputError: no k meets the target. The message says what can be reached."""
    floor = exact.delta_floor(epsilon, eta=eta, n_records=n_records, n_categories=n_categories)
    least = exact.epsilon_floor(delta, eta=eta, n_records=n_records, n_categories=n_categories)
    remedy = (
        f"no k meets it with N eta = {n_records * eta:.4g}: delta stays above {floor:.4g} at epsilon = {epsilon:g},"
        f" and epsilon above {least:.4g} at delta = {delta:g}; pass a larger target, or a larger N eta (more records in the smallest cell)"
    )
    invalid("(epsilon, delta)", (float(epsilon), float(delta)), remedy)
