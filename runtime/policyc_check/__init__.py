"""What an auditor must believe: reads a plan, and recomputes every claim of it.

It knows nothing of what compiles plans, runs them, or makes values better after noise.
"""
