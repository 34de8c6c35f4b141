"""What a run tells its data set's account: that it spends, before it draws; and how far it is, before it publishes.

A directory that is copied takes its ledger along, and two runs would draw noise of their own for the same steps. The
account is one for both: whichever publishes first has its state kept there, and the other, whose ledger was never in
that state, publishes nothing.
"""

from __future__ import annotations

from pathlib import Path

from policyc_check.plan.plan import Plan
from policyc_runtime.account import Account
from policyc_runtime.account_file import RESTORE, unusable
from policyc_runtime.account_reader import account_plan
from policyc_runtime.errors import AccountError
from policyc_runtime.ledger_file import ON_SIMULATED_EVENTS, SYSTEM
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.ledger_seal import not_as_left
from policyc_runtime.published_values import NOT_A_RELEASE
from policyc_runtime.sources.given_data import Held
from policyc_runtime.sources.memory import Rows
from policyc_runtime.sources.simulated import SIMULATED, all_simulated


def require_dataset(plan: Plan) -> None:
    """Nothing for a plan that names its data set; AccountError for another, which has no account."""
    if plan.stream.dataset is None:
        raise AccountError(
            "E0896",
            "the policy names no data set",
            where="--account",
            because="an account adds up what plans on the same users tell, and has to know that this is one of them",
            help="write `dataset NAME` into the policy's stream, with the name that the account has, and compile again",
        )


def older_requests(plan: Plan, account: str | Path) -> list[str]:
    """Digests of plans of a policy of this name that are requested beside this one, and count until they are run."""
    with Account.open(account, to_write=False) as opened:
        others = [digest for digest in opened.requested if digest != plan.digest]
        return [digest for digest in others if account_plan(opened.plans[digest]).policy.name == plan.policy.name]


def require_simulated(plan: Plan, drawn: str, data: Held) -> None:
    """Nothing where events of a data set that are taken for simulated ones all are; before anything is read of them.

    Raises:
        AccountError: E0896, some rows do not say so.
    """
    if drawn != ON_SIMULATED_EVENTS or plan.stream.dataset is None or (isinstance(data, Rows) and all_simulated(data)):
        return
    raise AccountError(
        "E0896",
        f"the account of data set `{plan.stream.dataset}` would not know of this run",
        where=str(data),
        because=f"there is a column `{SIMULATED}`, as of simulated events, which spend nothing, and not every row has "
        f"`{NOT_A_RELEASE}` in it; nothing was drawn",
        help="leave that column out; simulated events are what `policyc simulate --events FILE` writes, alone",
    )


def spend(plan: Plan, account: str | Path | None, book: LedgerReader, drawn: str, data: Held) -> None:
    """Enter that a plan is run on a ledger, where it names a data set; before any noise is drawn.

    Noise that is `drawn` from a seed, and such for events that are all simulated, tells nothing of anybody.

    Raises:
        AccountError: it names one, and no account is named, or the reverse; or as `Account.spend` and
            `require_simulated` say.
        LedgerError: E0848, a copy of the ledger has gone on.
    """
    require_simulated(plan, drawn, data)  # again: another file may have come in its place meanwhile
    if drawn != SYSTEM:
        return
    begun = bool(book.state.entries)
    if account is not None:
        require_dataset(plan)
        if begun and not (Path(account).is_file() and Path(account).stat().st_size):
            raise unusable(Path(account), "there is no account here, and this plan has run with one", RESTORE)
        with Account.open(account) as opened:
            last = opened.reached(book.meta["ledger"])
            if last is not None and not book.holds(last):
                raise not_as_left(book.path, _gone_on(account))
            opened.spend(plan, book.meta["ledger"], begun=begun)
    elif plan.stream.dataset is not None:
        raise AccountError(
            "E0896",
            f"the account of data set `{plan.stream.dataset}` is not named",
            where="--account",
            because="other plans are on the same users, and what they tell adds up; nothing was drawn",
            help="name the one in which this plan was entered when it ran first: `--account FILE`"
            if begun
            else "name it: `--account FILE`; or begin one: `policyc account new FILE --dataset "
            f"{plan.stream.dataset} --promise ...`",
        )


def reach(account: str | Path | None, book: LedgerReader) -> None:
    """Keep in an account, if there is one, how far a ledger is; before anything of it is published.

    Raises:
        AccountError: the account cannot be used; the next run publishes what this one drew.
        LedgerError: E0848, a copy of the ledger went on meanwhile.
    """
    if account is None:
        return
    ledger = book.meta["ledger"]
    with Account.open(account) as opened:
        known = opened.reached(ledger) == book.state  # an account that nobody may write to is enough then
        if not known and not opened.reach(ledger, book.state, book.holds):
            raise not_as_left(book.path, _gone_on(account), nothing="published")


def _gone_on(account: str | Path) -> str:
    return f"it lacks what was drawn on a copy of it, says `{account}`"
