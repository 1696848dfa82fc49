"""One case of the search: its parameters, the calls of dpjax under a time limit, and the outcome of every claim."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from benchmarks.claims.referee import UndecidedError, exact, mp

T = TypeVar("T")
CALL_S = 60.0  # s of processor time; a longer call of dpjax is a finding, because it may never end
REFEREE_S = 60.0  # s of processor time for the rest of a case; a longer case is undecided
SLACK = mp.mpf(10) ** -16  # assumed relative accuracy of the referee
_EARLY = 40  # the first cases of a kind take the ends of their ranges more often


class Refused(Exception):  # noqa: N818
    """Raised when dpjax refuses the parameters with a ValueError, which makes no claim."""


class Broken(Exception):  # noqa: N818
    """Raised after a call failed and was recorded as a finding."""


class TooLong(BaseException):
    """Raised at the time limit."""


class Case:
    """Draws parameters, calls dpjax and records findings.

    >>> case = Case("example", 0, 0)
    >>> case.at_most("one is at most two", 1, 2)
    >>> case.findings, case.worst
    ([], {'one is at most two': 0.5})
    """

    def __init__(self, kind: str, seed: int, number: int) -> None:
        self.kind, self.number = kind, number
        self.random = np.random.default_rng([seed, number, *kind.encode()])
        self.parameters: dict[str, Any] = {}
        self.findings: list[dict[str, Any]] = []
        self.worst: dict[str, float] = {}
        self.held = 0
        self._early = number < _EARLY

    def spread(self, name: str, low: float, high: float) -> float:
        """Draw a log-uniform number, or an end of the range, and record it under `name`."""
        if self.random.random() < (0.3 if self._early else 0.1):
            value = float(self.random.choice([low, high]))
        else:
            value = float(math.exp(self.random.uniform(math.log(low), math.log(high))))
        return self._kept(name, min(max(value, low), high))

    def whole(self, name: str, low: int, high: int) -> int:
        """Draw a whole number, log-uniform in a wide range, and record it."""
        if high <= 20:
            return self._kept(name, int(self.random.integers(low, high + 1)))
        return self._kept(name, round(self.spread(name, low, high)))

    def one_of(self, name: str, values: Sequence[T]) -> T:
        """Draw one of the values and record it."""
        return self._kept(name, values[int(self.random.integers(len(values)))])

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return bool(self.random.random() < p)

    def note(self, name: str, value: Any) -> None:
        """Record a parameter that was made in another way."""
        self._kept(name, value)

    def call(self, name: str, function: Callable[[], T]) -> T:
        """The result of a call of dpjax. Refused for a ValueError; another failure, or a call that does not end, is a finding."""
        try:
            with time_limit(CALL_S):
                return function()
        except ValueError as error:
            raise Refused(f"{name}: {error}") from error
        except TooLong:
            self.found(f"{name} ends", f"it did not within {CALL_S:g} s")
        except (UndecidedError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            self.found(f"{name} does not fail", "".join(traceback.format_exception(error)[-2:]).strip())
        raise Broken(name)

    def at_most(self, claim: str, left: Any, right: Any, /, **facts: Any) -> None:
        """Check the claim left <= right. Numbers are exact, or from the referee and accurate to SLACK."""
        if not (_is_number(left) and _is_number(right)):
            self.found(claim, "one side is not a number", left=left, right=right, **facts)
            return
        a, b = exact(left), exact(right)
        ratio = 0.0 if a == b == 0 else math.inf if b == 0 else float(a / b)
        self._seen(claim, ratio)
        slack = SLACK * max(abs(a), abs(b)) if isinstance(left, type(mp.one)) or isinstance(right, type(mp.one)) else 0
        if a > b + slack:
            self.found(
                claim, f"{mp.nstr(a, 20)} > {mp.nstr(b, 20)}, by a relative {mp.nstr((a - b) / b if b else mp.inf, 3)}", **facts
            )

    def near(self, claim: str, got: Any, true: Any, scale: Any, tolerance: float, /, **facts: Any) -> None:
        """Check the claim |got - true| <= tolerance * scale."""
        error = abs(exact(got) - exact(true)) if _is_number(got) else mp.inf
        allowed = exact(scale) * exact(tolerance)
        ratio = 0.0 if error == 0 else float(error / allowed) if allowed else math.inf
        self._seen(claim, ratio)
        if not ratio <= 1:
            self.found(
                claim, f"{got} where {mp.nstr(exact(true), 17)} is right, {ratio:.3g} times the tolerance {tolerance:g}", **facts
            )

    def true(self, claim: str, holds: Any, /, **facts: Any) -> None:
        """Check the claim that `holds` is true."""
        self._seen(claim, 0.0 if holds else math.inf)
        if not holds:
            self.found(claim, "it is not", **facts)

    def found(self, claim: str, what: str, /, **facts: Any) -> None:
        """Record a finding."""
        self.findings.append(
            {
                "kind": self.kind,
                "number": self.number,
                "claim": claim,
                "found": what,
                "parameters": dict(self.parameters),
                "facts": facts,
            }
        )

    def _seen(self, claim: str, ratio: float) -> None:
        self.held += 1
        self.worst[claim] = max(self.worst.get(claim, 0.0), ratio)

    def _kept(self, name: str, value: T) -> T:
        self.parameters[name] = value
        return value


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager that raises TooLong after `seconds` of processor time. Inside another limit only the inner one counts."""

    def ring(number: int, frame: types.FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, ring)
    left, _ = signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, left)
        signal.signal(signal.SIGPROF, before)


def as_json(value: Any) -> str:
    """`value` as one line of JSON; numbers without a JSON form become text."""
    return json.dumps(value, default=_plain, allow_nan=True)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Collection):
        return list(value)
    return mp.nstr(value, 20) if isinstance(value, type(mp.one)) else str(value)


def _is_number(x: Any) -> bool:
    if isinstance(x, Fraction | int | type(mp.one)):
        return True
    return bool(np.ndim(x) == 0 and not np.isnan(x))
