"""`dirichlet-matrix`: a transition matrix row by row through the Dirichlet mechanism (Algorithm 2 of the first paper).

[mechanism] holds the public numbers. support: "observed" (the transitions seen are declared public, as in the paper) or "all". eta:
"smallest share" (the paper's rule, row by row) or one floor; or minimum_count, a public least number of records in every supported cell, so
that eta_i = minimum_count / N_i. Then either k_factor, k_i = k_factor * 3/(2 eta_i), or a joint target (epsilon, delta) that every row's k is
calibrated to; rows that cannot meet it are withheld: released as the uniform law on their public support. gamma is A-Theorem 1's.

Each cell stores the joint cost under both accountants, what each row can promise, the provable and the printed bounds, and samples the
total variation between the private and the true stationary distributions, the change of the ergodicity coefficient and the rows' KL.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Float

from dpjax._errors import invalid, require
from dpjax.chains import MarkovChain, ergodicity_coefficient, stationary_distribution
from dpjax.chains.stationary import gth
from dpjax.simplex import MatrixMechanism, PublicRows, log_dirichlet, stationary_bounds, theorem1_stated
from dpjax.sweep.validation import validated
from dpjax.sweep.workload import Coordinate, Label, Prepared, Quantity, Scalar

AXES = {
    "k_factor": Label(long_name="every row's concentration k_i as a multiple of 3/(2 eta_i)"),
    "epsilon": Label(long_name="joint target epsilon", units="nats"),
    "delta": Label(long_name="joint target delta"),
    "gamma": Label(long_name="threshold gamma of the good set"),
    "minimum_count": Label(long_name="public least count of a supported cell", units="records"),
    "accounting": Label(long_name="accountant that k is calibrated with"),
}
