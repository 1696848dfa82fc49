"""Markov chains on finitely many states: estimation from counts, structure, stationary distributions, mixing, entropy, simulation."""

from dpjax.chains.chain import MarkovChain
from dpjax.chains.counting import (
    closed_classes,
    communicating_classes,
    is_irreducible,
    largest_class,
    largest_class_of_counts,
    period,
    transient_states,
)
from dpjax.chains.mixing import (
    deviation_matrix,
    elasticities,
    entropy_rate,
    ergodicity_coefficient,
    mixing_time,
    row_entropies,
    row_slopes,
    second_eigenvalue_modulus,
    spectral_gap,
    tau1,
)
from dpjax.chains.simulate import cumulative_start, simulate, transition_table, walk
from dpjax.chains.stationary import gth, stationary_distribution

__all__ = [
    "MarkovChain",
    "closed_classes",
    "communicating_classes",
    "cumulative_start",
    "deviation_matrix",
    "elasticities",
    "entropy_rate",
    "ergodicity_coefficient",
    "gth",
    "is_irreducible",
    "largest_class",
    "largest_class_of_counts",
    "mixing_time",
    "period",
    "row_entropies",
    "row_slopes",
    "second_eigenvalue_modulus",
    "simulate",
    "spectral_gap",
    "stationary_distribution",
    "tau1",
    "transient_states",
    "transition_table",
    "walk",
]
