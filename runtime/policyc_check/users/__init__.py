"""Promises about all of a user: participation, sensitivity, and the exact curves of noise."""
