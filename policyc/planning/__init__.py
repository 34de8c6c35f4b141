"""Checked policy -> plan: finds budgets, compares candidates, and has the kernel verify the result."""
