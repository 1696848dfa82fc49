"""The losses of a design, and their minimisation.

*Losses* are expected errors of the private stationary distribution under its first-order law, smooth in all parameters. X = pi~ - pi is
treated as normal, with mean m = E pi~ - pi (smoothing and second order) and variances s^2. Then, with weights w (default 1),

    "tv":  1/2 sum_l w_l E|X_l|,    E|X| = s sqrt(2/pi) exp(-m^2/(2 s^2)) + m erf(m/(s sqrt 2))  (the folded normal law),
    "l2":  sum_l w_l (m_l^2 + s_l^2),
    "kl":  1/2 sum_l w_l (m_l^2 + s_l^2)/pi_l, the divergence KL(pi || pi~) to second order.

A user's own loss is a function (law, pi) -> scalar, in jax.numpy, of the `StationaryLaw` and of the public model's stationary distribution.

*The search* (`minimise`) is Adam with a rate that falls to zero, from several starts, on a smooth function of up to a few hundred free
parameters. No convexity is needed. The best point seen from any start, starts included, is returned with the whole trace; the result is
never worse than the best start. Losses are divided by the size of the first one, because Adam's steps should not depend on their unit. The
search is deterministic. The data of an objective are passed as `arguments`, traced: one function object and one set of shapes compile once.

The trace does not show whether the best point is at rest, because the rate falls to zero everywhere. Instead 25 further steps start from
the best point at the first rate, and 25 at a tenth of it, both with fresh Adam states. Adam's first steps move every coordinate downhill by
the rate. At the small rate a slope whose entries sum to more than some hundredths of the loss must therefore show; at the large rate, a
slope far away.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import erf
from jaxtyping import Array, Float

from dpjax._errors import invalid, require
from dpjax._tracing import float_dtype, is_traced
from dpjax.design.stationary import Numbers, StationaryLaw
from dpjax.simplex._rounding import float64

Vector = Float[Array, "*batch n"] | Float[np.ndarray, "*batch n"]
Weights = Float[Array, "*each n"] | Float[np.ndarray, "*each n"] | float  # for each state, or for each law and state
Loss = Callable[[StationaryLaw, Float[Array, " n"]], Float[Array, ""]]
Weighted = Callable[[StationaryLaw, Float[Array, " n"], Any], Float[Array, ""]]
Named = Literal["tv", "l2", "kl"]


def folded_normal_mean(mean: Numbers, variance: Numbers) -> Float[Array, "*shape"]:
    """E|X| for X normal, elementwise; |mean| where the variance is 0. Pure, and smooth where the variance is positive."""
    mean, variance = jnp.asarray(mean), jnp.asarray(variance)
    some = variance > 0
    s = jnp.sqrt(jnp.where(some, variance, 1.0))
    z = mean / (s * math.sqrt(2))
    return jnp.where(some, s * math.sqrt(2 / math.pi) * jnp.exp(-(z**2)) + mean * erf(z), jnp.abs(mean))


def total_variation(law: StationaryLaw, pi: Vector, weights: Weights = 1.0) -> Float[Array, "*batch"]:
    """The expected total variation of pi~ from pi under the first-order law; with weights, half the weighted sum of E|pi~_l - pi_l|.

    Args:
        law: A `StationaryLaw`.
        pi: The stationary distribution, (*batch, n).
        weights: Weights of the states.

    Returns:
        (*batch,), differentiable. `evaluate` gives a float64.
    """
    error = folded_normal_mean(law.mean - _like(pi, law), law.variance)
    return 0.5 * (_like(weights, law) * error).sum(axis=-1)


def squared_error(law: StationaryLaw, pi: Vector, weights: Weights = 1.0) -> Float[Array, "*batch"]:
    """The expected (weighted) squared error of pi~ under the first-order law.

    Args:
        law: A `StationaryLaw`.
        pi: The stationary distribution, (*batch, n).
        weights: Weights of the states.

    Returns:
        (*batch,), differentiable. `evaluate` gives a float64.
    """
    return (_like(weights, law) * ((law.mean - _like(pi, law)) ** 2 + law.variance)).sum(axis=-1)


def divergence(law: StationaryLaw, pi: Vector, weights: Weights = 1.0) -> Float[Array, "*batch"]:
    """The expected KL(pi || pi~), nats, to second order: half the squared error divided by pi.

    Args:
        law: A `StationaryLaw`.
        pi: The stationary distribution, (*batch, n).
        weights: Weights of the states.

    Returns:
        (*batch,), differentiable. `evaluate` gives a float64.
    """
    return 0.5 * squared_error(law, pi, _like(weights, law) / _like(pi, law))


def _like(x: Any, law: StationaryLaw) -> Float[Array, "*batch n"]:
    """`x` in the shape of the law's mean; a batch of laws has one x or one for each."""
    return jnp.broadcast_to(jnp.asarray(x, law.stationary.dtype), law.stationary.shape)


_NAMED: dict[str, Weighted] = {"tv": total_variation, "l2": squared_error, "kl": divergence}


def resolve(loss: Named | Loss, weights: np.ndarray | list[float] | None, n: int) -> tuple[Weighted, Float[np.ndarray, " n"]]:
    """The loss as a function (law, pi, weights) -> scalar, one object for each loss, and the weights. InputError if they do not fit."""
    if callable(loss):
        require(weights is None, "weights", weights, "a loss function takes no weights: remove them, or name a loss")
        vector = np.zeros(n)
        require_scalar(loss, StationaryLaw(vector, vector, np.zeros((n, n))), vector, arguments="(law, pi)")
        return _unweighted(loss), np.ones(n)
    require(loss in _NAMED, "loss", loss, f"use one of {', '.join(map(repr, _NAMED))}, or a function (law, pi) -> scalar")
    given = np.ones(n) if weights is None else float64(weights, "weights")
    require(given.shape == (n,), "weights", weights, f"give one weight for each of the {n} states")
    require(
        bool((np.isfinite(given) & (given >= 0)).all() and given.any()),
        "weights",
        weights,
        "give finite weights of 0 or more, not all 0",
    )
    return _NAMED[loss], given


def require_scalar(loss: Callable[..., Any], *given: Any, arguments: str) -> None:
    """Raise InputError unless a user's loss accepts arguments of these shapes, can be traced by JAX, and returns one real number."""
    try:
        inspect.signature(loss).bind(*given)
    except TypeError:
        invalid("loss", loss, "give a function of them", must=f"take the arguments {arguments}")
    except ValueError:
        pass  # a built-in without a signature: the trace below checks it
    try:
        with jax.enable_x64(True):
            found = jax.eval_shape(loss, *given)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        invalid("loss", loss, "write it in jax.numpy, not in NumPy, so that it can be differentiated")
    shape = getattr(found, "shape", None)
    real = shape == () and jnp.issubdtype(found.dtype, jnp.floating)
    require(real, "loss", loss, "take a sum or a mean", must=f"return one real number, and returns {found}")


@functools.lru_cache(maxsize=16)
def _unweighted(loss: Loss) -> Weighted:
    return lambda law, pi, weights: loss(law, pi)


def evaluate(loss: Callable[..., Array], law: StationaryLaw, pi: Vector, weights: Weights = 1.0) -> Any:
    """The value of a loss (law, pi, weights) -> scalar: a NumPy float64; a traced argument gives a value in its dtype.

    Args:
        loss: A loss such as `total_variation`.
        law: A `StationaryLaw`.
        pi: The stationary distribution, (n,).
        weights: Weights of the states.

    Example:
        >>> import numpy as np
        >>> from dpjax.design import evaluate, stationary_law, total_variation
        >>> law = stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]]), 1000.0)
        >>> round(float(evaluate(total_variation, law, law.stationary)), 5)
        0.01592
    """
    if is_traced(law, pi, weights):
        dtype = float_dtype(*law, pi, weights)
        return loss(StationaryLaw(*(jnp.asarray(x, dtype) for x in law)), jnp.asarray(pi, dtype), jnp.asarray(weights, dtype))
    with jax.enable_x64(True):
        return np.float64(loss(StationaryLaw(*(jnp.asarray(x) for x in law)), jnp.asarray(pi), weights))


Progress = Callable[[str], None]
Objective = Callable[[Float[Array, " parameters"], Any], Float[Array, ""]]
_ROUND = 25  # steps in one compiled call
_RESTARTS = (1.0, 0.1)  # rates of the restarts, in units of the first rate
_REST = 1e-3  # the most of the loss that a restart may gain


def require_loss_of_trace(loss: float, trace: np.ndarray, argument: str = "loss") -> None:
    """Raise InputError for a loss with which no search of this trace can have ended or begun."""
    met = trace[np.isfinite(trace)]
    fits = met.size > 0 and met.min() - 0.01 * np.abs(met).max() <= loss <= met.max() + 0.01 * np.abs(met).max()
    require(fits, argument, loss, "remove it: a loss is measured, and the trace of the search does not contain this value")


class Minimum(NamedTuple):
    """The best point, its loss, the losses of every start at every step, (starts, steps), and whether the point is at rest.

    settled: no fresh restart from the best point gained a thousandth of the loss. False, without a test, for a search of fewer than 25
    steps.
    """

    point: Float[np.ndarray, " parameters"]
    loss: float
    trace: Float[np.ndarray, "starts steps"]
    settled: bool


def minimise(
    objective: Objective,
    arguments: Any,
    starts: Sequence[Float[np.ndarray, " parameters"]],
    *,
    steps: int = 200,
    rate: float = 0.2,
    progress: Progress | None = None,
) -> Minimum:
    """The best point found from `starts` in `steps` steps of Adam each.

    Args:
        objective: (point, arguments) -> loss, traced under float64.
        arguments: A pytree of numbers and arrays.
        starts: The starting points.
        steps: Steps from each start, at least 1.
        rate: The first rate of Adam.
        progress: A function that receives a line of text every 25 steps.

    Raises:
        InputError: The loss is not finite at any start.
    """
    require(steps >= 1, "steps", steps, "pass one step or more")
    require(len(starts) >= 1, "starts", starts, "give one start or more")
    with jax.enable_x64(True):
        names = [f"start {i + 1} of {len(starts)}" for i in range(len(starts))]
        runs = [_run(objective, arguments, x, steps, rate, name, progress) for x, name in zip(starts, names, strict=True)]
    trace = np.stack([run[2] for run in runs])
    best = int(np.argmin([run[1] for run in runs]))
    require(bool(np.isfinite(runs[best][1])), "loss", trace[:, 0].tolist(), "it is not finite at any start: pass other starts")
    point, loss, _ = runs[best]
    return Minimum(point, loss, trace, steps >= _ROUND and _at_rest(objective, arguments, point, loss, rate))


def _at_rest(objective: Objective, arguments: Any, point: np.ndarray, loss: float, rate: float) -> bool:
    """Whether no fresh restart from the point, at a large or a small rate, gains a thousandth of the loss."""
    with jax.enable_x64(True):
        gains = [loss - _run(objective, arguments, point, _ROUND, factor * rate, "", None)[1] for factor in _RESTARTS]
    return bool(max(gains) <= _REST * abs(loss))


class _State(NamedTuple):
    point: Float[Array, " parameters"]
    adam: Any
    best: Float[Array, " parameters"]
    least: Float[Array, ""]
    unit: Float[Array, ""]  # the divisor of losses; 0 until it is known


def _run(
    objective: Objective,
    arguments: Any,
    start: Float[np.ndarray, " parameters"],
    steps: int,
    rate: float,
    name: str,
    progress: Progress | None,
) -> tuple[np.ndarray, float, np.ndarray]:
    """(best point, its loss, trace)."""
    x = jnp.asarray(start, dtype=np.float64)
    pace = jnp.asarray((rate, steps), dtype=np.float64)
    state = _State(x, _adam(pace).init(x), x, jnp.asarray(np.inf, dtype=np.float64), jnp.zeros((), dtype=np.float64))
    losses: list[np.ndarray] = []
    for done in range(0, steps, _ROUND):
        now = min(_ROUND, steps - done)
        state, found = _advance(objective, pace, arguments, state, jnp.asarray(now, dtype=np.int32))
        losses.append(np.asarray(found)[:now])
        if progress is not None:
            progress(f"{name}, step {done + now} of {steps}: loss {float(state.least):.6g}")
    return np.asarray(state.best), float(state.least), np.nan_to_num(np.concatenate(losses), nan=np.inf)


def _adam(pace: Float[Array, 2]) -> optax.GradientTransformation:
    """Adam with a rate that falls to zero as half a cosine. (first rate, steps) may be traced, so that all searches share a program."""
    rate, steps = pace
    return optax.adam(lambda count: rate * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(count / steps, 1))), eps=1e-12)


@functools.partial(jax.jit, static_argnums=0)
def _advance(
    objective: Objective, pace: Float[Array, 2], arguments: Any, state: _State, n: Array
) -> tuple[_State, Float[Array, " round"]]:
    """n steps, at most a round, and their losses."""
    optimiser = _adam(pace)

    def one(i: Array, carry: tuple[_State, Float[Array, " round"]]) -> tuple[_State, Float[Array, " round"]]:
        now, losses = carry
        loss, slope = jax.value_and_grad(objective)(now.point, arguments)
        unit = jnp.where(now.unit > 0, now.unit, jnp.where(loss == 0, 1.0, jnp.abs(loss)))
        better = loss < now.least
        with jax.numpy_dtype_promotion("standard"):  # optax mixes its step count with floats, whatever the caller's setting
            update, adam = optimiser.update(slope / unit, now.adam, now.point)
        best, least = jnp.where(better, now.point, now.best), jnp.where(better, loss, now.least)
        return _State(now.point + update, adam, best, least, unit), losses.at[i].set(loss)

    return jax.lax.fori_loop(0, n, one, (state, jnp.full(_ROUND, jnp.inf, dtype=state.point.dtype)))
