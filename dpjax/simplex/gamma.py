"""Gamma and Dirichlet draws in log space, differentiable once in their shapes.

*Gamma draws* by Marsaglia and Tsang's method, exact in law, in one fused pass over all lanes. For alpha >= 1 put d = alpha - 1/3, c
= 1/sqrt(9 d), x ~ N(0, 1), t = c x, v = (1 + t)^3, U uniform. Given acceptance, d v has the distribution Gamma(alpha, 1). A
proposal is accepted if t > -1 and

    log U <= x^2/2 + d - d v + d log v = 3 d R(t),   R(t) = log(1 + t) - t + t^2/2 - t^3/3

(Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26, 2000). The second form, ours, has no
cancellation for large d, where t is of order d^(-1/2): for |t| < 0.1 the series of R, which starts with -t^4/4, is used. The draw
is log d + 3 log(1 + t). For alpha up to 1e9 the float32 deviation 3 log1p(t) keeps its relative precision, and `gamma_parts`
returns it separately from log d. For alpha < 1, log Gamma(alpha) = log Gamma(alpha + 1) - E / alpha with E ~ Exp(1), in log space,
where nothing underflows. At alpha = 0 the draw is exactly -inf: a structural zero.

A proposal is accepted with probability 0.95 at alpha = 1, and more above; `redraw_rejected` draws the rejected lanes again. Sample
i of component j depends only on the key, i, j and alpha_j (`lane_words`).

*Dirichlet draws*, in log space until the end. If g_j ~ Gamma(alpha_j, 1) are independent, p = g / sum(g) ~ Dirichlet(alpha). With
log g_j = log d_j + y_j, top = max_j y_j and w_j = d_j / sum(d), over the categories with alpha_j > 0:

    p_j = w_j e^(y_j - top) / sum_l w_l e^(y_l - top).

The large common part of the logarithms never appears. float32 therefore keeps the relative precision of p_j for alpha up to 1e9,
and log p does not underflow for alpha down to 1e-30. (A float32 p_j itself is zero with probability 0.4 at alpha_j = 0.01.) alpha_j
= 0 makes category j impossible: p_j = 0 and log p_j = -inf exactly, and the others have their Dirichlet distribution.

*The derivative in the shape* is the implicit derivative of log x at a fixed level of the distribution function. With P(alpha, x)
the distribution function of Gamma(alpha, 1), x(alpha) at fixed P obeys (Figurnov, Mohamed and Mnih, "Implicit reparameterization
gradients", NeurIPS 2018)

    d log x / d alpha = - (dP / d alpha) / (x dP / dx).

For x <= 1, the power series log P = alpha log x - log Gamma(alpha + 1) + log M with M = sum_k (-x)^k alpha / ((alpha + k) k!) gives
(ours)

    d log x / d alpha = (psi(alpha + 1) - log x - d_alpha log M) / (alpha + d_(log x) log M).

This function of log x stays accurate where x underflows, as nearly all draws do at small shapes. For x > 1 JAX's
`random_gamma_grad` divided by x is used, except for large shapes, where it loses digits. There the derivative of d (1 + c z)^3 at
fixed z is used, with t = (x/d)^(1/3) - 1:

    d log x / d alpha = (1 - 3 t / (2 (1 + t))) / d (1 + O(alpha^(-3/2))).

The mean of the derivative over draws is d E[log x] / d alpha = psi'(alpha), the trigamma function. A second derivative would need
two derivatives of the incomplete gamma function in its shape, which JAX does not have, so it raises a TypeError. Second derivatives
of expectations come from their closed forms (`dpjax.simplex.mechanism.kl_of_shares`).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Bool, Float, Key, UInt32

from dpjax._errors import require
from dpjax._random import checked_key
from dpjax._tracing import check_traced, is_traced
from dpjax.simplex._gamma_lanes import GROUP, WORD_BITS, exponential, lane_words, open_unit, redraw_rejected, standard_normal

_TERMS = 20  # terms of M for x <= 1: 1/20! is below the precision of float64
_LARGE = {"float32": 1e3, "float64": 1e6}  # above, the cube form is more accurate than `random_gamma_grad`, or accurate to 1e-8


@jax.custom_jvp
def log_gamma_derivative(
    alpha: Float[Array, "*lanes"], log_d: Float[Array, "*lanes"], deviation: Float[Array, "*lanes"]
) -> Float[Array, "*lanes"]:
    """d log x / d alpha at a fixed quantile level, for the draw log x = log_d + deviation; 0 if log x = -inf."""
    possible = deviation > -jnp.inf
    log_x = jnp.where(possible, log_d + deviation, 0)
    alpha = jnp.where(possible, alpha, 1)
    small, large = log_x <= 0, alpha > _LARGE[alpha.dtype.name]
    x = jnp.exp(jnp.where(small | large, 0, log_x))
    middle = lax.random_gamma_grad(jnp.where(small | large, 1, alpha), x) / x
    value = jnp.where(large, _by_cube(log_d, jnp.where(large, deviation, 0)), middle)
    value = jnp.where(small & ~large, _by_series(alpha, jnp.where(small, log_x, 0)), value)
    most = (
        jnp.finfo(alpha.dtype).max * 1e-8
    )  # about 1 / alpha^2, beyond the range for tiny shapes: kept finite, so that 0 times it is 0
    return jnp.where(possible, jnp.clip(value, -most, most), 0)


@log_gamma_derivative.defjvp
def _no_second_derivative(primals: tuple, tangents: tuple) -> NoReturn:
    """Raise TypeError: there is no second derivative."""
    raise TypeError(
        "gamma and Dirichlet draws are differentiable once in their shapes: take the second derivative of a closed form, "
        "or differences of first derivatives at one key"
    )


def _by_cube(log_d: Float[Array, "*lanes"], deviation: Float[Array, "*lanes"]) -> Float[Array, "*lanes"]:
    """The derivative for large shapes."""
    t = jnp.expm1(deviation / 3)
    return jnp.exp(-log_d) * (1 - 1.5 * t / (1 + t))


def _by_series(alpha: Float[Array, "*lanes"], log_x: Float[Array, "*lanes"]) -> Float[Array, "*lanes"]:
    """The derivative for x <= 1."""
    x = jnp.exp(log_x)
    power, m, m_alpha, m_log_x = jnp.ones_like(x), jnp.ones_like(x), jnp.zeros_like(x), jnp.zeros_like(x)
    for k in range(1, _TERMS + 1):
        power = power * -x / k
        share = power / (alpha + k)
        m = m + alpha * share
        m_alpha = m_alpha + k * share / (alpha + k)
        m_log_x = m_log_x + k * alpha * share
    return (jax.scipy.special.digamma(alpha + 1) - log_x - m_alpha / m) / (alpha + m_log_x / m)


_ROW_LANES = 512  # the least width of a row of lanes, so that the inner loop is long also for five categories
_MOST_ROW_LANES = 2**15  # the most lanes in a row without padding: the tables must stay in the cache
_BOOST_BLOCK = 255  # the block of bits of the exponential for alpha < 1


class _Rows(NamedTuple):
    """Rows of `samples` whole samples each, padded to a multiple of 32 lanes. The tables give the sample and component of a lane."""

    rows: int
    samples: int
    sample: np.ndarray
    component: np.ndarray
    real: np.ndarray


def _rows(n_draws: int, n_components: int) -> _Rows:
    step = GROUP // math.gcd(n_components, GROUP)  # the fewest samples that need no padding
    samples = step * -(-_ROW_LANES // (step * n_components)) if step * n_components < _MOST_ROW_LANES else 1
    if n_draws < 8 * samples:
        samples = max(n_draws, 1)
    width = samples * n_components
    lane = np.arange(-(-width // GROUP) * GROUP)
    real = lane < width
    sample, component = (np.where(real, part, 0).astype(np.uint32) for part in np.divmod(lane, n_components))
    return _Rows(-(-n_draws // samples), samples, sample, component, real)


def _propose(
    key_words: UInt32[Array, 2],
    sample: UInt32[Array, "*lanes"],
    component: UInt32[Array, "*lanes"],
    attempt: UInt32[Array, "*lanes"],
    d: Float[Array, "*lanes"],
) -> Float[Array, "*lanes"]:
    """One proposal for each lane: the deviation log(draw) - log d, or +inf if it is rejected.

    A NaN counts as accepted, so that no loop waits for it.
    """
    if d.dtype == jnp.float32:
        high, low = lane_words(key_words, sample, component, attempt)
        x, log_u = standard_normal(high, None, d.dtype), jnp.log(open_unit(low, None, d.dtype))
    else:
        x = standard_normal(*lane_words(key_words, sample, component, attempt * jnp.uint32(2)), d.dtype)
        block = attempt * jnp.uint32(2) + jnp.uint32(1)
        log_u = jnp.log(open_unit(*lane_words(key_words, sample, component, block), d.dtype))
    t = x * lax.rsqrt(9 * d)
    inside = ~(t <= -1)
    deviation = jnp.log1p(jnp.where(inside, t, 0))
    accepted = inside & ~(log_u > 3 * d * _log_ratio(t, deviation))
    return jnp.where(accepted, 3 * deviation, jnp.inf)


def _log_ratio(t: Float[Array, "*lanes"], log1p_t: Float[Array, "*lanes"]) -> Float[Array, "*lanes"]:
    """R(t) = log(1 + t) - t + t^2/2 - t^3/3, by its series for |t| < 0.1."""
    square = t * t
    terms = 8 if t.dtype == jnp.float32 else 18
    series = jnp.zeros_like(t)
    for n in range(terms + 3, 3, -1):
        series = 1 / n - t * series
    return jnp.where(jnp.abs(t) < 0.1, -square * square * series, log1p_t - t + square * (0.5 - t * (1 / 3)))


class _Lanes(NamedTuple):
    """The tables that every lane of every row reads. Row r holds the samples first + r * stride + sample."""

    stride: int
    sample: UInt32[Array, " width"]
    component: UInt32[Array, " width"]
    alpha: Float[Array, " width"]


def _shifted(alpha: Float[Array, "*lanes"]) -> Float[Array, "*lanes"]:
    """d of alpha, or of alpha + 1 if alpha < 1."""
    return jnp.where(alpha < 1, alpha + 2 / 3, alpha - 1 / 3)


def _whole_rows(lanes: _Lanes, shape: tuple[int, ...]) -> tuple[UInt32[Array, "rows width"], UInt32[Array, "rows width"]]:
    """(sample, component) of every lane."""
    row = lax.broadcasted_iota(jnp.uint32, shape, 0)
    return row * jnp.uint32(lanes.stride) + jnp.broadcast_to(lanes.sample, shape), jnp.broadcast_to(lanes.component, shape)


def _boost(key_words: UInt32[Array, 2], lanes: _Lanes, deviation: Float[Array, "rows width"]) -> Float[Array, "rows width"]:
    """The deviation minus E / alpha where alpha < 1; -inf where alpha = 0."""
    shape = deviation.shape
    block = jnp.full(shape, _BOOST_BLOCK, jnp.uint32)
    draw = exponential(*lane_words(key_words, *_whole_rows(lanes, shape), block), deviation.dtype)
    rate = jnp.broadcast_to(jnp.where(lanes.alpha < 1, 1 / lanes.alpha, 0), shape)
    return jnp.where(jnp.isposinf(rate), -jnp.inf, deviation - draw * rate)


@jax.custom_batching.custom_vmap
def _any_below_one(alpha: Float[Array, ...]) -> Bool[Array, ""]:
    """Whether a shape is below 1; under vmap, whether a shape of the batch is.

    One answer for the whole batch keeps the branch a branch. With one answer for each, `lax.cond` becomes a choice between both
    branches, on operands that are all broadcast over the batch. If the key is not part of the batch, XLA then moves that broadcast
    past the hash, one operation in each pass over the program: more than 50 passes, which it reports as a loop, and minutes of
    compilation. At alpha >= 1 the branch changes nothing.
    """
    return jnp.any(alpha < 1)


@_any_below_one.def_vmap
def _any_of_batch(axis_size: int, in_batched: list[bool], alpha: Float[Array, ...]) -> tuple[Bool[Array, ""], bool]:
    return _any_below_one(alpha), False


@functools.partial(jax.jit, static_argnames="n_draws")
def _gamma_parts(
    key: Key[Array, ""], alpha: Float[Array, " components"], n_draws: int, first: UInt32[Array, ""]
) -> tuple[Float[Array, " components"], Float[Array, "draws components"]]:
    key_words = jax.random.key_data(key)
    plan = _rows(n_draws, alpha.shape[0])
    shape = (plan.rows, plan.real.shape[0])
    lanes = _Lanes(plan.samples, first + plan.sample, jnp.asarray(plan.component), alpha[plan.component])
    d = _shifted(lanes.alpha)

    def redraw(
        row: UInt32[Array, " groups"], lane: UInt32[Array, " groups"], attempt: UInt32[Array, " groups"]
    ) -> Float[Array, ...]:
        sample = row * jnp.uint32(lanes.stride) + lanes.sample[lane]
        return _propose(key_words, sample, lanes.component[lane], attempt, d[lane])

    deviation = _propose(key_words, *_whole_rows(lanes, shape), jnp.zeros(shape, jnp.uint32), jnp.broadcast_to(d, shape))
    deviation = jnp.where(jnp.broadcast_to(plan.real, shape), deviation, 0)  # padding needs no redraw
    deviation = redraw_rejected(deviation, redraw)
    deviation = lax.cond(_any_below_one(alpha), functools.partial(_boost, key_words, lanes), lambda same: same, deviation)
    deviation = deviation[:, : plan.samples * alpha.shape[0]].reshape(-1, alpha.shape[0])[:n_draws]
    return jnp.log(_shifted(alpha)), deviation


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def gamma_parts(
    key: Key[Array, ""], alpha: Float[Array, " components"], n_draws: int, first: UInt32[Array, ""]
) -> tuple[Float[Array, " components"], Float[Array, "draws components"]]:
    """(log d, log(draw) - log d) of the draws first, ..., first + n_draws - 1 of Gamma(alpha, 1), unchecked.

    Differentiable once in alpha, at a fixed quantile level (`log_gamma_derivative`).
    """
    key = checked_key(key)
    return _gamma_parts(key, alpha, n_draws, first)


@gamma_parts.defjvp
def _gamma_parts_jvp(n_draws: int, primals: tuple, tangents: tuple) -> tuple:
    key, alpha, first = primals
    log_d, deviation = _gamma_parts(key, alpha, n_draws, first)
    shape = deviation.shape
    whole = log_gamma_derivative(jnp.broadcast_to(alpha, shape), jnp.broadcast_to(log_d, shape), deviation)
    of_log_d = 1 / _shifted(alpha)
    return (log_d, deviation), (of_log_d * tangents[1], (whole - of_log_d[None]) * tangents[1][None])


@functools.partial(jax.jit, static_argnames="n_draws")
def _log_gamma(key: Key[Array, ""], alpha: Float[Array, "*shape"], n_draws: int, first: UInt32[Array, ""]) -> Float[Array, ...]:
    log_d, deviation = gamma_parts(key, alpha.reshape(-1), n_draws, first)
    return (log_d[None] + deviation).reshape(n_draws, *alpha.shape)


def check_draws(alpha: ArrayLike, n_draws: int, first: int | Array) -> tuple[Float[Array, ...], UInt32[Array, ""]]:
    """(alpha as an array, first as a counter word). InputError if one is invalid; traced values are not checked."""
    alpha = jnp.asarray(alpha)
    require(alpha.dtype in (jnp.float32, jnp.float64), "alpha", alpha.dtype, "pass a float32 or float64 array")
    require(0 < alpha.size < 2**WORD_BITS, "alpha.size", alpha.size, "give from 1 to 2^24 - 1 shapes")
    if is_traced(alpha):
        check_traced((alpha >= 0) & (alpha < jnp.inf), "alpha", "hold finite shapes of 0 or more")
    else:
        host = np.asarray(alpha)
        require(bool(np.all(np.isfinite(host) & (host >= 0))), "alpha", host, "give finite shapes of 0 or more")
    require(n_draws >= 1, "n_draws", n_draws, "ask for at least one draw")
    require(
        n_draws * alpha.size < 2**30,
        "n_draws * alpha.size",
        n_draws * alpha.size,
        "draw fewer than 2^30 numbers at once, in blocks with `first`",
    )
    if not is_traced(first):
        require(
            0 <= int(first) <= 2**32 - n_draws,
            "first",
            first,
            "pass a number from 0 to 2^32 - n_draws: samples are numbered from 0 to 2^32 - 1",
        )
    return alpha, jnp.asarray(first, jnp.uint32)


def log_gamma_draws(key: Key[Array, ""], alpha: ArrayLike, n_draws: int, first: int | Array = 0) -> Float[Array, ...]:
    """Logarithms of independent Gamma(alpha, 1) draws, (n_draws, *alpha.shape), in the dtype of alpha.

    Draw i of a component depends only on the key, i, the position of the component in alpha (flattened) and its shape. So `n_draws`
    does not change a draw, and a block may start anywhere. Differentiable once in alpha, pathwise; the derivative at a structural
    zero is 0.

    Args:
        key: One typed JAX key.
        alpha: Shapes, float32 or float64, finite and >= 0. alpha = 0 gives -inf; a float32 shape below 2e-37 may give -inf too.
        n_draws: The number of draws; static.
        first: The number of the first draw; `first` + n_draws is at most 2^32.

    Raises:
        InputError: A shape is negative or not finite, the dtype is another, no draw is asked for, or a number is 2^32 or more.

    Source:
        Marsaglia and Tsang (2000), in the form of the module's docstring.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> draws = log_gamma_draws(jax.random.key(0), jnp.array([0.01, 1.0, 1e5]), 4)
        >>> draws.shape
        (4, 3)
        >>> later = log_gamma_draws(jax.random.key(0), jnp.array([0.01, 1.0, 1e5]), 2, first=2)
        >>> bool(jnp.all(later == draws[2:]))
        True
    """
    key = checked_key(key)
    alpha, start = check_draws(alpha, n_draws, first)
    return _log_gamma(key, alpha, n_draws, start)


def _normalised_parts(
    key: Key[Array, ""], alpha: Float[Array, "*batch n"], n_draws: int, first: UInt32[Array, ""]
) -> tuple[Float[Array, "*batch n"], Float[Array, "draws *batch n"]]:
    """(log w, y - top)."""
    log_d, y = gamma_parts(key, alpha.reshape(-1), n_draws, first)
    log_d, y = jnp.where(alpha == 0, -jnp.inf, log_d.reshape(alpha.shape)), y.reshape(n_draws, *alpha.shape)
    return jax.nn.log_softmax(log_d, axis=-1), y - jnp.max(y, axis=-1, keepdims=True)


@functools.partial(jax.jit, static_argnames="n_draws")
def log_dirichlet_kernel(
    key: Key[Array, ""], alpha: Float[Array, "*batch n"], n_draws: int, first: UInt32[Array, ""]
) -> Float[Array, "draws *batch n"]:
    """`log_dirichlet` without its checks."""
    log_w, y = _normalised_parts(key, alpha, n_draws, first)
    log_p = log_w[None] + y
    return log_p - jnp.log(jnp.sum(jnp.exp(log_p), axis=-1, keepdims=True))


@functools.partial(jax.jit, static_argnames="n_draws")
def dirichlet_kernel(
    key: Key[Array, ""], alpha: Float[Array, "*batch n"], n_draws: int, first: UInt32[Array, ""]
) -> Float[Array, "draws *batch n"]:
    """`dirichlet` without its checks."""
    log_w, y = _normalised_parts(key, alpha, n_draws, first)
    p = jnp.exp(log_w)[None] * jnp.exp(y)
    return p / jnp.sum(p, axis=-1, keepdims=True)


def _checked(alpha: ArrayLike, n_draws: int, first: int | Array) -> tuple[Float[Array, "*batch n"], UInt32[Array, ""]]:
    """`check_draws`, and every row has a positive concentration."""
    alpha, start = check_draws(alpha, n_draws, first)
    require(alpha.ndim >= 1, "alpha", alpha, "give a vector of concentrations, or a stack of them")
    if is_traced(alpha):
        check_traced(jnp.any(alpha > 0, axis=-1), "alpha", "have a positive concentration in every row")
    else:
        possible = np.any(np.asarray(alpha) > 0, axis=-1)
        require(bool(np.all(possible)), "alpha", np.asarray(alpha), "give every row a positive concentration")
    return alpha, start


def log_dirichlet(key: Key[Array, ""], alpha: ArrayLike, n_draws: int, first: int | Array = 0) -> Float[Array, "draws *batch n"]:
    """Logarithms of Dirichlet(alpha) draws, (n_draws, *batch, n), in the dtype of alpha.

    The key and the number of a draw fix it (see `log_gamma_draws`). Rows of a batch are drawn independently. Differentiable once in
    alpha, at a fixed quantile.

    Args:
        key: One typed JAX key.
        alpha: Concentrations, (*batch, n), float32 or float64, finite and >= 0, with a positive entry in each row. A zero entry is
            a structural zero: log p = -inf.
        n_draws: The number of draws; static.
        first: The number of the first draw.

    Raises:
        InputError: A concentration is negative or not finite, a row has no positive entry, the dtype is another, or no draw is
            asked for.

    Source:
        See the module.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from dpjax.simplex import log_dirichlet
        >>> log_p = log_dirichlet(jax.random.key(0), jnp.array([[0.01, 0.02, 0.0], [20.0, 5.0, 1.0]]), 1000)
        >>> log_p.shape, bool(jnp.all(jnp.isfinite(log_p[:, :, :2])))
        ((1000, 2, 3), True)
    """
    key = checked_key(key)
    checked, start = _checked(alpha, n_draws, first)
    return log_dirichlet_kernel(key, checked, n_draws, start)


def dirichlet(key: Key[Array, ""], alpha: ArrayLike, n_draws: int, first: int | Array = 0) -> Float[Array, "draws *batch n"]:
    """Dirichlet(alpha) draws, (n_draws, *batch, n), in the dtype of alpha.

    The same key gives the draws of `log_dirichlet`, up to rounding. A structural zero, or an underflow of the dtype, gives 0.

    Args:
        key: One typed JAX key.
        alpha: Concentrations, (*batch, n), float32 or float64, finite and >= 0, with a positive entry in each row. A zero entry is
            a structural zero.
        n_draws: The number of draws; static.
        first: The number of the first draw.

    Returns:
        Draws on the simplex, differentiable once in alpha, at a fixed quantile.

    Raises:
        InputError: As for `log_dirichlet`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from dpjax.simplex import dirichlet
        >>> p = dirichlet(jax.random.key(0), jnp.array([20.0, 5.0, 0.0]), 10)
        >>> bool(jnp.all(p[:, 2] == 0)), bool(jnp.allclose(jnp.sum(p, axis=-1), 1.0))
        (True, True)
    """
    key = checked_key(key)
    checked, start = _checked(alpha, n_draws, first)
    return dirichlet_kernel(key, checked, n_draws, start)
