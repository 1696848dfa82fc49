"""How good the first-order law of the private stationary distribution is: coverage of 95 % bars, and its prediction of E TV, by simulation.

`python -m experiments.error_bars` prints a Markdown table. It simulates 200 random chains of n states, with rows from Dirichlet(2, ..., 2) and
k_i such that the smallest k_i P_ij of every row is `cell`. Each chain gets 25 private matrices; of each, one random state is covered or not.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.chains import gth
from dpjax.design import stationary_moments, total_variation

CELLS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
MODELS, RELEASES, QUANTILE = 200, 25, 1.959963984540054


def coverage(n: int, cell: float, seed: int = 0) -> tuple[float, float, float]:
    """(coverage, its standard error, measured over predicted E TV) for chains of n states."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(n, 2.0), (MODELS, n))
    k = cell / P.min(axis=2)
    private = rng.standard_gamma(k[:, None, :, None] * P[:, None], (MODELS, RELEASES, n, n))
    private = (private / private.sum(axis=3, keepdims=True)).reshape(-1, n, n)
    state = rng.integers(n, size=len(private))
    with jax.enable_x64(True):
        law = jax.vmap(stationary_moments)(jnp.asarray(private), jnp.asarray(np.repeat(k, RELEASES, axis=0)))
        true = jax.vmap(stationary_moments)(jnp.asarray(P), jnp.asarray(k))
        predicted = float(jax.vmap(total_variation)(true, true.stationary).mean())
        truth = np.repeat(np.asarray(gth(jnp.asarray(P))), RELEASES, axis=0)
    at = np.arange(len(private)), state
    deviation = np.sqrt(np.asarray(law.covariance)[at[0], state, state])
    covered = np.abs(np.asarray(law.stationary - law.bias)[at] - truth[at]) <= QUANTILE * deviation
    measured = 0.5 * np.abs(np.asarray(law.stationary) - truth).sum(axis=1).mean()
    share = covered.mean()
    return float(share), float(np.sqrt(share * (1 - share) / len(covered))), float(measured / predicted)


def main() -> None:
    """Print one line for each smallest cell."""
    print("| smallest k_i P_ij | coverage, 5 states | measured/predicted E TV | coverage, 20 states | measured/predicted E TV |")
    print("|---|---|---|---|---|")
    for cell in CELLS:
        words = [f"{share:.1%} ± {error:.1%} | {ratio:.3f}" for share, error, ratio in (coverage(n, cell) for n in (5, 20))]
        print(f"| {cell:g} | {words[0]} | {words[1]} |")


if __name__ == "__main__":
    main()
