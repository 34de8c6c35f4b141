"""A record for the public registry of differential privacy deployments, as YAML that follows its schema of July 2026.

What a plan cannot know (who publishes, where, since when) is marked for a person to fill in.

Source: DPREGISTRY
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policyc.emit.blocks.wording import Json

FILL_IN = "TO BE FILLED IN"
UNKNOWN_DATE = "1900-01-01"
PURE = {"event_level", "w_event"}


class Number(str):
    """A number as its exact decimal text, which stands in YAML without quotes."""

    __slots__ = ()


def registry_record(content: Json) -> dict[str, Any]:
    """The record of a certificate's content; every value is text, a whole number, or an exact decimal."""
    c: Any = content
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", c["product"]["name"].lower()).strip("-") or "plan",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": c["product"]["name"],
                "data_curators": [FILL_IN],
                "intended_use": FILL_IN,
                "data_product_type": "Summary statistics",
                "data_product_region": FILL_IN,
                "description": f"{c['product']['purpose']}. {c['product']['sentence']}",
                "publication_date": UNKNOWN_DATE,
            },
            "dp_variant": {
                "variant_name": _variant(c["promises"]),
                "data_domain": _sentences(f"`{k['column']}`: {k['role']}" for k in c["data"]["columns"]),
                "unprotected_quantities": "; ".join(u["words"] for u in c["data"]["unprotected"]),
            },
            "privacy_loss": _privacy_loss(c),
            "deployment_model": _deployment_model(c),
            "accounting": {
                "post_processing": _sentences(
                    [
                        *(
                            part
                            for i in c["postprocessing"]
                            for part in (
                                f"`{i['release']}`: {i['estimator']}. {i['description']}",
                                *([i["suppression"]["sentence"]] if "suppression" in i else []),
                            )
                        ),
                        *(f"`{m['release']}` = {m['formula']}: {m['what']}. {m['empty']}" for m in c["made"]),
                    ]
                ),
                "composition": _sentences(p["derivation"] for p in c["promises"]),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Budgets, mechanism and estimator were chosen from the "
                "declared model alone, without the protected data.",
                "mechanisms": _sentences(
                    [
                        *(f"`{m['release']}`: {m['name']}. {m['description']}" for m in c["mechanisms"]),
                        f"Random numbers: {c['operation']['randomness']}",
                        *c["operation"]["known_limits"],
                    ]
                ),
                "justification": _sentences(
                    f"{a['title']}: {a['statement']} Vouched for by {a['vouched_by']}" for a in c["assumptions"]
                ),
            },
            "administrative": {
                "sources": _sentences(f"{key}: {words}" for key, words in c["sources"].items()),
                "notes": f"Made by {c['integrity']['compiler']} from plan {c['integrity']['plan_digest']}; "
                f"`policyc verify` recomputes every claim.",
                "registry_authors": [FILL_IN],
            },
        },
    }


def _variant(promises: list[Any]) -> str:
    kinds = {promise["kind"] for promise in promises}
    if kinds == {"user_level_rho"}:
        return "Zero-concentrated DP"
    if kinds <= {"user_level", "event_level", "w_event"}:
        return "Approximate DP" if any("delta" in promise for promise in promises) else "Pure DP"
    return "Pure DP" if kinds <= PURE else "Custom"


def _privacy_loss(c: Any) -> dict[str, Any]:
    promises = c["promises"]
    numbers: dict[str, Number] = {}
    if len(promises) == 1 and _variant(promises) != "Custom":
        numbers = {"rho" if promises[0]["unit"] == "rho" else "epsilon": Number(promises[0]["value"])}
        if "delta" in promises[0]:
            numbers["delta"] = Number(promises[0]["delta"])
    details = [
        f"{p['name']}: {p['value']} {p['unit']}{' at delta ' + p['delta'] if 'delta' in p else ''} for "
        f"{p['unit_of_privacy']}, over {p['time_scope']}. {p['sentence']}"
        for p in promises
    ]
    if any(p["kind"] == "alpha_dpt" for p in promises):
        details.append(
            "alpha-DP_T bounds, in nats, the log of the likelihood ratio of everything published between any two "
            "values of one user's event, to an adversary who knows the stated chain. Input metric: replaced events of "
            "one user at one step, or in one window where the promise says so; bound 1. Output measure: max divergence "
            "under the chain; bound alpha"
        )
    return {
        "privacy_unit": "; ".join(dict.fromkeys(p["unit_of_privacy"] for p in promises)),
        "privacy_unit_details": _sentences(dict.fromkeys(p["neighbors"] for p in promises)),
        **({"privacy_parameters": numbers} if numbers else {}),
        "privacy_parameters_details": _sentences(details),
    }


def _deployment_model(c: Any) -> dict[str, Any]:
    adversaries = dict.fromkeys(
        f"An adversary who sees all that is published and {p['adversary']}" for p in c["promises"]
    )
    return {
        "model_name": "Central",
        "actors": _sentences(
            ["Whoever runs the plan sees the raw data and is trusted", "Readers see what is published", *adversaries]
        ),
        "release_type": "One release" if c["product"]["horizon"]["steps"] == "1" else "Many releases",
        "release_type_details": f"{c['product']['schedule'].rstrip('.')}. "
        f"{c['operation']['rerun']} {c['operation']['refunds']}",
        "data_source_type": "Dynamic",
        "access_type": "Non-interactive",
    }


def _sentences(parts: Any) -> str:
    return " ".join(f"{part.rstrip('. ')}." for part in parts)


def render_registry(content: Json) -> str:
    """The record as YAML text."""
    return "\n".join(_lines(registry_record(content), "")) + "\n"


def _lines(record: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {_scalar(item)}" for item in value)
        else:
            yield f"{indent}{key}: {_scalar(value)}"


def _scalar(value: str | int) -> str:
    """Text in double quotes, as JSON and YAML both read it."""
    return str(value) if isinstance(value, Number | int) else json.dumps(value, ensure_ascii=False)
