"""Minimising a smooth function of a few hundred free parameters from several starts: Adam with a rate that falls to zero.

Nothing here is convex and nothing needs to be: the best point seen from any start is returned, starts included, so the result is never
worse than the best start; and the whole trace comes back, so that whether it settled can be seen. Losses are divided by the size of the
first one, since Adam's steps should not depend on their unit. Deterministic. What an objective depends on is passed as `arguments`, traced:
one function object and one set of shapes compile once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from dpjax._errors import require

Progress = Callable[[str], None]
Objective = Callable[[Float[Array, " parameters"], Any], Float[Array, ""]]
_ROUND = 25  # steps between two looks from the host


class Minimum(NamedTuple):
    """The best point, its loss, and the losses of every start at every step, (starts, steps)."""

    point: Float[np.ndarray, " parameters"]
    loss: float
    trace: Float[np.ndarray, "starts steps"]

    @property
    def settled(self) -> bool:
        """Whether the best start's loss moved by less than a thousandth over its last tenth of steps."""
        best = self.trace[int(np.argmin(self.trace.min(axis=1)))]
        late = best[-max(len(best) // 10, 2) :]
        return bool(np.ptp(late) <= 1e-3 * abs(late[-1]))


def minimise(
    objective: Objective,
    arguments: Any,
    starts: Sequence[Float[np.ndarray, " parameters"]],
    *,
    steps: int = 200,
    rate: float = 0.2,
    progress: Progress | None = None,
) -> Minimum:
    """The best point met from `starts` in `steps` of Adam each; `progress` is called with a line of text every 25 steps.

    objective: (point, arguments) -> loss, traced under float64; arguments: a pytree of numbers and arrays. ValueError where the loss is not
    finite at any start.
    """
    require(steps >= 1, "steps", steps, "take one step or more")
    require(len(starts) >= 1, "starts", starts, "give one start or more")
    with jax.enable_x64(True):
        names = [f"start {i + 1} of {len(starts)}" for i in range(len(starts))]
        runs = [_run(objective, arguments, x, steps, rate, name, progress) for x, name in zip(starts, names, strict=True)]
    trace = np.stack([run[2] for run in runs])
    best = int(np.argmin([run[1] for run in runs]))
    require(bool(np.isfinite(runs[best][1])), "loss", trace[:, 0].tolist(), "it is not finite at any start")
    return Minimum(runs[best][0], runs[best][1], trace)


class _State(NamedTuple):
    point: Float[Array, " parameters"]
    adam: Any
    best: Float[Array, " parameters"]
    least: Float[Array, ""]
    unit: Float[Array, ""]  # what losses are divided by; 0 until one is known


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
    state = _State(x, _adam(rate, steps).init(x), x, jnp.asarray(np.inf, dtype=np.float64), jnp.zeros((), dtype=np.float64))
    losses: list[np.ndarray] = []
    for done in range(0, steps, _ROUND):
        now = min(_ROUND, steps - done)
        state, found = _advance(objective, steps, rate, arguments, state, jnp.asarray(now, dtype=np.int32))
        losses.append(np.asarray(found)[:now])
        if progress is not None:
            progress(f"{name}, step {done + now} of {steps}: loss {float(state.least):.6g}")
    return np.asarray(state.best), float(state.least), np.nan_to_num(np.concatenate(losses), nan=np.inf)


def _adam(rate: float, steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(rate, steps), eps=1e-12)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _advance(
    objective: Objective, steps: int, rate: float, arguments: Any, state: _State, n: Array
) -> tuple[_State, Float[Array, " round"]]:
    """n steps, at most a round; the losses met."""
    optimiser = _adam(rate, steps)

    def one(i: Array, carry: tuple[_State, Float[Array, " round"]]) -> tuple[_State, Float[Array, " round"]]:
        now, losses = carry
        loss, slope = jax.value_and_grad(objective)(now.point, arguments)
        unit = jnp.where(now.unit > 0, now.unit, jnp.where(loss == 0, 1.0, jnp.abs(loss)))
        better = loss < now.least
        update, adam = optimiser.update(slope / unit, now.adam, now.point)
        best, least = jnp.where(better, now.point, now.best), jnp.where(better, loss, now.least)
        return _State(now.point + update, adam, best, least, unit), losses.at[i].set(loss)

    return jax.lax.fori_loop(0, n, one, (state, jnp.full(_ROUND, jnp.inf, dtype=state.point.dtype)))
