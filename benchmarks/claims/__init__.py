"""A search for false claims: random parameters, extremes first, every claim checked by arithmetic that shares no code with dpjax.

    python -m benchmarks.claims --minutes 60 --seed 0 --out FILE

cases        one case of the search: its parameters, calls under a time limit, its findings
referee      hockey-stick divergences with mpmath at 50 digits, each by two methods
rationals    the group inverse of a chain in fractions
selections, releases, noise, dirichlet, chains, trajectories, ledgers   the claims, by kind; `kinds` lists them

Every finding is a JSON line with the kind and the number of its case: `--only KIND --number N` runs that case again.
"""
