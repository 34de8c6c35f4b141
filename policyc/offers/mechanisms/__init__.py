"""The mechanisms that a policy may name, one a file."""
