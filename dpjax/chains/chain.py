"""A Markov chain on finitely many labelled states, held on the host.

P_ij = P(next state is j | state is i), rows summing to 1. Estimated from counts C it is the maximum-likelihood P_ij = C_ij / sum_l
C_il; a row without counts has no estimate and is an error, never a guess.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from dpjax._errors import invalid, require
from dpjax.chains import counting as structure
from dpjax.chains import mixing as entropy
from dpjax.chains import stationary
from dpjax.chains._arrays import row_sum_tolerance
from dpjax.chains.counting import Counts, Labels, counts_of_pairs, counts_of_trajectories, whole_counts

Matrix = Float[np.ndarray, "n n"] | sparse.csr_array


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MarkovChain:
    """A chain: make one with `from_counts`, `from_matrix`, `from_trajectories` or `from_pairs`, which check what they are given.

    matrix: float64, (n, n) NumPy or a csr_array; labels: n distinct hashables, 0 to n - 1 unless given; counts: int64 of the same
    form, None where the chain came from a matrix; initial: the law of the first state, None for the stationary one. Arrays are
    read-only.

    >>> from dpjax.chains import MarkovChain
    >>> chain = MarkovChain.from_counts([[3, 1], [2, 2]], labels=["dry", "wet"])
    >>> chain.matrix.tolist(), chain.index("wet")
    ([[0.75, 0.25], [0.5, 0.5]], 1)
    """

    matrix: Matrix
    labels: Labels
    counts: Counts | None = None
    initial: Float[np.ndarray, " n"] | None = None

    @classmethod
    def from_counts(cls, counts: Any, labels: Sequence[Hashable] | None = None, initial: Any = None) -> MarkovChain:
        """The chain of counts, (n, n) whole numbers, dense or sparse. ValueError names the entry, row or label at fault."""
        named = None if labels is None else tuple(labels)
        whole = whole_counts(counts, named if named is not None and len(named) == np.shape(counts)[0] else None)
        named = _checked_labels(named, whole.shape[0])
        totals = np.asarray(whole.sum(axis=1))
        empty = np.flatnonzero(totals == 0)
        if len(empty):
            names = [named[i] for i in empty[:10]]
            remedy = "keep dpjax.chains.largest_class_of_counts(counts, labels), or drop those states"
            invalid("the states without a transition out of them", names, f"their rows are empty: {remedy}")
        return cls(_freeze(_divide_rows(whole, totals)), named, _freeze(whole), _checked_law(initial, len(named)))

    @classmethod
    def from_matrix(cls, P: Any, labels: Sequence[Hashable] | None = None, initial: Any = None) -> MarkovChain:
        """The chain of a transition matrix, (n, n), dense or sparse.

        Rows must sum to 1 within 1e-9 (1e-5 where P is float32) and are divided by their sums, so that they do in float64.
        """
        matrix = _checked_matrix(P)
        named = _checked_labels(None if labels is None else tuple(labels), matrix.shape[0])
        return cls(_freeze(matrix), named, None, _checked_law(initial, len(named)))

    @classmethod
    def from_trajectories(cls, sequences: Iterable[Sequence[Hashable]], initial: Any = None) -> MarkovChain:
        """The chain of the transitions inside each sequence of labels; states sorted, or as met where they cannot be."""
        counts, labels = counts_of_trajectories(sequences)
        return cls.from_counts(counts, labels, initial)

    @classmethod
    def from_pairs(
        cls, pairs: Iterable[Sequence[Hashable]], labels: Sequence[Hashable] | None = None, initial: Any = None
    ) -> MarkovChain:
        """The chain of (from, to) pairs; `labels` fixes the states and their order."""
        counts, named = counts_of_pairs(pairs, labels)
        return cls.from_counts(counts, named, initial)

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.labels)

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is a csr_array."""
        return structure.is_sparse(self.matrix)

    @property
    def initial_distribution(self) -> Float[np.ndarray, " n"]:
        """The law of the first state: `initial`, or the stationary distribution."""
        return self.stationary_distribution() if self.initial is None else self.initial

    def index(self, label: Hashable) -> int:
        """The index of a label; ValueError for one that is no state."""
        require(
            label in self._index_of,
            "label",
            label,
            f"it is not among the labels of this chain of {self.n_states} states: give one of them",
        )
        return self._index_of[label]

    def stationary_distribution(self) -> Float[np.ndarray, " n"]:
        """The stationary distribution, float64; zero on transient states; ValueError naming the classes if several are closed."""
        return self._stationary

    def entropy_rate(self) -> float:
        """The entropy rate in nats, float64."""
        return entropy.entropy_rate_of_sparse(sparse.csr_array(self.matrix), self.stationary_distribution())

    def support(self) -> Any:
        """Where P_ij > 0: boolean, dense or csr_array as the matrix is."""
        pattern = structure.support(self.matrix)
        return pattern if self.is_sparse else pattern.toarray()

    def is_irreducible(self) -> bool:
        """Whether every state reaches every other."""
        return structure.is_irreducible(self.matrix)

    def require_irreducible(self) -> None:
        """ValueError naming the classes, by label, unless the chain is irreducible."""
        structure.require_irreducible(self.matrix, self.labels)

    def largest_class(self) -> MarkovChain:
        """The chain on the largest strongly connected class, labels kept; ties go to the class with the smallest index.

        With counts, the chain of the counts inside the class; without, rows divided by what stays inside. `initial` is restricted
        and divided by its sum, ValueError if nothing of it lies in the class. A class of one state is a ValueError.
        """
        states = structure.largest_class(self.matrix)
        named = tuple(self.labels[s] for s in states)
        require(
            len(states) >= 2,
            "the largest class",
            named,
            "no two states reach each other: give a chain with a cycle of two states or more",
        )
        if len(states) == self.n_states:
            return self
        initial = None if self.initial is None else self.initial[states]
        if initial is not None:
            require(
                bool(initial.sum() > 0),
                "the initial law within the largest class",
                0.0,
                "give the chain an initial law that meets it",
            )
            initial = initial / initial.sum()
        if self.counts is not None:
            return MarkovChain.from_counts(structure.restrict(self.counts, states), named, initial)
        part = structure.restrict(self.matrix, states)
        return MarkovChain(
            _freeze(_divide_rows(part, np.asarray(part.sum(axis=1)))), named, None, _checked_law(initial, len(named))
        )

    @functools.cached_property
    def _index_of(self) -> dict[Hashable, int]:
        return {label: i for i, label in enumerate(self.labels)}

    @functools.cached_property
    def _stationary(self) -> Float[np.ndarray, " n"]:
        pi = stationary.stationary_of_chain(self.matrix, self.labels)
        pi.setflags(write=False)
        return pi

    def __repr__(self) -> str:
        form = "sparse" if self.is_sparse else "dense"
        origin = "a matrix" if self.counts is None else f"{int(self.counts.sum())} transitions"
        return f"MarkovChain({self.n_states} states, {form}, from {origin})"


def _checked_matrix(P: Any) -> Matrix:
    given: Any = sparse.csr_array(P) if structure.is_sparse(P) else np.asarray(P)
    require(given.ndim == 2 and given.shape[0] == given.shape[1], "the shape of P", given.shape, "give a square matrix (n, n)")
    tolerance = row_sum_tolerance(np.float32 if given.dtype == np.float32 else np.float64)
    matrix: Any = given.astype(np.float64)
    if structure.is_sparse(matrix):
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    values: Any = matrix.data if structure.is_sparse(matrix) else matrix
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        invalid("an entry of P", float(values[wrong][0]), "give finite entries that are not negative")
    sums = np.asarray(matrix.sum(axis=1))
    far = np.flatnonzero(np.abs(sums - 1) > tolerance)
    if len(far):
        invalid(f"the sum of row {far[0]} of P", float(sums[far[0]]), "each row sums to 1: divide it by its sum")
    return _divide_rows(matrix, sums)


def _divide_rows(values: Any, totals: np.ndarray) -> Matrix:
    if structure.is_sparse(values):
        matrix = values.astype(np.float64)
        matrix.data = matrix.data / np.repeat(totals, np.diff(matrix.indptr))
        return matrix
    return values / totals[:, None].astype(np.float64)


def _checked_labels(labels: Labels | None, n: int) -> Labels:
    require(n >= 2, "the number of states", n, "give at least two states")
    if labels is None:
        return tuple(range(n))
    require(len(labels) == n, "the number of labels", len(labels), f"give {n} labels, one for each state")
    seen: set[Hashable] = set()
    for label in labels:
        require(label not in seen, "label", label, "it is given twice: give distinct labels")
        seen.add(label)
    return labels


def _checked_law(initial: Any, n: int) -> Float[np.ndarray, " n"] | None:
    if initial is None:
        return None
    law = np.array(initial, dtype=np.float64)
    require(law.shape == (n,), "the shape of initial", law.shape, f"give {n} probabilities, one for each state")
    good = np.isfinite(law).all() and (law >= 0).all() and abs(law.sum() - 1) <= row_sum_tolerance(np.asarray(initial).dtype)
    require(bool(good), "initial", law, "divide it by its sum", must="be finite, not negative and sum to 1")
    law /= law.sum()
    law.setflags(write=False)
    return law


def _freeze(values: Any) -> Any:
    """Read-only: in place for what was made here."""
    for array in (values.data, values.indices, values.indptr) if structure.is_sparse(values) else (values,):
        array.setflags(write=False)
    return values
