"""A policy that is planned and run in no time, for tests of what happens to files."""

POLICY = """policy el "Users who move"
stream ev {
  user u
  time t
  cell c in {"A", "B"} otherwise "Z"
  step 1h
  horizon 48 steps
  population 50
  start "2026-01-01"
}
release n = count(ev) by c
target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.5, 0.4, 0.1], [0.4, 0.5, 0.1], [0.2, 0.2, 0.6]], initial = stationary, evidence = "e")
deliver realtime
estimate none()
"""
