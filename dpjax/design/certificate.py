"""What a design promises, checked afresh by the exact accountant each time it is asked: no design is believed for having been optimised.

Three adjacencies. "row": a record of one row changes its category; row totals N_i, the support, and a least count of each row's supported
cells are public. With alpha_i added to every supported cell the smoothed row has N_i + n_i alpha_i records and least cell m_i + alpha_i, and
Theorem 6 applies to it as it stands (`MatrixMechanism`). "any": any record is replaced by any other, in the same row or in another, every
database; one scale and one pseudo-count for all rows (Theorem 7, `PseudocountMechanism`). "add-remove": any record more
or fewer, by a mechanism of that adjacency; designs have the other two.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from dpjax._decimals import decimal_up, shown
from dpjax._errors import invalid
from dpjax.simplex import MatrixMechanism, PseudocountMechanism

Adjacency = Literal["row", "any", "add-remove"]
PUBLIC_MODEL = (
    "the parameters were chosen on the model passed as public_model, declared public: had it been computed from the sensitive records,"
    " the choice itself would depend on them and this guarantee would not hold"
)
_COVERED = {
    "row": "covered: one record of a row changes its category, among databases with these row totals, this support and these least counts",
    "any": "covered: any record is replaced by any other, in any row, in every database; records outside the support are dropped",
    "add-remove": (
        "covered: any record is added or removed, in any row, in every database; replacing one by another costs more; records outside the"
        " support are dropped"
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """A checked claim: delta at epsilon by exact accounting, rounded up, is at most the target; and what was assumed."""

    epsilon: float
    delta: float  # the target
    exact_delta: float  # what the mechanism has, at most delta
    adjacency: Adjacency
    statements: tuple[str, ...]

    def __str__(self) -> str:
        claim = f"({shown(self.epsilon)}, {shown(self.delta)})-private: exact delta {shown(decimal_up(self.exact_delta))} at this epsilon"
        return "; ".join((claim, *self.statements))


def certify(
    mechanism: MatrixMechanism | PseudocountMechanism, epsilon: float, delta: float, statements: tuple[str, ...] = ()
) -> Certificate:
    """The certificate of a mechanism at (epsilon, delta); ValueError, with what it has instead, if it does not meet them."""
    adjacency: Adjacency = "row"
    if isinstance(mechanism, PseudocountMechanism):
        adjacency = "any" if mechanism.adjacency == "replace" else "add-remove"
    found = float(np.asarray(mechanism.exact_delta(epsilon)))
    if not found <= delta:
        mend = f"the mechanism has delta {found:.6g} at epsilon {float(epsilon):g} by exact accounting: it does not meet the target"
        invalid("(epsilon, delta)", (float(epsilon), float(delta)), mend)
    return Certificate(
        epsilon=float(epsilon),
        delta=float(delta),
        exact_delta=found,
        adjacency=adjacency,
        statements=(_COVERED[adjacency], *statements),
    )
