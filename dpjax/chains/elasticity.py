"""Changes of a transition matrix that keep its rows' sums, and what a gradient says of them.

A function f of P, differentiated with each entry free, has a gradient g = df/dP. Only changes whose rows sum to 0 are changes of a
chain, so g matters up to a constant in each row. Two forms of it do not depend on that constant:

    elasticity  E_ij = P_ij (g_ij - sum_k P_ik g_ik)    the change of f when the odds of i -> j grow by a factor 1 + t, per t: P_ij is
                                                        multiplied by 1 + t and row i is divided by its new sum,
    slope       S_ij = g_ij - sum_k P_ik g_ik           the change of f per probability moved to i -> j from the whole row in proportion.

E is the gradient in the row's logits, P = softmax(logits); its rows sum to 0, it is 0 where P_ij is, and the change of f under
dP_ij = P_ij x_ij with sum_j P_ij x_ij = 0 is sum_ij E_ij x_ij.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpjax._errors import require


def row_slopes(P: Any, gradient: Any) -> Any:
    """S above, (*batch, n, n), from the gradient of a function of P; NumPy for NumPy, JAX arrays for JAX arrays.

    Where P is 0 the transition is missing, and the slope is 0. ValueError for a gradient of another shape, or with a NaN at a transition.
    """
    P, gradient = _arrays(P, gradient)
    return _slopes(P, gradient)


def elasticities(P: Any, gradient: Any) -> Any:
    """E above, (*batch, n, n), from the gradient of a function of P; NumPy for NumPy, JAX arrays for JAX arrays.

    For the elasticity of f itself, relative to relative, give the gradient of log f.

    >>> import numpy as np
    >>> P = np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> elasticities(P, np.array([[1.0, 0.0], [0.0, 0.0]])).round(2).tolist()
    [[0.09, -0.09], [0.0, 0.0]]
    """
    P, gradient = _arrays(P, gradient)
    return P * _slopes(P, gradient)


def _slopes(P: Any, gradient: Any) -> Any:
    module = jnp if isinstance(P, jax.Array) else np
    means = module.sum(module.where(P > 0, P * module.where(P > 0, gradient, 0), 0), axis=-1, keepdims=True)
    return module.where(P > 0, gradient - means, 0)


def _arrays(P: Any, gradient: Any) -> tuple[Any, Any]:
    """Both as arrays, checked; under a trace only their shapes are."""
    P, gradient = (x if isinstance(x, jax.Array) else np.asarray(x) for x in (P, gradient))
    require(np.shape(P) == np.shape(gradient), "gradient", np.shape(gradient), f"its shape must be that of P, {np.shape(P)}")
    if not (isinstance(P, jax.core.Tracer) or isinstance(gradient, jax.core.Tracer)):
        at = np.argwhere(np.isnan(np.asarray(gradient)) & (np.asarray(P) > 0))
        mend = "the function has no derivative there, or its value is NaN: see whether the function itself is finite at this P"
        require(not len(at), f"gradient{at[0].tolist() if len(at) else ''}", np.nan, mend)
    return P, gradient
