"""The estimators that a policy may name, one a file."""
