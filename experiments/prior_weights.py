"""Choice of the weight of the public prior. `python -m experiments.prior_weights` prints a Markdown table on the built-in chains.

The sensitive trajectory is random (a run of the chain from its stationary distribution, s'_0 = s_0). So the choice depends on the chain
alone and can be made before any data are read. Everything is exact (`joint_law`).
"""

from __future__ import annotations

import numpy as np

from dpjax.trajectory import TrajectoryMechanism, joint_law
from experiments.chains import named_chains

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)
EPSILONS = (1.0, 3.0)
STEPS = 20


def main() -> None:
    """Print mean error and excess entropy for each chain, epsilon and weight, at rho = 1."""
    print(f"| chain | epsilon | {' | '.join(f'weight {weight:g}' for weight in WEIGHTS)} |")
    print("|---|---|" + "---|" * len(WEIGHTS))
    for one in named_chains(None):
        start = np.diag(one.chain.stationary_distribution())
        for epsilon in EPSILONS:
            words = []
            for weight in WEIGHTS:
                m = TrajectoryMechanism(one.chain, epsilon=epsilon, rho=1.0, prior_weight=weight)
                law = joint_law(m, STEPS, start=start)
                words.append(f"{law.expected_error[1:].mean():.3f}, {law.expected_entropy - one.chain.entropy_rate():+.3f}")
            print(f"| {one.name} | {epsilon:g} | {' | '.join(words)} |", flush=True)


if __name__ == "__main__":
    main()
