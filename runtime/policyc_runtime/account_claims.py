"""What `verify` says about the account of a data set: it is whole, and all its plans together keep its promise.

Nothing but the account is needed, and for one plan's own line its ledger: whoever verifies sees no data.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from policyc_check.claims import Claim
from policyc_check.plan.plan import Plan
from policyc_check.verify import verified_claims
from policyc_runtime.account import Account
from policyc_runtime.account_reader import account_plan
from policyc_runtime.errors import AccountError, LedgerError
from policyc_runtime.ledger_file import SYSTEM
from policyc_runtime.ledger_reader import LedgerReader


def account_claims(path: str | Path) -> Iterator[Claim]:
    """Every claim of an account, recomputed from the plans that it keeps."""
    name = "the account of the data set is whole"
    try:
        with Account.open(path, to_write=False) as account:
            yield Claim(name, True, f"{len(account.entries):,} entries, chained by their hashes", str(path))
            yield from _kept(account)
    except AccountError as error:
        yield Claim(name, False, _told(error), error.where or str(path), error.code)


def _told(error: AccountError | LedgerError) -> str:
    """A refusal in one line, with its reason and remedy."""
    return "; ".join(filter(None, (error.message, error.because, error.help)))


def _kept(account: Account) -> Iterator[Claim]:
    bound, where = account.bound, str(account.path)
    counted = [*(entry.plan for entry in account.spent), *account.requested]
    for digest in dict.fromkeys(entry.plan for entry in account.entries):
        name = f"plan {digest[:16]}… of the account keeps what it promises"
        try:
            plan = account_plan(account.plans[digest])
            first = account_plan(account.plans[counted[0]]) if len(counted) > 1 else None
        except ValueError:
            yield Claim(name, False, "it is no plan", where, "E0891")
            return
        broken = next((claim for claim in verified_claims(plan) if claim.holds is False), None)
        detail = (
            f"`{plan.policy.name}`, every claim recomputed" if broken is None else f"{broken.name}: {broken.detail}"
        )
        yield Claim(name, broken is None and plan.digest == digest, detail, where, "E0891")
        reason = bound.reason_against(plan, first) if digest in counted else None
        if reason is not None:
            yield Claim(f"plan {digest[:16]}… is one of data set `{bound.dataset}`", False, reason, where, "E0893")
            return
    name = f"all plans on data set `{bound.dataset}` together keep its promise: {bound.described()}"
    found = account.standing()
    spent = "no limit is known" if found.spent is None else f"recomputed {found.spent!r} spent"
    asked = "" if not found.requested else f", {found.requested!r} requested"
    yield Claim(name, bound.keeps(account.charges()), f"{spent}{asked}, of {found.limit}", where, "E0894")


def account_claims_of(plan: Plan, path: str | Path | None, ledger: Path, pin: Path) -> Iterator[Claim]:
    """Every claim of an account, and whether it knows of one plan and of the ledger on which its noise was drawn."""
    if path is None:
        name = f"all plans on data set `{plan.stream.dataset}` together keep the promise of its account"
        yield Claim(name, None, "name the account with `--account FILE`", "--account", "E0896")
        return
    yield from account_claims(path)
    if plan.stream.dataset is None:
        detail = "its policy names no data set: verify it without `--account`, or write `dataset NAME` in the stream"
        yield Claim("this plan is of the account's data set", False, detail, str(path), "E0896")
        return
    name = f"what this plan tells is entered in the account of data set `{plan.stream.dataset}`"
    try:
        with Account.open(path, to_write=False) as account:
            known = plan.digest in {*account.requested, *(entry.plan for entry in account.spent)}
            yield Claim(name, known, "its digest was looked up", str(path), "E0891")
            if known and ledger.exists():
                yield from _ledger_claims(plan, account, ledger, pin)
    except (AccountError, LedgerError) as error:
        yield Claim(name, False, _told(error), error.where or str(path), error.code)


def _ledger_claims(plan: Plan, account: Account, ledger: Path, pin: Path) -> Iterator[Claim]:
    name = "the noise of this plan was entered in the account before it was drawn"
    with LedgerReader.open_read_only(ledger, pin) as book:
        if not book.state.entries or book.meta.get("generator") != SYSTEM:
            yield Claim(name, True, "none was drawn for real events", str(ledger))
            return
        found = any((entry.plan, entry.ledger) == (plan.digest, book.meta["ledger"]) for entry in account.spent)
        yield Claim(name, found, "its ledger was looked up by name", str(account.path), "E0891")
        name, last = "no copy of this ledger has released other steps", account.reached(book.meta["ledger"])
        if last is None:
            yield Claim(
                name, None, "no run told the account how far it came: run the plan again", str(account.path), "E0848"
            )
        else:
            detail = f"it has the {last.entries:,} entries of which the account knows"
            lacks = "it lacks entries of which the account knows"
            held = book.holds(last)
            yield Claim(name, held, detail if held else lacks, str(ledger), "E0848")
