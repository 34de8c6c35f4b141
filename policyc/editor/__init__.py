"""What editors are told of a policy while it is written: findings, completions, explanations, new names.

Pure functions of a text and a place in it; `server` alone speaks the Language Server Protocol, and imports pygls.
"""
