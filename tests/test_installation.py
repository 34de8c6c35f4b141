"""What is tested is what is installed."""

from __future__ import annotations

import os
from importlib.metadata import requires, version
from importlib.resources import files
from pathlib import Path

import policyc
import policyc_check
import policyc_grammar
import policyc_runtime

PACKAGES = ("policyc", "policyc_check", "policyc_runtime", "policyc_grammar")


def test_the_installed_packages_are_tested_and_not_the_checkout():
    """Where the gate says where the checkout is, no package comes from there."""
    checkout = os.environ.get("POLICYC_NOT_FROM", "/nowhere")
    for package in (policyc, policyc_check, policyc_grammar, policyc_runtime):
        assert not Path(package.__file__).is_relative_to(checkout)


def test_the_packages_carry_their_data():
    """Grammar, pages, templates and type markers are in the wheel."""
    assert files("policyc_grammar").joinpath("policy.lark").is_file()
    assert files("policyc").joinpath("diagnostics", "pages", "E0401.md").is_file()
    assert files("policyc").joinpath("emit", "templates", "certificate.html.jinja").is_file()
    assert all(
        files(name).joinpath("py.typed").is_file()
        for name in ("policyc", "policyc_check", "policyc_runtime", "policyc_grammar")
    )


def test_the_version_is_said_once():
    """The package says the version that is installed."""
    assert version("policyc") == policyc.__version__
    assert any(name.startswith("duckdb") for name in requires("policyc") or [])
