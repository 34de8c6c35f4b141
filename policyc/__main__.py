"""`python -m policyc` is `policyc`."""

from policyc.cli import main

main()
