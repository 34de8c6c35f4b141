"""Simulations and attacks: nothing here is a release, and no run imports it."""
