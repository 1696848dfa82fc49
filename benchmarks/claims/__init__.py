"""A search for false claims: random parameters, extremes first, every claim judged by arithmetic that shares nothing with dpjax.

    python -m benchmarks.claims --minutes 60 --seed 0 --out FILE

cases        what one case of the search is: its parameters, the calls under a time limit, what was found
referee      hockey-stick divergences with mpmath at 50 digits, each in two ways
rationals    the group inverse of a chain in fractions
selections, releases, noise, dirichlet, chains, trajectories, ledgers   the claims, a kind each; `kinds` lists them

Every finding is a JSON line with the kind and the number of its case: `--only KIND --number N` runs that case again.
"""
