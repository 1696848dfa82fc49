"""The uniform distribution on each row's public support: a guess that needs no data and costs no privacy, as a baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dpjax._random import checked_key
from dpjax._tracing import frozen_pytree, is_traced
from dpjax.counts.neighbours import Neighbours, given
from dpjax.counts.postprocess import checked_counts, plain_table, uniform_rows
from dpjax.counts.protocol import AuditPair, CountMechanism, Errors, Law, register


@register
@frozen_pytree(static=("adjacency",))
@dataclasses.dataclass(frozen=True, kw_only=True)
class UniformGuess(CountMechanism):
    """The mechanism counts -> the uniform distribution on the support of each row. It does not read the counts.

    Args:
        adjacency: The neighbouring relation, a word or a `Neighbours`; it has no effect.

    Example:
        >>> import jax
        >>> from dpjax.counts import UniformGuess
        >>> UniformGuess().privatize(jax.random.key(0), [[3, 1]]).tolist()
        [[0.5, 0.5]]
    """

    adjacency: Neighbours | str = "replace"

    name: ClassVar[str] = "uniform"
    audited: ClassVar[bool] = False
    title: ClassVar[str] = "uniform guess"
    spends_delta: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", given(self.adjacency))

    @classmethod
    def calibrate(cls, *, epsilon: Any, delta: Any = 0.0, adjacency: Neighbours | str = "replace", **options: Any) -> UniformGuess:
        """The guess, which meets every target."""
        return cls(adjacency=adjacency)

    @property
    def parameters(self) -> Mapping[str, float]:
        """No numbers."""
        return {}

    @property
    def random(self) -> bool:
        """False: it is one public table."""
        return False

    @property
    def note(self) -> str:
        """A remark for a comparison."""
        return "needs no data"

    def exact_delta(self, epsilon: Any) -> Any:
        """0, in the shape of epsilon, and in the dtype of a traced epsilon."""
        return jnp.zeros_like(epsilon) if is_traced(epsilon) else np.zeros(np.shape(epsilon))[()]

    def exact_epsilon(self, delta: Any) -> Any:
        """0, in the shape of delta, and in the dtype of a traced delta."""
        return jnp.zeros_like(delta) if is_traced(delta) else np.zeros(np.shape(delta))[()]

    def privatize(self, key: Array, counts: Any, support: Any = None) -> Float[Array, "*batch n"]:
        """The uniform rows, (*batch, n)."""
        key = checked_key(key)
        counts, support = plain_table(counts, support)
        values = checked_counts(counts)
        mask = jnp.ones(values.shape, bool) if support is None else jnp.broadcast_to(jnp.asarray(support, bool), values.shape)
        return mask.astype(values.dtype) / mask.sum(axis=-1, keepdims=True).astype(values.dtype)

    def law(self, counts: np.ndarray, support: Bool[np.ndarray, "rows n"], dtype: np.dtype) -> Law:
        """The uniform rows, repeated."""
        return Law((support / support.sum(axis=1, keepdims=True)).astype(dtype), _repeated)

    def expected_errors(self, counts: np.ndarray, support: np.ndarray) -> Errors:
        """The errors of the uniform rows."""
        return Errors(*uniform_rows(counts / counts.sum(axis=1, keepdims=True), support))

    def audit_pair(self) -> AuditPair | None:
        """None: nothing about the data can be seen."""
        return None


def _repeated(key: Array, parameters: Any, counts: Any, support: Any, first: Any, n: int) -> Array:
    return jnp.broadcast_to(parameters, (n, *parameters.shape))
