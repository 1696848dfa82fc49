"""Classes and period of a chain: which states reach which, read from the pattern of its matrix alone.

Two states communicate when each reaches the other; the classes are the strongly connected parts of the graph with an edge i -> j
where P_ij > 0. A class that no edge leaves is closed; states outside closed classes are transient. A chain is irreducible when all
its states form one class. It then has a period, the greatest common divisor of the lengths of its cycles; with levels l_i (edges
on a shortest way from state 0 to i) this is gcd over edges i -> j of l_i + 1 - l_j.

Everything here is for the host, on dense or sparse matrices of probabilities or counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int
from scipy import sparse

from dpjax._errors import invalid, require


def is_sparse(P: Any) -> bool:
    """Whether `P` is a SciPy sparse array or matrix."""
    return bool(sparse.issparse(P))


def support(P: Any) -> sparse.csr_array:
    """The pattern of `P`, dense or sparse: a boolean csr_array, True where an entry is above 0; stored zeros are no edges."""
    pattern = sparse.csr_array(P > 0)
    pattern.eliminate_zeros()
    require(pattern.ndim == 2 and pattern.shape[0] == pattern.shape[1], "the shape", pattern.shape, "a matrix (n, n) is needed")
    return pattern


def communicating_classes(P: Any) -> list[Int[np.ndarray, _]]:
    """The classes of `P`, each an increasing array of state indices, in the order of their smallest index."""
    from scipy.sparse import csgraph

    count, member = csgraph.connected_components(support(P), directed=True, connection="strong")
    order = np.argsort(member, kind="stable")
    classes = np.split(order, np.cumsum(np.bincount(member, minlength=count))[:-1])
    return sorted(classes, key=lambda states: int(states[0]))


def closed_classes(P: Any) -> list[Int[np.ndarray, _]]:
    """The classes of `P` that no edge leaves; there is at least one."""
    pattern, classes = support(P), communicating_classes(P)
    member = _membership(classes, pattern.shape[0])
    start, end = pattern.nonzero()
    left = set(member[start[member[start] != member[end]]].tolist())
    return [states for c, states in enumerate(classes) if c not in left]


def transient_states(P: Any) -> Int[np.ndarray, " size"]:
    """The states of `P` outside every closed class, increasing."""
    return np.setdiff1d(np.arange(P.shape[0]), np.concatenate(closed_classes(P)))


def is_irreducible(P: Any) -> bool:
    """Whether all states of `P` form one class."""
    return len(communicating_classes(P)) == 1


def largest_class(P: Any) -> Int[np.ndarray, " size"]:
    """The class of `P` with the most states; of several, the one that holds the smallest index."""
    return max(communicating_classes(P), key=len)


def period(P: Any) -> int:
    """The period of an irreducible `P` (0 for one state without a loop); a reducible one is a ValueError."""
    from scipy.sparse import csgraph

    classes = communicating_classes(P)
    require(len(classes) == 1, "the number of classes", len(classes), "a period is defined for one class: pass the largest class")
    pattern = support(P)
    level = csgraph.dijkstra(pattern, unweighted=True, indices=[0])[0].astype(np.int64)
    start, end = pattern.nonzero()
    return int(np.gcd.reduce(np.abs(level[start] + 1 - level[end])))


def restrict(P: Any, states: Int[np.ndarray, " size"]) -> Any:
    """The rows and columns of `states`, dense or sparse as `P` is."""
    return P[states][:, states] if is_sparse(P) else P[np.ix_(states, states)]


def require_irreducible(P: Any, labels: tuple[Any, ...] | None = None) -> None:
    """Raise ValueError naming the classes of `P` unless it is irreducible."""
    classes = communicating_classes(P)
    if len(classes) > 1:
        invalid("the chain", f"reducible, with classes {describe(classes, labels)}", "pass its largest_class()")


def describe(classes: list[Int[np.ndarray, _]], labels: tuple[Any, ...] | None = None, limit: int = 6) -> str:
    """Classes as text, by label where there are labels, long ones cut short."""
    parts = []
    for states in classes[:limit]:
        named = [repr(labels[s]) if labels else str(int(s)) for s in states[:limit]]
        rest = f", ... ({len(states)} states)" if len(states) > limit else ""
        parts.append("{" + ", ".join(named) + rest + "}")
    more = f" and {len(classes) - limit} more" if len(classes) > limit else ""
    return ", ".join(parts) + more


def _membership(classes: list[Int[np.ndarray, _]], n: int) -> Int[np.ndarray, " n"]:
    member = np.empty(n, dtype=np.int64)
    for c, states in enumerate(classes):
        member[states] = c
    return member
