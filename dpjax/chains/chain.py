"""A Markov chain on finitely many labelled states: arrays on the host, or traced ones.

P_ij = P(next state is j | state is i), rows summing to 1. Estimated from counts C it is the maximum-likelihood P_ij = C_ij / sum_l
C_il; a row without counts has no estimate and is an error, never a guess.

*A pytree.* The leaves are the probabilities (a dense chain's matrix, a sparse chain's stored entries) and the initial law, if there is
one. Labels and the places of a sparse chain's entries are static: equal by content, hashed once a chain. Counts are no part of the
pytree, since a transformation may return other probabilities: a chain that went through one has none. What comes back is not checked.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import sparse

from dpjax._errors import invalid, real_array, require
from dpjax._labelled import matrix_of, vector_of
from dpjax._tracing import check_traced, checking, is_traced, require_concrete
from dpjax._values import key_of, require_labels
from dpjax.chains import counting, mixing, stationary
from dpjax.chains.counting import Counts, Labels, counts_of_pairs, counts_of_trajectories, row_sum_tolerance, whole_counts


class Structure:
    """What of a chain is static: its labels and, where it is sparse, the places of its entries. Equal by content, hashed once."""

    __slots__ = ("_hash", "indices", "indptr", "labels")

    def __init__(
        self,
        labels: Labels,
        indices: Int[np.ndarray, " edges"] | None = None,
        indptr: Int[np.ndarray, " n_plus_1"] | None = None,
    ) -> None:
        self.labels, self.indices, self.indptr = labels, indices, indptr
        self._hash = hash((labels, *(None if part is None else part.tobytes() for part in (indices, indptr))))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Structure) or self._hash != other._hash or self.labels != other.labels:
            return False
        return _same(self.indices, other.indices) and _same(self.indptr, other.indptr)

    def __repr__(self) -> str:
        return f"{len(self.labels)} states" + ("" if self.indices is None else f", {len(self.indices)} entries")

    def __reduce__(self) -> tuple[type[Structure], tuple[Any, ...]]:
        return Structure, (self.labels, self.indices, self.indptr)  # the hash of a text differs between processes


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["structure"])
@dataclasses.dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix whose entries are a JAX array, (*batch, edges), in the places of `structure`, row by row."""

    data: Any
    structure: Structure

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return (len(self.structure.labels),) * 2

    @property
    def indices(self) -> Int[np.ndarray, " edges"]:
        """The column of each entry."""
        assert self.structure.indices is not None
        return self.structure.indices

    @property
    def indptr(self) -> Int[np.ndarray, " n_plus_1"]:
        """Where each row begins among the entries, and the number of entries."""
        assert self.structure.indptr is not None
        return self.structure.indptr

    def toarray(self) -> Float[Array, "*batch n n"]:
        """The matrix with its zeros, a JAX array."""
        empty = jnp.zeros((*self.data.shape[:-1], *self.shape), self.data.dtype)
        rows = np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.indptr))
        return empty.at[..., rows, self.indices].set(self.data, unique_indices=True)


Matrix = Any  # Float[np.ndarray, "n n"] | csr_array of the host; Float[Array, "*batch n n"] | SparseRows of JAX


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MarkovChain:
    """A chain: make one with `from_counts`, `from_matrix`, `from_trajectories` or `from_pairs`, which check what they are given.

    matrix: float64, (n, n) NumPy or a csr_array; a JAX array, or `SparseRows`, in a chain that is traced or came out of a transformation.
    labels: n distinct hashables, 0 to n - 1 unless given. counts: int64 of the same form, None where the chain came from a matrix or
    from a transformation. initial: the law of the first state, None for the stationary one. Arrays are read-only.

    A registered pytree: see the module. A chain that came out of `jax.vmap` holds a batch; its methods are for one chain, so map them too.

    >>> from dpjax.chains import MarkovChain
    >>> chain = MarkovChain.from_counts([[3, 1], [2, 2]], labels=["dry", "wet"])
    >>> chain.matrix.tolist(), chain.index("wet")
    ([[0.75, 0.25], [0.5, 0.5]], 1)
    """

    matrix: Matrix
    labels: Labels
    counts: Counts | None = None
    initial: Float[np.ndarray, " n"] | Float[Array, "*batch n"] | None = None

    @classmethod
    def from_counts(cls, counts: Any, labels: Any = None, initial: Any = None) -> MarkovChain:
        """On the host: the chain of counts, (n, n) whole numbers, dense or sparse. ValueError names the entry, row or label at fault."""
        counts, named = matrix_of(counts, labels, "counts")
        whole = whole_counts(counts, named if named is not None and len(named) == np.shape(counts)[0] else None)
        named = _checked_labels(named, whole.shape[0])
        totals = np.asarray(whole.sum(axis=1))
        empty = np.flatnonzero(totals == 0)
        if len(empty):
            names = [named[i] for i in empty[:10]]
            remedy = "keep dpjax.chains.largest_class_of_counts(counts, labels), or drop those states"
            invalid("the states without a transition out of them", names, f"their rows are empty: {remedy}")
        return cls(
            _freeze(_divide_rows(whole, totals)),
            named,
            _freeze(whole),
            _checked_law(vector_of(initial, named, "initial"), len(named)),
        )

    @classmethod
    def from_matrix(cls, P: Any, labels: Any = None, initial: Any = None) -> MarkovChain:
        """The chain of a transition matrix, (n, n), dense or sparse; of one matrix: map over a batch with `jax.vmap`.

        Rows must sum to 1 within 1e-9 (1e-5 where P is float32) and are divided by their sums, so that they do in float64. A traced P,
        dense, is kept as it is, in its own type and unchecked (`dpjax.debug_checks` checks it): every entry of it may be a transition.
        """
        P, given = matrix_of(P, labels, "P")
        matrix = _kept_matrix(P) if is_traced(P) else _freeze(_checked_matrix(P))
        named = _checked_labels(given, matrix.shape[0])
        return cls(matrix, named, None, _checked_law(vector_of(initial, named, "initial"), len(named)))

    @classmethod
    def from_trajectories(cls, sequences: Any, initial: Any = None, labels: Any = None) -> MarkovChain:
        """On the host: the chain of the transitions inside each sequence of labels; states sorted, or as met where they cannot be.

        labels: the states and their order, words such as NA among them, which are missing values otherwise.
        """
        counts, named = counts_of_trajectories(sequences, labels)
        return cls.from_counts(counts, named, initial)

    @classmethod
    def from_pairs(cls, pairs: Any, labels: Any = None, initial: Any = None) -> MarkovChain:
        """On the host: the chain of (from, to) pairs; `labels` fixes the states and their order."""
        counts, named = counts_of_pairs(pairs, labels)
        return cls.from_counts(counts, named, initial)

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.labels)

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is held by its entries: a csr_array, or `SparseRows`."""
        return counting.is_sparse(self.matrix) or isinstance(self.matrix, SparseRows)

    @property
    def on_host(self) -> bool:
        """Whether the matrix is a NumPy array or a csr_array, as in a chain that no transformation touched."""
        return isinstance(self.matrix, np.ndarray) or counting.is_sparse(self.matrix)

    def dense(self) -> Float[np.ndarray, "n n"] | Float[Array, "*batch n n"]:
        """The matrix with its zeros: NumPy, or a JAX array where the chain holds one."""
        return self.matrix.toarray() if self.is_sparse else self.matrix

    @property
    def initial_distribution(self) -> Float[np.ndarray, " n"] | Float[Array, "*batch n"]:
        """The law of the first state: `initial`, or the stationary distribution."""
        return self.stationary_distribution() if self.initial is None else self.initial

    def index(self, label: Hashable) -> int:
        """The index of a label in any spelling of it (docs/reading.md), static under a trace too; ValueError for one that is no state."""
        try:
            found = self._index_of.get(key_of(label))
        except TypeError:  # a list, which is no label
            found = None
        if found is None:
            invalid("label", label, f"it is not among the labels of this chain of {self.n_states} states: give one of them")
        return found

    def stationary_distribution(self) -> Float[np.ndarray, " n"] | Float[Array, "*batch n"]:
        """The stationary distribution, float64; zero on transient states; ValueError naming the classes if several are closed.

        Of a chain that holds JAX arrays, `dpjax.stationary_distribution` of its dense matrix, in their type: traced, differentiable.
        """
        return self._stationary if self.on_host else stationary.stationary_distribution(self.dense())

    def entropy_rate(self) -> Any:
        """The entropy rate in nats, float64; of a chain that holds JAX arrays, `dpjax.entropy_rate` of its dense matrix."""
        if not self.on_host:
            return mixing.entropy_rate(self.dense())
        return mixing.entropy_rate_of_sparse(sparse.csr_array(self.matrix), self._stationary)

    def support(self) -> Any:
        """On the host: where P_ij > 0, boolean, dense or csr_array as the matrix is."""
        pattern = counting.support(self.host_matrix())
        return pattern if self.is_sparse else pattern.toarray()

    def is_irreducible(self) -> bool:
        """On the host: whether every state reaches every other."""
        return counting.is_irreducible(self.host_matrix())

    def require_irreducible(self) -> None:
        """On the host: ValueError naming the classes, by label, unless the chain is irreducible."""
        counting.require_irreducible(self.host_matrix(), self.labels)

    def host_matrix(self) -> Any:
        """On the host: the matrix as NumPy or a csr_array, in the type of its entries."""
        require_concrete(self, "the chain", "ask outside the transformed function: classes are read from the pattern of the matrix")
        if isinstance(self.matrix, SparseRows):
            shape = np.shape(self.matrix.data)
            require(len(shape) == 1, "the shape of the chain's entries", shape, "take one chain of the batch, or map with jax.vmap")
            return _csr(np.asarray(self.matrix.data), self.matrix.structure)
        return self.matrix if counting.is_sparse(self.matrix) else np.asarray(self.matrix)

    def largest_class(self) -> MarkovChain:
        """On the host: the chain on the largest strongly connected class, labels kept; ties go to the class with the smallest index.

        With counts, the chain of the counts inside the class; without, rows divided by what stays inside. `initial` is restricted
        and divided by its sum, ValueError if nothing of it lies in the class. A class of one state is a ValueError.
        """
        return self._within(counting.largest_class(self.host_matrix()), "the largest class")

    def closed_class(self, label: Hashable = None) -> MarkovChain:
        """On the host: the chain on a closed class, which no transition leaves: where it stays in the end. Labels and rows are kept.

        label: a state of the class; None takes the largest, of equally large ones that of the smallest index. `initial` is restricted as in
        `largest_class`, which may be a class that is left for good. ValueError for a transient label and for a class of one state.
        """
        matrix = self.host_matrix()
        closed = counting.closed_classes(matrix)
        if label is None:
            return self._within(max(closed, key=len), "the closed class")
        at = self.index(label)
        states = next((states for states in closed if at in states), None)
        if states is None:
            invalid("label", label, f"it is transient: give a state of a closed class, {counting.describe(closed, self.labels)}")
        return self._within(states, "the closed class")

    def _within(self, states: Int[np.ndarray, " size"], name: str) -> MarkovChain:
        matrix = self.host_matrix()
        named = tuple(self.labels[s] for s in states)
        require(
            len(states) >= 2,
            name,
            named,
            "no two states reach each other: give a chain with a cycle of two states or more",
        )
        if len(states) == self.n_states:
            return self
        initial = None if self.initial is None else np.asarray(self.initial)[states]
        if initial is not None:
            require(
                bool(initial.sum() > 0),
                f"the initial law within {name}",
                0.0,
                "give the chain an initial law that meets it",
            )
            initial = initial / initial.sum()
        if self.counts is not None:
            return MarkovChain.from_counts(counting.restrict(self.counts, states), named, initial)
        part = counting.restrict(matrix, states)
        return MarkovChain(
            _freeze(_divide_rows(part, np.asarray(part.sum(axis=1)))), named, None, _checked_law(initial, len(named))
        )

    @functools.cached_property
    def _index_of(self) -> dict[Hashable, int]:
        return {key_of(label): i for i, label in enumerate(self.labels)}

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], ...], Structure]:
        """The probabilities and the initial law, by name, and what is static."""
        matrix: Any = self.matrix
        values = matrix.data if self.is_sparse else matrix
        return ((_MATRIX, values), (_INITIAL, self.initial)), self._structure

    def tree_flatten(self) -> tuple[tuple[Any, Any], Structure]:
        """The probabilities and the initial law, and what is static."""
        matrix: Any = self.matrix
        return (matrix.data if self.is_sparse else matrix, self.initial), self._structure

    @classmethod
    def tree_unflatten(cls, static: Structure, leaves: tuple[Any, Any]) -> MarkovChain:
        """The chain of these leaves, whatever they are; without counts."""
        values, initial = leaves
        if static.indices is not None:
            values = _csr(values, static) if _fits(values, static.indices) else SparseRows(values, static)
        chain = object.__new__(cls)
        held = {"matrix": values, "labels": static.labels, "counts": None, "initial": initial, "_structure": static}
        for name, value in held.items():
            object.__setattr__(chain, name, value)
        return chain

    @functools.cached_property
    def _structure(self) -> Structure:
        matrix: Any = self.matrix
        return Structure(self.labels, matrix.indices, matrix.indptr) if counting.is_sparse(matrix) else Structure(self.labels)

    @functools.cached_property
    def _stationary(self) -> Float[np.ndarray, " n"]:
        pi = stationary.stationary_of_chain(self.matrix, self.labels)
        pi.setflags(write=False)
        return pi

    def __repr__(self) -> str:
        form = "sparse" if self.is_sparse else "dense"
        origin = "a matrix" + ", traced" * is_traced(self) if self.counts is None else f"{int(self.counts.sum())} transitions"
        return f"MarkovChain({self.n_states} states, {form}, from {origin})"


_MATRIX, _INITIAL = jax.tree_util.GetAttrKey("matrix"), jax.tree_util.GetAttrKey("initial")


def _fits(values: Any, indices: np.ndarray) -> bool:
    """Whether these are numbers of the host, one for each place."""
    return isinstance(values, np.ndarray) and values.shape == indices.shape and values.dtype.kind in "bfiu"


def _csr(data: Any, places: Structure) -> sparse.csr_array:
    """A csr_array of these entries, not copied."""
    rows: Any = data, places.indices, places.indptr
    return sparse.csr_array(rows, shape=(len(places.labels),) * 2)


def _kept_matrix(P: Any) -> Float[Array, "n n"]:
    """A traced matrix, its shape checked."""
    given = jnp.asarray(P)
    counting.require_one_square(given)
    matrix = given if jnp.issubdtype(given.dtype, jnp.floating) else given.astype(jnp.zeros(()).dtype)
    counting.check_traced_matrix(matrix)
    return matrix


def _checked_matrix(P: Any) -> Matrix:
    given: Any = sparse.csr_array(P) if counting.is_sparse(P) else np.asarray(P)
    require(given.ndim < 3, "the shape of P", given.shape, "give one square matrix (n, n), and map over a batch with jax.vmap")
    require(given.ndim == 2 and given.shape[0] == given.shape[1], "the shape of P", given.shape, "give a square matrix (n, n)")
    dtype = np.float32 if given.dtype == np.float32 else np.float64
    tolerance = row_sum_tolerance(dtype)
    real = given.dtype.kind in "iufb" or given.dtype.name == "bfloat16"
    require(real, "the type of P", str(given.dtype), "give numbers, and labels as labels= or in a labelled object")
    matrix: Any = given.astype(np.float64)
    if counting.is_sparse(matrix):
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    values: Any = matrix.data if counting.is_sparse(matrix) else matrix
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        invalid("an entry of P", float(values[wrong][0]), "give finite entries that are not negative")
    sums = np.asarray(matrix.sum(axis=1))
    far = np.flatnonzero(np.abs(sums - 1) > tolerance)
    if len(far):
        remedy = counting.sum_remedy(matrix, "each row sums to 1: divide it by its sum", dtype)
        invalid(f"the sum of row {far[0]} of P", float(sums[far[0]]), remedy)
    return _divide_rows(matrix, sums)


def _divide_rows(values: Any, totals: np.ndarray) -> Matrix:
    if counting.is_sparse(values):
        matrix = values.astype(np.float64)
        matrix.data = matrix.data / np.repeat(totals, np.diff(matrix.indptr))
        return matrix
    return values / totals[:, None].astype(np.float64)


def _checked_labels(labels: Labels | None, n: int) -> Labels:
    require(n >= 2, "the number of states", n, "give at least two states")
    if labels is None:
        return tuple(range(n))
    require(len(labels) == n, "the number of labels", len(labels), f"give {n} labels, one for each state")
    require_labels(labels)
    return labels


def _checked_law(initial: Any, n: int) -> Float[np.ndarray, " n"] | Float[Array, " n"] | None:
    if initial is None:
        return None
    if is_traced(initial):
        return _kept_law(jnp.asarray(initial), n)
    remedy = f"give {n} finite probabilities, one for each state, or a table of them by label"
    law = real_array(initial, "initial", remedy).copy()
    require(law.shape == (n,), "the shape of initial", law.shape, _one_law(law, n))
    good = np.isfinite(law).all() and (law >= 0).all() and abs(law.sum() - 1) <= row_sum_tolerance(np.asarray(initial).dtype)
    require(bool(good), "initial", law, "divide it by its sum", must="be finite, not negative and sum to 1")
    law /= law.sum()
    law.setflags(write=False)
    return law


def _one_law(law: Any, n: int) -> str:
    return f"give {n} probabilities, one for each state" + "; map over a batch with jax.vmap" * (law.ndim > 1)


def _kept_law(law: Array, n: int) -> Float[Array, " n"]:
    """A traced law, its shape checked."""
    require(law.shape == (n,), "the shape of initial", law.shape, _one_law(law, n))
    if checking():
        check_traced(jnp.isfinite(law) & (law >= 0), "initial", "be finite and not negative")
        check_traced(jnp.abs(law.sum() - 1) <= row_sum_tolerance(law.dtype), "initial", "sum to 1")
    return law


def _freeze(values: Any) -> Any:
    """Read-only: in place for what was made here."""
    for array in (values.data, values.indices, values.indptr) if counting.is_sparse(values) else (values,):
        array.setflags(write=False)
    return values
