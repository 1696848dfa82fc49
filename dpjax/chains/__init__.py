"""Markov chains on finitely many states: estimation, structure, stationary laws, entropy, ergodicity, simulation."""

from dpjax.chains.chain import MarkovChain
from dpjax.chains.counting import counts_of_pairs, counts_of_trajectories, largest_class_of_counts
from dpjax.chains.deviation import deviation_matrix, tau1
from dpjax.chains.elasticity import elasticities, row_slopes
from dpjax.chains.entropy import entropy_rate, row_entropies
from dpjax.chains.ergodicity import ergodicity_coefficient
from dpjax.chains.gth import gth
from dpjax.chains.mixing import mixing_time, second_eigenvalue_modulus, spectral_gap
from dpjax.chains.simulate import TransitionTable, cumulative_start, simulate, transition_table, walk
from dpjax.chains.stationary import stationary_distribution
from dpjax.chains.structure import closed_classes, communicating_classes, is_irreducible, largest_class, period, transient_states

__all__ = [
    "MarkovChain",
    "TransitionTable",
    "closed_classes",
    "communicating_classes",
    "counts_of_pairs",
    "counts_of_trajectories",
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
