"""Private selection: choose one of m candidates by its cost, at random, so that the choice says little about the costs.

`permute_and_flip` is the paper's; `exponential_mechanism` stands beside it for comparison. Nothing here knows of chains or paths.
"""

from dpjax.selection import exponential_mechanism, permute_and_flip

__all__ = ["exponential_mechanism", "permute_and_flip"]
