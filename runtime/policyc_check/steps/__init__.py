"""Promises about single steps: budgets, chains, and what leaks through them."""
