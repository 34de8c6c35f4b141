"""A plan that is kept running: events arrive, steps close by the clock, and each is released as any run releases it."""
