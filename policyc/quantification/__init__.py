"""The leakage of a given release: what budgets that somebody else spent tell through chains that adversaries know.

Source: CAO17 (its first contribution)
"""
