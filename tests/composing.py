"""What the tables of public functions under jit, vmap, grad, scan and with a batch axis share."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

STEP = 1e-5
BY_VMAP = "one at a time; the error names jax.vmap"


@dataclasses.dataclass(frozen=True)
class Case:
    """`call` of one element of `stack`; `reasons` says why a cell is not "yes", `orders` how often it differentiates."""

    name: str
    call: Callable[..., Any]
    stack: tuple[Any, ...]
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    orders: int = 2


def weighed(value):
    """One number of all of them, without a symmetry; an infinite one, such as a distance to what cannot be reached, is left out."""
    weights = jnp.cos(jnp.arange(value.size, dtype=value.dtype)).reshape(value.shape)
    return jnp.sum(jnp.where(jnp.isinf(value), 0, value) * weights)


def everything(case):
    """The values by vmap and by scan; the gradient, and its derivative along a direction, in all real arguments."""
    real = tuple(k for k, part in enumerate(case.stack) if part.dtype.kind == "f")

    def number(*arguments):
        return weighed(case.call(*arguments))

    def moving(arguments, directions):
        gradient = jax.grad(number, argnums=real)
        if case.orders < 2:
            return gradient(*arguments), None
        tangents = [
            d if k in real else np.zeros(part.shape, jax.dtypes.float0)
            for k, (part, d) in enumerate(zip(arguments, directions, strict=True))
        ]
        return jax.jvp(gradient, arguments, tuple(tangents))

    @jax.jit
    def program(stack, directions):
        by_vmap = jax.vmap(case.call)(*stack)
        by_scan = jax.lax.scan(lambda carry, arguments: (carry, case.call(*arguments)), None, stack)[1]
        if "grad" in case.reasons:
            return by_vmap, by_scan, None, None
        return by_vmap, by_scan, jax.vmap(number)(*stack), jax.vmap(moving)(stack, directions)

    return program


def moved(stack, directions, step):
    return tuple(part + step * d for part, d in zip(stack, directions, strict=True))
