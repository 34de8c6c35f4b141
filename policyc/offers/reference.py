"""The tables of the reference: what a policy may name, from the offers themselves."""

from __future__ import annotations

from collections.abc import Iterable

from policyc.offers.offer import (
    EstimatorOffer,
    MechanismOffer,
    Offer,
    budget_offers,
    estimator_offers,
    mechanism_offers,
)

PROMISES = {"steps": "single steps", "windows": "windows", "user_level": "all events of a user"}


def reference() -> str:
    """Budgets, mechanisms and estimators as Markdown tables; `auto` may stand for each."""
    budgets = _table(("budget", "what a step gets"), ((one, one.says) for one in budget_offers().values()))
    mechanisms = _table(
        ("mechanism", "what it publishes", "accounts for", "delivery"),
        ((one, one.says, _accounted(one), _measured(one)) for one in mechanism_offers().values()),
    )
    estimators = _table(
        ("estimate", "what it makes of noisy values", "delivery"),
        ((one, one.says, _estimated(one)) for one in estimator_offers().values()),
    )
    return "\n".join((budgets, mechanisms, estimators))


def _table(header: tuple[str, ...], rows: Iterable[tuple[Offer | str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *(tuple(map(_cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: Offer | str) -> str:
    if isinstance(value, str):
        return value
    more = [f"`{option.example}`" for option in value.options if not option.required]
    return f"`{value.written()}`" + (f"; {', '.join(more)}" if more else "")


def _accounted(offer: MechanismOffer) -> str:
    return ", ".join(words for promise, words in PROMISES.items() if promise in offer.promises)


def _measured(offer: MechanismOffer) -> str:
    if offer.whole_stream is None:
        return "any"
    return "offline, within" if offer.blocks else "offline"


def _estimated(offer: EstimatorOffer) -> str:
    if offer.later_values is None:
        return "any"
    return "offline" if offer.whole_stream else "offline, within"
