"""The stationary distribution of a Markov chain: pi = pi P, pi >= 0, sum pi = 1.

It is unique when the chain has one closed class, and then zero on transient states. A chain with several closed classes has one stationary
distribution for each, and all their mixtures. To ask for *the* stationary distribution is then an error, which names the classes.

Symbols: P is a transition matrix of n states, pi its stationary distribution, Q = P - I.

*Method.* Dense matrices use the elimination of Grassmann, Taksar and Heyman (GTH, 1985) in blocks (`gth`). Its result is NaN if there are
several closed classes or if a mean time is beyond the range of the dtype. A finite result needs no look at the graph. Only a matrix with a
NaN is examined again, restricted to its closed class. Sparse chains too large for GTH use SciPy's sparse LU on all states but a frequent
one. That result is accepted only if every entry is positive, the residual sum |pi P - pi| is at most 1e-12, and the solve keeps nine digits
(six above 8,192 states).

*Censoring.* Split the states into J (kept) and K (eliminated). The chain watched on J alone has the transition matrix

    P_JJ + P_JK N P_KJ,    N = (D - A)^{-1}.

A is P_KK without its diagonal, and D_kk = sum_{j in K, j != k} P_kj + sum_{j in J} P_kj. D is the diagonal of I - P_KK, written as a sum of
the probabilities that leave k, never as 1 - P_kk. The stationary distribution of P extends that of the censored chain by pi_K = pi_J P_JK
N. States are eliminated in panels from the last to the first until only state 0 is left. Then pi is filled in from state 0 up and
normalised.

*No subtractions.* N comes from Gauss-Jordan elimination in place. Pivot k divides its row by s_k (the probability that leaves k for states
not yet eliminated) and adds multiples of it to the others; all terms are >= 0. Sums, products and quotients of numbers >= 0 keep relative
errors. Each entry of pi therefore has a small relative error however nearly decomposable the chain is, where a linear solve may lose every
digit (O'Cinneide 1993 has the bounds for the unblocked form). Only off-diagonal entries are read.

*Few states*, up to 8, are eliminated one at a time and entry by entry, with the same sums and products. For k = n-1, ..., 1:

    s_k = sum_{j < k} P_kj,    P_ik <- P_ik / s_k,    P_ij <- P_ij + P_ik P_kj    for i, j < k, i != j;

then w_0 = 1, w_k = sum_{i < k} w_i P_ik, and pi = w / sum w. The n^3 / 3 steps are elementwise operations on arrays as long as the batch.
Nothing is masked, no diagonal entry is computed, and the compiler keeps a step in registers and spreads the batch over the cores. The
program grows as n^3, hence the limit.

*Condition.* Every state must be able to reach state 0. Then all s_k > 0 and pi is unique. Otherwise some s_k = 0 and the whole pi of that
matrix is NaN. Such a matrix is eliminated once more, towards a state of a closed class (`closed_state`). A matrix that is NaN after that
has several closed classes, or a mean number of visits beyond the range of the dtype (3e38 in float32). `stationary_distribution` examines
it.

*The pivot.* `reduced_inverse` is N for K = all states but the pivot p, bordered by zeros: G_ij is the mean number of visits to j before p
from i, with a small relative error for every p. The group inverse of I - P is a difference made of it: A# = (I - 1 pi) G (I - 1 pi). By

    G_ij = A#_ij - A#_pj - (pi_j / pi_p) (A#_ip - A#_pp),        pi_j sum_l G_il = (pi_j / pi_p) (A#_pp - A#_ip),

if p is a most frequent state, pi_j <= pi_p, no term is larger than 4 max |A#| and the difference loses no digits of the largest entry. If p
is rare, the terms and the error are larger by 1 / pi_p.

*Derivative.* Let dQ be the tangent off the diagonal, completed so that rows sum to 0 (the function does not read the diagonal). Then dpi =
pi dQ A# = (x - (sum x) pi), x = pi dQ G, and dG = G dQ G. One elimination gives derivatives of any order; none is unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy import sparse

from dpjax._errors import invalid
from dpjax.chains.counting import checking_itself, closed_classes, describe, faults, is_sparse, refuse, restrict

MOST_STATES = 8  # more states make the unrolled program too large


def eliminate_unrolled(P: Float[Array, "b n n"]) -> Float[Array, "b n"]:
    """The stationary distribution of each matrix; NaN if a state does not reach state 0 within the range of the dtype."""
    n = P.shape[-1]
    by_entry = P.reshape(-1, n * n).T
    rows = [[by_entry[i * n + j] for j in range(n)] for i in range(n)]
    for k in range(n - 1, 0, -1):
        visits = 1 / _sum(rows[k][:k])
        for i in range(k):
            rows[i][k] = rows[i][k] * visits
            rows[i][:k] = [rows[i][j] if i == j else rows[i][j] + rows[i][k] * rows[k][j] for j in range(k)]
    weights = [jnp.ones_like(by_entry[0])]
    for k in range(1, n):
        weights.append(_sum([weights[i] * rows[i][k] for i in range(k)]))
    share = 1 / _sum(weights)  # a quotient is computed once; a sum would be computed again for each use
    share = jnp.where(share > 0, share, jnp.nan)  # share is 0 if a weight is beyond the range
    return jnp.stack([weight * share for weight in weights], axis=-1)


def _sum(terms: Sequence[Float[Array, " b"]]) -> Float[Array, " b"]:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


_PANEL = 17  # states eliminated together in a small matrix
_PANELS = 8  # panels at most, which bounds the size of the compiled program
_TILE_ENTRIES = 2**18  # matrix entries in one pass, so that it fits in the cache
_TILE = 128  # the most matrices in one pass
_LANES = 2**16  # the most matrices in one pass of the unrolled form: more is faster, and this bounds the memory


@jax.jit
def gth(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The stationary distribution of each matrix, unchecked: the kernel of `stationary_distribution`.

    Works under jit, vmap and scan; differentiable to any order.

    Args:
        P: Transition matrices, (*batch, n, n), JAX arrays.

    Returns:
        (*batch, n). NaN for a matrix with several stationary distributions, or with a mean time beyond the range of the dtype.

    Source:
        Grassmann, Taksar and Heyman (1985); see the module.
    """
    n = P.shape[-1]
    return _differentiable(P.reshape(-1, n, n)).reshape(P.shape[:-1])


def frequent_state(pi: Float[Array, "*batch n"]) -> Int[Array, "*batch"]:
    """A most frequent state of each distribution: the pivot of an inverse that will be subtracted from."""
    return jnp.argmax(jax.lax.stop_gradient(pi), axis=-1).astype(jnp.int32)


@jax.custom_jvp
def reduced_inverse(P: Float[Array, "b n n"], pivot: Int[Array, " b"]) -> Float[Array, "b n n"]:
    """The matrix G of the module: (I - P)^{-1} on all states but the pivot, bordered by zeros.

    Each entry has a small relative error.
    """
    return _bordered(P, pivot)


@reduced_inverse.defjvp
def _inverse_moves(
    primals: tuple[Float[Array, "b n n"], Int[Array, " b"]], tangents: tuple[Float[Array, "b n n"], Any]
) -> tuple[Float[Array, "b n n"], Float[Array, "b n n"]]:
    (P, pivot), (dP, _) = primals, tangents
    G = reduced_inverse(P, pivot)
    return G, product(product(G, completed(dP)), G)


@jax.custom_batching.custom_vmap
def _bordered(P: Float[Array, "b n n"], pivot: Int[Array, " b"]) -> Float[Array, "b n n"]:
    A = _exchanged(P, pivot)
    inner = _inverse(A[:, 1:, 1:], A[:, 1:, 0])
    return _exchanged(jnp.pad(inner, ((0, 0), (1, 0), (1, 0))), pivot)


@_bordered.def_vmap
def _more_inverses(
    axis_size: int, in_batched: list[bool], P: Float[Array, "v b n n"], pivot: Int[Array, "v b"]
) -> tuple[Float[Array, "v b n n"], bool]:
    """Under vmap the new axis joins the batch, because the elimination runs over arrays with the batch last."""
    lanes = [x if b else jnp.broadcast_to(x, (axis_size, *x.shape)) for x, b in zip((P, pivot), in_batched, strict=True)]
    shape = lanes[0].shape
    return _bordered(lanes[0].reshape(-1, *shape[2:]), lanes[1].reshape(-1)).reshape(shape), True


def _exchanged(P: Float[Array, "b n n"], state: Int[Array, " b"]) -> Float[Array, "b n n"]:
    """The chain with the numbers of state 0 and of `state` exchanged."""
    return _exchanged_along(_exchanged_along(P, state, 1), state, 2)


def _exchanged_along(A: Float[Array, b * rest], state: Int[Array, " b"], axis: int) -> Float[Array, b * rest]:
    """`_exchanged` along one axis of `A`."""
    shape = [1] * A.ndim
    names = jnp.arange(A.shape[axis], dtype=jnp.int32).reshape([*shape[:axis], -1, *shape[axis + 1 :]])
    at = state.reshape([-1, *shape[1:]])
    first = jax.lax.slice_in_dim(A, 0, 1, axis=axis)
    return jnp.where(names == 0, jnp.take_along_axis(A, at, axis), jnp.where(names == at, first, A))


def closed_state(P: Float[Array, "b n n"]) -> Int[Array, " b"]:
    """A state of a closed class of each chain.

    Start at state 0. While a state can be reached that has no path back, move to it.
    """
    edge = P > 0
    both = jnp.concatenate([edge.swapaxes(1, 2), edge])  # one search serves both directions: less to compile

    def spread(at: Int[Array, " b"], edges: Bool[Array, "b n n"]) -> Bool[Array, "b n"]:
        """The states that a path along `edges`, [to, from], reaches from state `at`."""
        first = at[:, None] == jnp.arange(P.shape[-1], dtype=jnp.int32)[None]

        def step(found: tuple[Array, Array]) -> tuple[Array, Array]:
            return found[0] | (edges & found[0][:, None]).any(-1), found[0]

        start = (first | (edges & first[:, None]).any(-1), first)
        # ends: each turn but the last adds a state to one of the sets, which have n at most
        return jax.lax.while_loop(lambda found: (found[0] != found[1]).any(), step, start)[0]

    def move(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, leading = jnp.split(spread(jnp.tile(state[0], 2), both), 2)
        lost = reached & ~leading
        return jnp.where(lost.any(-1), jnp.argmax(lost, axis=-1).astype(jnp.int32), state[0]), lost.any()

    # ends: a chain that moves leaves its class for one below it for good, and has n classes at most
    return jax.lax.while_loop(lambda state: state[1], move, (jnp.zeros(P.shape[:1], jnp.int32), jnp.bool_(True)))[0]


def completed(dP: Float[Array, "b n n"]) -> Float[Array, "b n n"]:
    """The tangent dQ: the entries of dP off the diagonal, and the diagonal that makes the rows sum to 0."""
    diagonal = jnp.eye(dP.shape[-1], dtype=bool)[None]
    off = jnp.where(diagonal, 0, dP)
    return jnp.where(diagonal, -off.sum(-1, keepdims=True), off)


@jax.custom_jvp
def _differentiable(P: Float[Array, "b n n"]) -> Float[Array, "b n"]:
    return _tiled(P)


@_differentiable.defjvp
def _derivative(
    primals: tuple[Float[Array, "b n n"]], tangents: tuple[Float[Array, "b n n"]]
) -> tuple[Float[Array, "b n"], Float[Array, "b n"]]:
    (P,), (dP,) = primals, tangents
    pi = _differentiable(P)
    G = reduced_inverse(P, frequent_state(pi))
    off = jnp.where(jnp.eye(P.shape[-1], dtype=bool)[None], 0, dP)
    flow = product(pi[:, None], off)[:, 0] - pi * off.sum(-1)  # pi dQ, which sums to 0
    x = product(flow[:, None], G)[:, 0]
    return pi, x - x.sum(-1, keepdims=True) * pi


@jax.custom_batching.custom_vmap
@jax.jit
def _tiled(P: Float[Array, "b n n"]) -> Float[Array, "b n"]:
    """A pass over tiles of matrices. The last tile overlaps the one before it, because padding would copy everything."""
    b, n, _ = P.shape
    few = n <= MOST_STATES
    eliminate = _few if few else _in_two_attempts
    tile = -(-b // max(1, -(-b // _LANES))) if few else max(1, min(_TILE, _TILE_ENTRIES // n**2))
    if b <= tile:
        return eliminate(P)

    def one_tile(i: Array, pi: Array) -> Array:
        start = jnp.minimum(i * tile, b - tile)
        part = eliminate(jax.lax.dynamic_slice_in_dim(P, start, tile))
        return jax.lax.dynamic_update_slice_in_dim(pi, part, start, 0)

    return jax.lax.fori_loop(0, -(-b // tile), one_tile, jnp.zeros((b, n), P.dtype))


@_tiled.def_vmap
def _more_lanes(axis_size: int, in_batched: list[bool], P: Float[Array, "v b n n"]) -> tuple[Float[Array, "v b n"], bool]:
    """Under vmap the new axis joins the batch, so that lanes stay in tiles."""
    del axis_size, in_batched
    return _tiled(P.reshape(-1, *P.shape[2:])).reshape(P.shape[:-1]), True


def _few(P: Float[Array, "t n n"]) -> Float[Array, "t n"]:
    """The stationary distributions of matrices of few states. A NaN is computed once more, towards a state of a closed class."""
    pi = eliminate_unrolled(P)

    def once_more() -> Float[Array, "t n"]:
        state = closed_state(P)
        found = _exchanged_along(_eliminate_in_panels(_exchanged(P, state)), state, 1)
        return jnp.where(jnp.isnan(pi), found, pi)

    return jax.lax.cond(jnp.isnan(pi[:, 0]).any(), once_more, lambda: pi)


def _in_two_attempts(P: Float[Array, "t n n"]) -> Float[Array, "t n"]:
    """`_few` for more states, as a loop of one or two turns, so that the elimination (most of the program) is compiled once."""

    def attempt(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        turn, at, pi = state
        A = jax.lax.cond(turn > 0, lambda: _exchanged(P, at), lambda: P)
        found = _exchanged_along(_eliminate_in_panels(A), at, 1)
        pi = jnp.where(jnp.isnan(pi), found, pi)
        again = (turn == 0) & jnp.isnan(pi[:, 0]).any()
        return jnp.where(again, jnp.int32(1), jnp.int32(2)), jax.lax.cond(again, closed_state, lambda _: at, P), pi

    start = jnp.int32(0), jnp.zeros(P.shape[0], jnp.int32), jnp.full(P.shape[:2], jnp.nan, P.dtype)
    # ends: the first turn leaves 1 or 2, the second 2
    return jax.lax.while_loop(lambda state: state[0] < 2, attempt, start)[2]


def _eliminate_in_panels(A: Float[Array, "b n n"]) -> Float[Array, "b n"]:
    """The stationary distributions by elimination in panels, towards state 0."""
    hi = A.shape[-1]
    panels = min(_PANELS, -(-(hi - 1) // _PANEL))
    width = -(-(hi - 1) // max(panels, 1))
    moves = []  # P_JK N of each panel, last states first
    # ends: hi falls by one at least in each turn
    while hi > 1:
        lo = max(hi - width, 1)
        down = A[:, lo:, :lo]
        leaving = product(down, jnp.ones((*down.shape[:1], lo, 1), A.dtype))[..., 0]
        moves.append(product(A[:, :lo, lo:], _inverse(A[:, lo:, lo:], leaving)))
        A = A[:, :lo, :lo] + product(moves[-1], down)
        hi = lo
    pi = jnp.ones(A.shape[:2], A.dtype)
    for move in reversed(moves):
        pi = jnp.concatenate([pi, product(pi[:, None], move)[:, 0]], axis=1)
        pi = pi / pi.sum(-1, keepdims=True)
    return jnp.where(jnp.isfinite(pi).all(-1, keepdims=True), pi, jnp.nan)


def _inverse(A: Float[Array, "b w w"], leaving: Float[Array, "b w"]) -> Float[Array, "b w w"]:
    """(D - A)^{-1} in place without subtraction, with the batch on the last axis.

    D holds the off-diagonal row sums of A plus `leaving`.
    """
    w = A.shape[-1]
    row, column = jnp.arange(w, dtype=jnp.int32)[:, None], jnp.arange(w + 1, dtype=jnp.int32)[:, None]

    def row_and_column(W: Array, k: Array) -> tuple[Array, Array]:
        this = jax.lax.dynamic_index_in_dim(W, k, 0, keepdims=False)
        out = jnp.where((column < k) | (column == w), this, 0).sum(0, keepdims=True)
        this = jnp.where(column == k, jnp.ones_like(this), this) / out
        return this, jnp.where(row == k, jnp.ones_like(W[:, 0]), jax.lax.dynamic_index_in_dim(W, k, 1, keepdims=False))

    def pivot(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        W, this, into = carry
        kept = (row != w - 1 - i)[:, None] & (column != w - 1 - i)[None]
        W = jnp.where(kept, W, 0) + into[:, None] * this[None]
        return W, *row_and_column(W, w - 2 - i)

    W = jnp.concatenate([A.transpose(1, 2, 0), leaving.T[:, None]], axis=1)
    # the row and the column are carried so that W is updated in place, without a copy
    start = (W, *row_and_column(W, jnp.int32(w - 1)))
    return jax.lax.fori_loop(0, w, pivot, start)[0][:, :w].transpose(2, 0, 1)


def product(A: Float[Array, "b i j"], B: Float[Array, "b j k"]) -> Float[Array, "b i k"]:
    """The matrix product of each pair in full precision."""
    return jax.lax.dot_general(A, B, (((2,), (1,)), ((0,), (0,))), precision=jax.lax.Precision.HIGHEST)


_DENSE_STATES = 2048  # a sparse chain of at most so many states is made dense for GTH
_DENSE_AT_MOST = 8192  # the same limit if the sparse solve is not accurate enough: 512 MiB
_RESIDUAL = 1e-12
_VISITS = 1e7  # the solve keeps nine digits
_VISITS_OF_MANY = 1e10  # it keeps six: for chains with too many states for GTH


@checking_itself
def stationary_distribution(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The stationary distribution of each chain: pi = pi P, pi >= 0, sum pi = 1.

    Works under jit, vmap and scan; differentiable to any order in the entries off the diagonal (a diagonal entry is 1 minus the others of
    its row). A trace checks nothing: a matrix with several closed classes gives NaN.

    Args:
        P: Transition matrices, (*batch, n, n), n >= 2. Rows must sum to 1 within 1e-9 in float64, 1e-5 in float32.

    Returns:
        Stationary distributions, (*batch, n), zero on transient states. A JAX array gives a JAX array; NumPy gives NumPy (float64 unless P
        is float32).

    Raises:
        InputError: A matrix is not stochastic, or has several closed classes, which the error names.

    Source:
        Grassmann, Taksar and Heyman (1985); see the module.

    Example:
        >>> import numpy as np
        >>> from dpjax.chains import stationary_distribution
        >>> stationary_distribution(np.array([[0.9, 0.1], [0.3, 0.7]])).round(12).tolist()
        [0.75, 0.25]
    """
    return finite_stationary(P)


def finite_stationary(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """`gth` with checks. A NaN is computed again in float64; several closed classes raise InputError.

    A trace returns `gth`, and NaN where an entry is negative or NaN.
    """
    if isinstance(P, jax.core.Tracer):
        return jnp.where((P >= 0).all((-2, -1))[..., None], gth(P), jnp.nan)
    with jax.debug_nans(False):  # here a NaN marks a failure, which is handled below
        pi = gth(P)
        least, gap, failed = np.asarray(_marks(P, pi))
    refuse(P, least, gap)
    if not failed:
        return pi
    host = np.array(pi)
    for at in np.argwhere(np.isnan(host[..., 0])):
        where = tuple(int(i) for i in at)
        host[where] = _of_one_closed_class(np.asarray(P[where]), f"matrix {list(where)}" if where else "the chain")
    return jax.device_put(host)


@jax.jit
def _marks(P: Float[Array, "*batch n n"], pi: Float[Array, "*batch n"]) -> Float[Array, " marks"]:
    """The numbers that the host needs to accept a result: the `faults` of P, and 1 if a distribution is NaN, else 0."""
    return jnp.stack([*faults(P), jnp.isnan(pi[..., 0]).any().astype(P.dtype)])


def _of_one_closed_class(P: Float[np.ndarray, "n n"], name: str) -> Float[np.ndarray, " n"]:
    """The distribution, in float64, of a matrix whose mean times exceed the range of its dtype.

    Several closed classes are an error.
    """
    states = only_closed_class(P, name)
    pi = np.zeros(P.shape[0], P.dtype)
    with jax.enable_x64(True), jax.debug_nans(False):
        part = jax.device_put(P[np.ix_(states, states)].astype(np.float64))
        pi[states] = 1 if len(states) == 1 else np.asarray(gth(part))
    if not np.isfinite(pi).all():
        invalid(
            name,
            None,
            "increase its smallest entries, or set them to 0",
            problem="is so nearly reducible that a mean time is beyond the range of float64",
        )
    return pi


def only_closed_class(P: Any, name: str, labels: tuple[Any, ...] | None = None) -> np.ndarray:
    """The states of the one closed class of `P`, dense or sparse. InputError names several."""
    closed = closed_classes(P)
    if len(closed) > 1:
        text = f"reducible, with {len(closed)} closed classes: {describe(closed, labels)}"
        invalid(name, text, "each class has its own stationary distribution: keep one class, with MarkovChain.closed_class(label)")
    return closed[0]


def stationary_of_chain(P: Any, labels: tuple[Any, ...] | None = None) -> Float[np.ndarray, " n"]:
    """The stationary distribution of one float64 matrix, dense or sparse, on the host. Errors name classes by label."""
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
    """The stationary distribution of a sparse chain: a checked sparse solve, or GTH where the solve is not accurate enough.

    The solve gives pi relative to the pivot, a frequent state, from the equations of the other states; then it is normalised and checked.
    The first pivot is the state with the largest column of P. If another state comes out more frequent, it is the pivot of a second solve.
    A rare pivot would lose digits, because all other entries are found relative to it.

    A small residual proves little in a nearly decomposable chain. The solve subtracts, and loses log10 of the mean number of visits between
    two visits of the pivot in digits. That number is ||(I - P_KK)^{-1}||, estimated from the factors (Higham and Tisseur 2000). Above
    `_VISITS` the chain is made dense for GTH, which subtracts nothing, up to `_DENSE_AT_MOST` states. A larger chain is an error.
    """
    first = int(np.argmax(P.sum(axis=0)))
    pi, visits = _solved_without(P, first)
    if np.isfinite(pi).all() and np.argmax(pi) != first:
        pi, visits = _solved_without(P, int(np.argmax(pi)))
    residual = float(np.abs(pi @ P - pi).sum())
    checked = bool(np.isfinite(pi).all() and (pi > 0).all()) and residual <= _RESIDUAL
    small = P.shape[0] <= _DENSE_AT_MOST
    if checked and visits <= (_VISITS if small else _VISITS_OF_MANY):
        return pi
    if not small:
        problem = f"is too nearly decomposable to be solved sparse (mean visits of {visits:.1e} or a residual of {residual:.1e})"
        remedy = f"use fewer states: GTH, which loses no digits, handles up to {_DENSE_AT_MOST}"
        invalid("the chain", None, remedy, problem=problem)
    return np.asarray(stationary_distribution(P.toarray()))


def _solved_without(P: sparse.csr_array, pivot: int) -> tuple[Float[np.ndarray, " n"], float]:
    """The distribution with pi_K (I - P_KK) = pi_p P_pK, and the estimated norm of the inverse; NaN if singular.

    K is all states but p, the pivot.
    """
    from scipy.sparse.linalg import LinearOperator, onenormest, splu

    others = np.delete(np.arange(P.shape[0]), pivot)
    system = sparse.csc_matrix((sparse.eye_array(len(others)) - P[others][:, others]).T)
    try:
        factors: Any = splu(system)
    except RuntimeError:  # a pivot is exactly 0
        return np.full(P.shape[0], np.nan), np.inf
    weights = np.ones(P.shape[0])
    weights[others] = factors.solve(P[[pivot]][:, others].toarray()[0])
    inverse = LinearOperator(system.shape, matvec=factors.solve, rmatvec=lambda x: factors.solve(x, trans="T"), dtype=np.float64)
    with np.errstate(all="ignore"):
        return weights / weights.sum(), float(onenormest(inverse))
