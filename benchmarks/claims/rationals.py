"""Stationary distributions, group inverses and bounds of small chains in fractions. Off-diagonal entries are the exact values of the floats."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

Matrix = list[list[Fraction]]


def generator(P: Any) -> Matrix:
    """Q = P - I, with the diagonal set so that each row sums to 0."""
    n = len(P)
    Q = [[Fraction(float(P[i][j])) if i != j else Fraction(0) for j in range(n)] for i in range(n)]
    for i in range(n):
        Q[i][i] = -sum(Q[i], Fraction(0))
    return Q


def solved(A: Matrix, B: Matrix) -> Matrix:
    """A^{-1} B."""
    n = len(A)
    rows = [[*A[i], *B[i]] for i in range(n)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        head = rows[k][k]
        rows[k] = [x / head for x in rows[k]]
        for i in range(n):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[n:] for row in rows]


def stationary(Q: Matrix) -> list[Fraction]:
    """The pi with pi Q = 0 and sum 1."""
    n = len(Q)
    A = [[Q[j][i] for j in range(n)] for i in range(n - 1)] + [[Fraction(1)] * n]
    right = [[Fraction(int(i == n - 1))] for i in range(n)]
    return [row[0] for row in solved(A, right)]


def group_inverse(Q: Matrix, pi: list[Fraction]) -> Matrix:
    """A# = (1 pi - Q)^{-1} - 1 pi."""
    n = len(Q)
    A = [[pi[j] - Q[i][j] for j in range(n)] for i in range(n)]
    eye = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    Z = solved(A, eye)
    return [[Z[i][j] - pi[j] for j in range(n)] for i in range(n)]


def half_row_distance(A: Matrix) -> tuple[Fraction, int, int]:
    """(tau_1(A), i, j), where rows i and j attain it."""
    n = len(A)
    pairs = (
        (sum((abs(x - y) for x, y in zip(A[i], A[j], strict=True)), Fraction(0)) / 2, i, j) for i in range(n) for j in range(i)
    )
    return max(pairs)


def total_variation(p: list[Fraction], q: list[Fraction]) -> Fraction:
    """Half the l1 distance."""
    return sum((abs(x - y) for x, y in zip(p, q, strict=True)), Fraction(0)) / 2
