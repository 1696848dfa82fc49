"""Private selection: choose one of m candidates by its cost, at random, so that the choice reveals little about the costs.

`permute_and_flip` is the mechanism of the trajectory paper; `exponential_mechanism` is for comparison. This package does not depend
on chains or paths.
"""

from dpjax.selection import exponential_mechanism, permute_and_flip

__all__ = ["exponential_mechanism", "permute_and_flip"]
