"""An empirical lower bound on epsilon for any sampler, from draws under two adjacent inputs. It knows no mechanism.

*What counts prove* (`lower_limit`, `upper_limit`, `epsilon_limit`, `delta_limit`): exact binomial limits (Clopper and Pearson 1934) for one
event under two inputs. A mechanism is (epsilon, delta)-private for two inputs if p <= e^epsilon q + delta for every event, where p and q
are its probabilities under the two. With x of n draws in the event, the Clopper-Pearson limits

    p > quantile of Beta(x, n - x + 1) at a        (0 if x = 0)
    p < quantile of Beta(x + 1, n - x) at 1 - a    (1 if x = n)

each hold with probability at least 1 - a, whatever p and n. So with probability at least 1 - 2 a

    epsilon >= log((lower limit of p - delta) / upper limit of q),    delta >= lower limit of p - e^epsilon upper limit of q.

*The event* that best separates two inputs is chosen on draws that are not used again. By the Neyman-Pearson lemma the events to try are
{log-likelihood ratio >= t}. Here outputs are scores: real numbers that increase (or decrease) with the evidence for one input. A score is
the log-ratio itself if it is known, an increasing function of it, or a guess. Whole numbers are categories without an order. Their score is
the estimated log-ratio, log((x + 1/2) / (y + 1/2)) with x and y the counts under the two inputs (equally many draws).

The thresholds tried lie at up to 240 ranks of the scores, from the most extreme draw to all of them, in both tails. The event is the one
with the largest limit of epsilon on these draws. Its own limit is then too optimistic, so other draws decide.

*The bound* (`lower_bound`). The draws are split into halves. On the first half an event is chosen for each direction (p over q and q over
p). On the second half the event is counted, and Clopper-Pearson limits turn the counts into a lower limit of epsilon at delta. The risk 1 -
confidence is split evenly over the two directions and, in each, over the two limits. So, for a mechanism that is (epsilon, delta)-private
for these inputs,

    P(lower bound > epsilon) <= 1 - confidence,

for every distribution, every sampler and every choice of the event, if the draws are independent: an honest mechanism passes with
probability at least `confidence`. A bound below the claim does not prove the claim: only these two inputs and this family of events were
tried.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped
from scipy.stats import beta

from dpjax._errors import real_array, require, require_number, require_whole
from dpjax._random import checked_key

Counts = np.ndarray | np.generic | int  # whole numbers, broadcast
Limits = np.ndarray | np.generic | float


def lower_limit(hits: Counts, draws: Counts, risk: float) -> Limits:
    """The lower limit of a probability, wrong with probability at most `risk`. Counts broadcast."""
    x, n = _counts(hits, draws, risk)
    return np.where(x > 0, beta.ppf(risk, np.maximum(x, 1.0), n - x + 1), 0.0)[()]


def upper_limit(hits: Counts, draws: Counts, risk: float) -> Limits:
    """The upper limit of a probability, wrong with probability at most `risk`. Counts broadcast."""
    x, n = _counts(hits, draws, risk)
    return np.where(x < n, beta.isf(risk, x + 1, np.maximum(n - x, 1.0)), 1.0)[()]


def epsilon_limit(hits_p: Counts, draws_p: Counts, hits_q: Counts, draws_q: Counts, delta: float, risk: float) -> Limits:
    """The lower limit of epsilon at delta, nats, at least 0; wrong with probability at most `risk`, half of it for each of p and q."""
    require_number(delta, "delta", "give a probability, at least 0 and below 1", lambda x: 0 <= x < 1)
    excess = np.asarray(lower_limit(hits_p, draws_p, risk / 2)) - delta
    above = np.asarray(upper_limit(hits_q, draws_q, risk / 2))
    return np.where(excess > above, np.log(np.maximum(excess, above) / above), 0.0)[()]


def delta_limit(hits_p: Counts, draws_p: Counts, hits_q: Counts, draws_q: Counts, epsilon: float, risk: float) -> Limits:
    """The lower limit of delta at epsilon, at least 0; wrong with probability at most `risk`, half of it for each of p and q.

    Args:
        hits_p: Draws of p in the event. Counts broadcast.
        draws_p: Draws of p.
        hits_q: Draws of q in the event.
        draws_q: Draws of q.
        epsilon: Nats, 0 to 700.
        risk: The probability of a wrong limit, in (0, 1).

    Returns:
        A lower limit of delta, in the shape of the counts.

    Source:
        Clopper and Pearson (1934).

    Example:
        >>> from dpjax.audit import delta_limit
        >>> round(float(delta_limit(60, 100, 20, 100, 0.5, 0.05)), 3)
        0.016
    """
    require_number(epsilon, "epsilon", "give a finite number of nats, 0 or more, up to 700", lambda x: 0 <= x <= 700)
    below, above = lower_limit(hits_p, draws_p, risk / 2), upper_limit(hits_q, draws_q, risk / 2)
    return np.maximum(np.asarray(below) - np.exp(epsilon) * above, 0.0)[()]


def _counts(hits: Counts, draws: Counts, risk: float) -> tuple[np.ndarray, np.ndarray]:
    require_number(risk, "risk", "give a probability strictly between 0 and 1", lambda x: 0 < x < 1)
    whole = "give whole numbers, 0 <= hits <= draws, of one draw or more"
    x, n = np.broadcast_arrays(real_array(hits, "hits", whole), real_array(draws, "draws", whole))
    require(bool(((x == np.floor(x)) & (n == np.floor(n)) & (x >= 0) & (x <= n) & (n >= 1)).all()), "hits", hits, whole)
    return x, n


RANKS = 240  # the most thresholds tried in each tail


class Event(NamedTuple):
    """The event {score >= threshold} for tail = 1, and {score <= -threshold} for tail = -1: tail * score >= threshold.

    categories: the categories in the event; None for scores.
    """

    tail: int
    threshold: float
    categories: tuple[int, ...] | None = None

    def hits(self, outputs: Shaped[np.ndarray, " draws"]) -> int:
        """The number of outputs in the event."""
        if self.categories is not None:
            return int(np.isin(outputs, self.categories).sum())
        return int((self.tail * outputs >= self.threshold).sum())

    def __str__(self) -> str:
        if self.categories is not None:
            shown = ", ".join(map(str, self.categories[:6])) + (", ..." if len(self.categories) > 6 else "")
            return f"category in {{{shown}}}"
        return f"score {'>=' if self.tail > 0 else '<='} {self.tail * self.threshold:.6g}"


def choose(p: Shaped[np.ndarray, " draws"], q: Shaped[np.ndarray, " draws"], delta: float, risk: float) -> Event:
    """The event with the largest limit of epsilon of p over q at delta, on these draws. Floats are scores, whole numbers categories."""
    if np.issubdtype(p.dtype, np.floating):
        return _choose_threshold(p, q, delta, risk)
    categories, scores = _category_scores(p, q)
    event = _choose_threshold(scores[np.searchsorted(categories, p)], scores[np.searchsorted(categories, q)], delta, risk)
    held = categories[event.tail * scores >= event.threshold]
    return event._replace(categories=tuple(int(c) for c in held))


def _choose_threshold(p: Float[np.ndarray, " draws"], q: Float[np.ndarray, " draws"], delta: float, risk: float) -> Event:
    best, found = -1.0, Event(1, np.inf)
    ranks = np.unique(np.geomspace(1, len(p), RANKS).astype(np.int64))
    for tail in (1, -1):
        rising_p, rising_q = np.sort(tail * p), np.sort(tail * q)
        thresholds = rising_p[-ranks]
        hits_p = len(p) - np.searchsorted(rising_p, thresholds)
        hits_q = len(q) - np.searchsorted(rising_q, thresholds)
        limits = np.asarray(epsilon_limit(hits_p, len(p), hits_q, len(q), delta, risk))
        i = int(np.argmax(limits))
        if limits[i] > best:
            best, found = float(limits[i]), Event(tail, float(thresholds[i]))
    return found


def _category_scores(
    p: Int[np.ndarray, " draws"], q: Int[np.ndarray, " draws"]
) -> tuple[Int[np.ndarray, " categories"], Float[np.ndarray, " categories"]]:
    """The categories that occur, in order, and log((x + 1/2) / (y + 1/2)) of each."""
    categories, where = np.unique(np.concatenate([p, q]), return_inverse=True)
    x = np.bincount(where[: len(p)], minlength=len(categories))
    y = np.bincount(where[len(p) :], minlength=len(categories))
    return categories, np.log((x + 0.5) / (y + 0.5))


Sampler = Callable[[Key[Array, ""], int], Any]  # (key, n) -> n independent outputs on the first axis
LEAST = 20  # the fewest draws of each input


@dataclasses.dataclass(frozen=True)
class AuditResult:
    """The result of an audit: with probability at least `confidence`, no epsilon below `lower_bound` (nats) is true at `delta`.

    Attributes:
        lower_bound: Nats, at least 0.
        delta: The delta of the bound.
        confidence: The probability that the bound is right, at least.
        direction: "p over q" or "q over p", the one with the larger bound.
        event: The event that was counted.
        hits_p: Draws of p in the event, on the half that decides.
        hits_q: Draws of q in the event.
        draws_p: Draws of p on that half.
        draws_q: Draws of q on that half.
    """

    lower_bound: float
    delta: float
    confidence: float
    direction: str
    event: Event
    hits_p: int
    hits_q: int
    draws_p: int
    draws_q: int

    def refutes(self, claimed: float) -> bool:
        """Whether the draws contradict a claimed epsilon, finite and at least 0, at this delta."""
        require_claim(claimed)
        return self.lower_bound > claimed


def lower_bound(samples_p: Any, samples_q: Any, *, delta: float = 0.0, confidence: float = 0.99) -> AuditResult:
    """A lower bound on epsilon at delta from independent draws of two adjacent inputs.

    Args:
        samples_p: Draws under p, (n,), n at least 20. Floats are scores: the log-likelihood ratio, an increasing function of it, or any
            guess; they may be infinite. Whole numbers and booleans are categories without an order.
        samples_q: Draws under q, equally many, of the same kind.
        delta: In [0, 1).
        confidence: In (0, 1).

    Returns:
        An `AuditResult`.

    Raises:
        InputError: A score is NaN, or an argument is out of range.

    Source:
        Clopper and Pearson (1934) limits; see the module.

    Example:
        >>> import numpy as np
        >>> from dpjax.audit import lower_bound
        >>> rng = np.random.default_rng(0)
        >>> p, q = rng.random(20_000) < 0.75, rng.random(20_000) < 0.25  # randomised response: epsilon = log 3 = 1.0986
        >>> round(lower_bound(p, q).lower_bound, 3)
        1.033
    """
    p, q = _checked(samples_p, "samples_p"), _checked(samples_q, "samples_q")
    same = len(p) == len(q) and np.issubdtype(p.dtype, np.floating) == np.issubdtype(q.dtype, np.floating)
    require(same, "samples_q", q, f"pass {len(p)} draws of the same kind as samples_p")
    require(len(p) >= LEAST, "samples_p", p, f"give {LEAST} draws or more")
    _require_levels(delta, confidence)
    risk = (1 - confidence) / 2
    found = [_one_direction(p, q, float(delta), risk), _one_direction(q, p, float(delta), risk)]
    forward = found[0][0] >= found[1][0]
    bound, event, hits_up, hits_down = found[0] if forward else found[1]
    hits_p, hits_q = (hits_up, hits_down) if forward else (hits_down, hits_up)
    deciding = len(p) - len(p) // 2
    direction = "p over q" if forward else "q over p"
    return AuditResult(bound, float(delta), float(confidence), direction, event, hits_p, hits_q, deciding, deciding)


def audit(
    sampler_p: Sampler,
    sampler_q: Sampler,
    key: Key[Array, ""],
    n: int,
    *,
    score: Callable[[Any], Any] | None = None,
    delta: float = 0.0,
    confidence: float = 0.99,
) -> AuditResult:
    """A lower bound on epsilon at delta from n draws of each of two samplers; see `lower_bound`.

    Args:
        sampler_p: sampler(key, n) gives n independent outputs on the first axis.
        sampler_q: The sampler of the adjacent input.
        key: One typed JAX key.
        n: The number of draws of each sampler, for both halves; at least 20.
        score: A function from outputs to n scores or categories. Default: the outputs themselves.
        delta: In [0, 1).
        confidence: In (0, 1).

    Returns:
        An `AuditResult`.

    Example:
        >>> import jax
        >>> from dpjax.audit import audit
        >>> p, q = (lambda key, n, a=a: jax.random.bernoulli(key, a, (n,)) for a in (0.75, 0.25))
        >>> audit(p, q, jax.random.key(0), 20_000).refutes(0.5)
        True
    """
    key = checked_key(key)
    require_whole(n, "n", f"ask for {LEAST} draws or more, a whole number", least=LEAST)
    _require_levels(delta, confidence)
    keys = jax.random.split(key)
    p, q = (_scored(sampler, k, n, score, name) for k, sampler, name in zip(keys, (sampler_p, sampler_q), "pq", strict=True))
    return lower_bound(p, q, delta=delta, confidence=confidence)


def _one_direction(
    p: Shaped[np.ndarray, " draws"], q: Shaped[np.ndarray, " draws"], delta: float, risk: float
) -> tuple[float, Event, int, int]:
    """The limit of epsilon of p over q, its event, and the counts of the event on the second halves."""
    half = len(p) // 2
    event = choose(p[:half], q[:half], delta, risk)
    hits_p, hits_q = event.hits(p[half:]), event.hits(q[half:])
    limit = float(epsilon_limit(hits_p, len(p) - half, hits_q, len(q) - half, delta, risk))
    return limit, event, hits_p, hits_q


def require_claim(claimed: Any, argument: str = "claimed") -> None:
    """Raise InputError unless an audit can test the claimed epsilon: it must be finite and at least 0."""
    require_number(claimed, argument, "pass the claimed epsilon, a finite number of nats, 0 or more", lambda x: x >= 0)


def _require_levels(delta: Any, confidence: Any) -> None:
    require_number(delta, "delta", "give a probability, at least 0 and below 1", lambda x: 0 <= x < 1)
    require_number(confidence, "confidence", "give a probability strictly between 0 and 1", lambda x: 0 < x < 1)


def _scored(sampler: Sampler, key: Key[Array, ""], n: int, score: Callable[[Any], Any] | None, name: str) -> np.ndarray:
    """n draws of a sampler as scores or categories. InputError if there are more or fewer."""
    outputs = np.asarray(sampler(key, n))
    require(
        outputs.shape[:1] == (n,),
        f"the shape of sampler_{name}'s outputs",
        outputs.shape,
        f"return {n} draws, the number asked for",
    )
    scores = outputs if score is None else np.asarray(score(outputs))
    require(scores.shape[:1] == (n,), f"the shape of the scores of sampler_{name}", scores.shape, f"return {n}, one for each draw")
    return scores


def _checked(samples: Any, name: str) -> Shaped[np.ndarray, " draws"]:
    values = np.asarray(samples)
    require(values.ndim == 1, name, values.shape, "pass one score or category for each draw, in one dimension")
    if values.dtype == bool:
        return values.astype(np.int64)
    kind = np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)
    require(kind, name, values.dtype, "give floating scores or whole categories")
    if np.issubdtype(values.dtype, np.floating):
        require(not bool(np.isnan(values).any()), name, samples, "a score is NaN: give every output a score")
        return values.astype(np.float64)
    return values.astype(np.int64)
