"""What a policy costs with another epsilon, bound, step or period: other policies, planned by the compiler itself.

Nothing is computed here. `axes` says what may be altered, `alteration` writes the policy with it altered, `worker`
plans that in a process of its own, and `points` collects what the plans say, for the terminal and a page.
"""
