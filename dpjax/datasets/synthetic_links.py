"""A synthetic link graph: 400 pages, heavy-tailed in links and clicks, strongly connected. Invented; the recipe is all there is.

1. Page r (from 0) has popularity w_r = (r + 1)^-0.8.
2. Page r has min(n - 1, 2 + floor(6 X)) links, P(X > x) = (1 + x)^-1.3, to distinct other pages drawn in proportion to their
   popularity. A cycle through all pages in a random order is added, so that every page can be reached from every other.
3. Each link is clicked once; the other clicks fall on links (r, s) in proportion to w_r w_s u, u uniform on (0, 1), by one
   multinomial.
All randomness comes from one seeded generator, in this order: degrees, links by page, the cycle, u, clicks.
"""

from __future__ import annotations

import numpy as np

from dpjax._errors import require
from dpjax.datasets._transitions import count_matrix, popularity_layout
from dpjax.datasets._walk import walk
from dpjax.datasets.dataset import Dataset, ReadReport

SEED = 400


def links(*, n_pages: int = 400, n_clicks: int = 40_000, seed: int = SEED) -> Dataset:
    """Click counts between `n_pages` invented pages.

    The sample trajectory is a walk of 20 steps from the most visited page, by the counts. ValueError for fewer clicks than links.
    """
    require(n_pages >= 3, "n_pages", n_pages, "give at least three pages")
    rng = np.random.default_rng(seed)
    popularity = np.arange(1, n_pages + 1) ** -0.8
    origin, target = _graph(rng, popularity)
    n_links = len(origin)
    require(n_clicks >= n_links, "n_clicks", n_clicks, f"each link is clicked at least once: give {n_links} or more")
    weight = popularity[origin] * popularity[target] * rng.random(n_links)
    clicks = 1 + rng.multinomial(n_clicks - n_links, weight / weight.sum())
    labels = tuple(f"page {i + 1:03d}" for i in range(n_pages))
    named = {(labels[i], labels[j]): int(c) for i, j, c in zip(origin.tolist(), target.tolist(), clicks.tolist(), strict=True)}
    counts = count_matrix(named, labels, "the synthetic links")
    busiest = int(np.argmax(counts.sum(axis=0)))
    return Dataset(
        name="link graph (synthetic)",
        labels=labels,
        synthetic=True,
        source=f"Synthetic clicks: {n_clicks:,} on the {n_links:,} links between {n_pages} invented pages.",
        report=ReadReport(read=n_clicks, kept=n_clicks, unit="synthetic clicks"),
        counts=counts,
        positions=popularity_layout(counts),
        trajectories=(walk(counts, busiest, 20, seed),),
    )


def _graph(rng: np.random.Generator, popularity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Origins and targets of all links, by origin, then target."""
    n = len(popularity)
    degrees = np.minimum(n - 1, 2 + np.floor(6 * rng.pareto(1.3, n)).astype(int))
    linked = np.zeros((n, n), dtype=bool)
    for page, degree in enumerate(degrees):
        others = np.where(np.arange(n) == page, 0.0, popularity)
        linked[page, rng.choice(n, size=degree, replace=False, p=others / others.sum())] = True
    cycle = rng.permutation(n)
    linked[cycle, np.roll(cycle, -1)] = True
    origin, target = np.nonzero(linked)
    return origin, target
