"""Sentences that the blocks of several kinds of promises have, each here once; a block's own stand in its module."""

from __future__ import annotations

EVERY_OTHER = "knows all about every other user"
ADVERSARY = f"That is so for an adversary who {EVERY_OTHER}"
HOWEVER_CONNECTED = ", and however this user's steps depend on each other"
UNCONNECTED = "as long as the steps of one user tell nothing of each other"
TOGETHER = (
    "What a family or a convoy does together is told by every one of them, so it is hidden less well than what one "
    "person does."
)
CROWD = (
    "That most users do something is what the statistics are for. Who learns it may guess well about a user, with or "
    "without that user's data in it."
)
OUTSIDE = "The raw data itself, whoever can read it or the ledger's key, and other releases made from the same data"
ADDED = "two data sets, one of which has all events of one user{period} more than the other"
REPLACED_PART = "two data sets that differ in {period} of one user: all events there are replaced by others"
REPLACED = "two data sets that differ in one user: all events of one are replaced by all events of another"

NEVER_MORE = "There is no result, however rare, that changes them by more."
MORE = "It is more with a probability of at most {chance}{limit}."
WEIGHED = "(Delta is less: it weighs every such result by how far it goes beyond.)"

CHECKED = "The plan was found by one algorithm and checked by another, with every rounding against it."
ALL_STEPS = "the noise on all steps together hides one user's part in all of them{period}; releases compose"
ADDED_RHO = (
    "Rho of each release is the square of what one user can move in it, L2, over twice the variance of its noise (of "
    "Laplace noise: over twice the square of its scale), in exact fractions; those of all releases add up. {told} is "
    "from the exact curve of all noise together, not converted from rho."
)
SPENT = (
    " Of one that publishes when values have moved it is the most that steps in which neighbors differ may spend, "
    "whatever is published when, as often as a step of theirs moves by what its budgets are for."
)
ADDED_LOSS = (
    "The largest loss of each release is what one user can move in it, L1, over the scale of its noise, in exact "
    "fractions; those of all releases add up."
)
COMPOSED = (
    "The exact privacy curve of each release's noise, for the most that one user can change in it{steps}; the curves "
    "of all releases are composed, and delta is taken at the promised epsilon."
)
