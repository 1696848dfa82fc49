"""The stationary distribution of a chain, checked: pi = pi P, pi >= 0, sum pi = 1.

It is unique when the chain has one closed class, and then zero on transient states. A chain with several closed classes has one
stationary law for each and infinitely many mixtures; asking for *the* stationary distribution is then an error that names the
classes.

Dense matrices go through `dpjax.chains.gth.gth`. Its result is NaN where there are several closed classes, or a mean time is past the
range of the type, so a finite result needs no look at the graph; only matrices with a NaN are looked at again, restricted to their
closed class. Sparse chains too large for that go through SciPy's sparse LU on the states but a frequent one, taken only with every
entry positive and a residual sum |pi P - pi| <= 1e-12.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse

from dpjax._errors import invalid, require
from dpjax.chains._arrays import checking_itself, faults, refuse
from dpjax.chains.gth import gth
from dpjax.chains.structure import closed_classes, describe, is_sparse, restrict

_DENSE_STATES = 2048  # up to here a sparse chain is made dense for GTH
_RESIDUAL = 1e-12


@checking_itself
def stationary_distribution(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The stationary distribution of each matrix.

    Shapes (*batch, n, n) -> (*batch, n), n >= 2, in the type of the input: a JAX array gives a JAX array, NumPy gives NumPy
    (float64 unless float32). Jitted, vmappable, differentiable (off the diagonal: a row's diagonal entry is what the others leave).
    Zero on transient states. Raises ValueError for a matrix that is not stochastic (rows within 1e-9 of 1 in float64, 1e-5 in
    float32) and for one with several closed classes, which it names. Under a trace nothing is checked: there several closed classes
    make that matrix's result NaN.

    >>> import numpy as np
    >>> from dpjax.chains import stationary_distribution
    >>> stationary_distribution(np.array([[0.9, 0.1], [0.3, 0.7]])).round(12).tolist()
    [0.75, 0.25]
    """
    return finite_stationary(P)


def finite_stationary(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """`gth`, checked, its NaN done again in float64; several closed classes are a ValueError; a trace gets `gth` as it is."""
    if isinstance(P, jax.core.Tracer):
        return gth(P)
    pi, marks = _with_marks(P)
    least, gap, failed = np.asarray(marks)
    refuse(P, least, gap)
    if not failed:
        return pi
    host = np.array(pi)
    for at in np.argwhere(np.isnan(host[..., 0])):
        where = tuple(int(i) for i in at)
        host[where] = _of_one_closed_class(np.asarray(P[where]), f"matrix {list(where)}" if where else "the chain")
    return jnp.asarray(host)


@jax.jit
def _with_marks(P: Float[Array, "*batch n n"]) -> tuple[Float[Array, "*batch n"], Float[Array, " marks"]]:
    """The laws, and what the host must know before it trusts them: the `faults` of P, and 1 where some law is NaN, else 0."""
    pi = gth(P)
    return pi, jnp.stack([*faults(P), jnp.isnan(pi[..., 0]).any().astype(P.dtype)])


def _of_one_closed_class(P: Float[np.ndarray, "n n"], name: str) -> Float[np.ndarray, " n"]:
    """The law of a matrix whose mean times pass the range of its type, in float64; several closed classes are refused."""
    states = only_closed_class(P, name)
    pi = np.zeros(P.shape[0], P.dtype)
    with jax.enable_x64(True):
        part = jnp.asarray(P[np.ix_(states, states)].astype(np.float64))
        pi[states] = 1 if len(states) == 1 else np.asarray(gth(part))
    if not np.isfinite(pi).all():
        invalid(
            name, "so nearly reducible that a mean time passes the range of float64", "its smallest entries are as good as zero"
        )
    return pi


def only_closed_class(P: Any, name: str, labels: tuple[Any, ...] | None = None) -> np.ndarray:
    """The states of the closed class of `P`, dense or sparse; several are a ValueError that names them."""
    closed = closed_classes(P)
    if len(closed) > 1:
        text = f"reducible, with {len(closed)} closed classes: {describe(closed, labels)}"
        invalid(name, text, "each has a stationary distribution of its own; pass one class, for instance largest_class()")
    return closed[0]


def stationary_of_chain(P: Any, labels: tuple[Any, ...] | None = None) -> Float[np.ndarray, " n"]:
    """The stationary distribution of one float64 matrix, dense or sparse, on the host; classes in errors are named by label."""
    states = only_closed_class(P, "the chain", labels)
    pi, part = np.zeros(P.shape[0]), restrict(P, states)
    if len(states) == 1:
        pi[states] = 1
    elif is_sparse(P) and len(states) > _DENSE_STATES:
        pi[states] = _sparse_solve(part)
    else:
        pi[states] = stationary_distribution(part.toarray() if is_sparse(P) else part)
    return pi


def _sparse_solve(P: sparse.csr_array) -> Float[np.ndarray, " n"]:
    """pi relative to a frequent state's, from the equations of the others, then normalised and checked.

    The first pivot is the state with the largest column of P; where another one comes out more frequent, that one is the pivot of a second
    solve. A rare pivot loses its own digits: all others are found relative to it.
    """
    first = int(np.argmax(P.sum(axis=0)))
    pi = _solved_without(P, first)
    if np.isfinite(pi).all() and np.argmax(pi) != first:
        pi = _solved_without(P, int(np.argmax(pi)))
    residual = float(np.abs(pi @ P - pi).sum())
    checked = bool(np.isfinite(pi).all() and (pi > 0).all()) and residual <= _RESIDUAL
    require(
        checked, "the residual of the sparse solve", residual, "the chain is too nearly decomposable for it; pass P dense, for GTH"
    )
    return pi


def _solved_without(P: sparse.csr_array, pivot: int) -> Float[np.ndarray, " n"]:
    """The law with pi_K (I - P_KK) = pi_p P_pK for K = all states but p, the pivot."""
    from scipy.sparse.linalg import splu

    others = np.delete(np.arange(P.shape[0]), pivot)
    system = sparse.csc_matrix((sparse.eye_array(len(others)) - P[others][:, others]).T)
    weights = np.ones(P.shape[0])
    weights[others] = splu(system).solve(P[[pivot]][:, others].toarray()[0])
    return weights / weights.sum()
