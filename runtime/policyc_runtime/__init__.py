"""The trusted kernel: checks a plan, runs it, and remembers what was spent.

It knows nothing of the compiler. What an auditor must believe is in this package alone.
"""
