"""Simulation of a Markov chain by inversion of the cumulative distribution function.

*One step.* Let F_ij = P_i0 + ... + P_ij, u uniform on [0, 1) and t = u F_i,n-1. The next state after i is the first j with F_ij >
t. The sums are taken in order, so that F does not change where P_ij = 0. The first index above t therefore never has probability 0,
not even for u = 0. t is kept below the last sum, so that rounding cannot pass the end of the row. A simulated probability is exact
up to the spacing of the uniforms, 2^-23 in float32 and 2^-52 in float64. In float32, rarer transitions do not occur at their rate.

*Sparse chains.* The table keeps, for each state, its targets and their cumulative sums. Shorter rows are padded with their last
sum.

*Keys.* Step t of a trajectory uses the key fold_in(key, t), so that a longer run begins with the shorter one. Lane l has the key
fold_in(root, l).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from scipy import sparse

from dpjax._errors import real_array, require, require_whole
from dpjax._random import checked_key
from dpjax._tracing import at_once, check_traced
from dpjax.chains.chain import MarkovChain, SparseRows
from dpjax.chains.counting import as_floats, check_traced_matrix, require_one_square, require_stochastic
from dpjax.chains.stationary import stationary_distribution


class TransitionTable(NamedTuple):
    """The cumulative rows of a chain.

    Attributes:
        cumulative: Cumulative probabilities, (n, width).
        targets: The state of each entry, (n, width). None if entry j is state j.
    """

    cumulative: Float[Array, "*batch n width"]
    targets: Int[Array, "*batch n width"] | None


def simulate(key: PRNGKeyArray, chain: Any, n_steps: int, initial: Any = None) -> Int[Array, " steps"]:
    """A simulated trajectory of `n_steps` transitions: n_steps + 1 state indices (int32).

    key, chain and initial may be traced, under jit, vmap and scan. For several keys, chains or initial states use `jax.vmap`.
    States have no derivative.

    Args:
        key: A typed JAX key.
        chain: A MarkovChain (dense or sparse) or one transition matrix, (n, n). A matrix sets the dtype of the draws. The draws of
            a chain on
            the host have JAX's default float type.
        n_steps: The number of transitions, 0 or more; static.
        initial: A state index, or a distribution on the states. Default: the chain's initial distribution, or the stationary
            distribution of
            a matrix.

    Returns:
        State indices, (n_steps + 1,), int32.

    Raises:
        InputError: An argument is invalid.

    Example:
        >>> import jax, numpy as np
        >>> from dpjax.chains import simulate
        >>> simulate(jax.random.key(0), np.array([[0.0, 1.0], [1.0, 0.0]]), 4, initial=0).tolist()
        [0, 1, 0, 1, 0]
    """
    key = checked_key(key)
    require_whole(n_steps, "n_steps", "pass a whole number of steps, 0 or more; it is static")
    if isinstance(chain, MarkovChain):
        law = chain.initial_distribution if initial is None else initial
    else:
        law = stationary_distribution(chain) if initial is None else initial
    table = transition_table(chain)
    return walk(key, table, cumulative_start(law, table), n_steps)


def transition_table(chain: Any) -> TransitionTable:
    """The table of one MarkovChain or matrix. Make it once to call `walk` often.

    The chain may be traced, under jit, vmap and scan; the table is differentiable. For several chains of one structure use
    `jax.vmap`.

    Args:
        chain: A MarkovChain or a transition matrix, (n, n).

    Returns:
        A TransitionTable of JAX arrays.
    """
    if isinstance(chain, MarkovChain) and chain.on_host:
        dtype = jnp.zeros(()).dtype
        matrix: Any = chain.matrix
        if chain.is_sparse:
            entries, targets = _padded(matrix, dtype)
            return TransitionTable(*jax.device_put((_running_sums(entries), targets)))
        return TransitionTable(jax.device_put(_running_sums(matrix.astype(dtype))), None)
    if isinstance(chain, MarkovChain):
        return _table_of_jax(chain.matrix)
    if isinstance(chain, jax.core.Tracer):
        require_one_square(chain)
        check_traced_matrix(chain)
        return TransitionTable(_traced_running_sums(chain), None)
    array = np.asarray(chain) if isinstance(chain, jax.Array) else as_floats(chain).astype(jnp.zeros(()).dtype)
    require_one_square(array)
    with at_once():
        require_stochastic(jax.device_put(array))
    return TransitionTable(jax.device_put(_running_sums(array)), None)


def cumulative_start(initial: Any, table: TransitionTable) -> Float[Array, " n"]:
    """The cumulative distribution of the first state, (n,). For several starts use `jax.vmap`.

    A traced index outside the chain gives zeros. `dpjax.debug_checks` reports it.

    Args:
        initial: A state index or a distribution on the n states; may be traced.
        table: The table of the chain.

    Returns:
        Cumulative probabilities, (n,), in the dtype of the table.

    Raises:
        InputError: `initial` is neither.
    """
    n, dtype = table.cumulative.shape[0], table.cumulative.dtype
    if isinstance(initial, jax.core.Tracer):
        remedy = f"pass a state index or a distribution on {n} states; use jax.vmap for several"
        whole = initial.ndim == 0 and jnp.issubdtype(initial.dtype, jnp.integer)
        require(whole or initial.shape == (n,), "the shape of initial", initial.shape, remedy)
        if whole:
            check_traced((initial >= 0) & (initial < n), "initial", f"be a state index, 0 to {n - 1}")
        law = jax.nn.one_hot(initial, n, dtype=dtype) if whole else initial.astype(dtype)
        return _traced_running_sums(law[None])[0]
    remedy = f"pass a state index, 0 to {n - 1}, or a distribution on {n} states"
    real_array(initial, "initial", remedy)
    start = np.asarray(initial)
    if start.ndim == 0:
        require(start.dtype.kind in "iu" and 0 <= int(start) < n, "initial", initial, f"pass a state index, 0 to {n - 1}")
        start = np.eye(n)[int(start)]
    require(
        start.ndim < 2,
        "the shape of initial",
        start.shape,
        f"pass a state index or a distribution on {n} states; use jax.vmap for several",
    )
    good = start.shape == (n,) and bool((start >= 0).all()) and abs(float(start.sum()) - 1) <= 1e-5
    require(good, "initial", initial, f"pass a state index or a distribution on {n} states that sums to 1")
    return jax.device_put(_running_sums(start.astype(dtype)[None])[0])


@functools.partial(jax.jit, static_argnames="n_steps")
def walk(key: PRNGKeyArray, table: TransitionTable, start: Array, n_steps: int) -> Int[Array, " steps"]:
    """The simulation kernel: a trajectory from a table and a cumulative start, unchecked, under jit, vmap and scan.

    States have no derivative.

    Args:
        key: A typed JAX key. For several keys, tables or starts use `jax.vmap`.
        table: One `transition_table`.
        start: One `cumulative_start`, (n,).
        n_steps: The number of transitions; static.

    Returns:
        State indices, (n_steps + 1,), int32.

    Example:
        >>> import jax, numpy as np
        >>> from dpjax.chains import cumulative_start, transition_table, walk
        >>> table = transition_table(np.array([[0.0, 1.0], [1.0, 0.0]]))
        >>> walk(jax.random.key(0), table, cumulative_start(0, table), 2).tolist()
        [0, 1, 0]
    """
    sizes = table.cumulative.ndim, start.ndim, key.ndim
    require(sizes == (2, 1, 0), "the number of axes", sizes, "pass one table, one start and one key; use jax.vmap for several")

    def step(state: Int[Array, ""], t: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        place = _first_above(jax.random.fold_in(key, t), table.cumulative[state])
        following = place if table.targets is None else table.targets[state, place]
        return following, following

    first = _first_above(jax.random.fold_in(key, 0), start)
    _, rest = jax.lax.scan(step, first, jnp.arange(1, n_steps + 1, dtype=jnp.int32))
    return jnp.concatenate([first[None], rest])


def _first_above(key: PRNGKeyArray, cumulative: Float[Array, " width"]) -> Int[Array, ""]:
    """The index of a uniform draw in a cumulative row."""
    total = cumulative[-1]
    t = jnp.minimum(jax.random.uniform(key, (), cumulative.dtype) * total, jnp.nextafter(total, jnp.zeros_like(total)))
    return (cumulative <= t).sum(dtype=jnp.int32)


def _running_sums(rows: Float[np.ndarray, "m width"]) -> Float[np.ndarray, "m width"]:
    """Sums in order (NumPy's cumsum): F does not change where a term is 0."""
    return np.cumsum(rows, axis=1, dtype=rows.dtype)


def _traced_running_sums(rows: Float[Array, "m width"]) -> Float[Array, "m width"]:
    """`_running_sums` under a trace. jnp.cumsum adds in another order, so that F may change where a term is 0."""

    def add(total: Array, column: Array) -> tuple[Array, Array]:
        return total + column, total + column

    return jax.lax.scan(add, jnp.zeros_like(rows[:, 0]), rows.T)[1].T


def _table_of_jax(matrix: Any) -> TransitionTable:
    """The table of a matrix of JAX arrays; a sparse one keeps its stored entries only."""
    if not isinstance(matrix, SparseRows):
        require_one_square(matrix)
        return TransitionTable(_traced_running_sums(jnp.asarray(matrix)), None)
    require(matrix.data.ndim == 1, "the shape of the chain's entries", matrix.data.shape, "use jax.vmap for a batch of chains")
    inside, targets = _places(matrix.indptr, matrix.indices)
    at = np.zeros(inside.shape, np.int32)
    at[inside] = np.arange(len(matrix.indices))
    entries = jnp.where(inside, matrix.data[at], 0)
    return TransitionTable(_traced_running_sums(entries), jnp.asarray(targets))


def _places(indptr: Any, indices: Any) -> tuple[Bool[np.ndarray, "n width"], Int[np.ndarray, "n width"]]:
    """Which slots of the padded rows are used, and their states (0 in the other slots)."""
    lengths = np.diff(indptr)
    inside = np.arange(lengths.max())[None] < lengths[:, None]
    targets = np.zeros(inside.shape, np.int32)
    targets[inside] = indices
    return inside, targets


def _padded(P: sparse.csr_array, dtype: Any) -> tuple[Float[np.ndarray, "n width"], Int[np.ndarray, "n width"]]:
    """The stored entries of a sparse matrix and their states, as padded rows."""
    inside, targets = _places(P.indptr, P.indices)
    entries = np.zeros(inside.shape)
    entries[inside] = P.data
    return entries.astype(dtype), targets
