"""How a rate of input goes up and down around what was asked for: pure values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, assert_never


@dataclass(frozen=True, slots=True)
class Constant:
    """The rate that was asked for, always."""


@dataclass(frozen=True, slots=True)
class Sinusoid:
    """From (1 − swing) to (1 + swing) times the rate and back in `period` seconds; its mean is the rate."""

    period: float
    swing: float

    def __post_init__(self) -> None:
        if self.period <= 0 or not 0 <= self.swing <= 1:
            raise ValueError(f"a sinusoid needs a period above 0 and a swing from 0 to 1, not {self}")


@dataclass(frozen=True, slots=True)
class Steps:
    """Each factor times the rate for `seconds`, again and again."""

    seconds: float
    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.seconds <= 0 or not self.factors or min(self.factors) < 0:
            raise ValueError(f"steps need a length above 0 and factors not below 0, not {self}")


Profile = Constant | Sinusoid | Steps
_KINDS: Mapping[str, type[Constant | Sinusoid | Steps]] = {
    kind.__name__.lower(): kind for kind in (Constant, Sinusoid, Steps)
}


def amount(profile: Profile, seconds: float) -> float:
    """Rows due `seconds` after the beginning if one row per second is asked for."""
    match profile:
        case Constant():
            return seconds
        case Sinusoid(period, swing):
            turn = 2 * math.pi / period
            return seconds + swing * (1 - math.cos(turn * seconds)) / turn
        case Steps(each, factors):
            whole, rest = divmod(seconds, each * len(factors))
            step, part = divmod(rest, each)
            done = sum(factors[: int(step)]) * each + factors[int(step) % len(factors)] * part
            return whole * sum(factors) * each + done
        case _:
            assert_never(profile)


def to_json(profile: Profile) -> dict[str, Any]:
    """As JSON takes it."""
    return {"kind": type(profile).__name__.lower()} | asdict(profile)


def from_json(value: Mapping[str, Any]) -> Profile:
    """The inverse of `to_json`; raises ValueError for what is no profile."""
    rest = dict(value)
    kind = _KINDS.get(rest.pop("kind", ""))
    if kind is None:
        raise ValueError(f"no such profile: {dict(value)}")
    if "factors" in rest:
        rest["factors"] = tuple(rest["factors"])
    return kind(**rest)
