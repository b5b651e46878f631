"""The yes to a run: said beforehand, or when asked. Light to import, since a command line makes one at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.flow.proposal import Proposal


@dataclass(frozen=True)
class Approval:
    """Who says yes to a run, and how: beforehand by --yes, or when asked, on a terminal or a page.

    Without either a run goes on unless there is something serious to heed.
    """

    yes: bool = False
    force: bool = False
    ask: Callable[[Proposal], bool] | None = None

    def admit(self, proposal: Proposal) -> None:
        """Refuse what needs no rehearsal to be refused."""
        if proposal.hopeless and not self.force:
            raise InputError(
                f"{proposal.hopeless}. Bring more data, fewer classes or a larger epsilon, or go on with --force. "
                "Nothing was spent."
            )
        if proposal.serious and not self.yes and self.ask is None:
            raise InputError(f"{proposal.serious[0]} Say --yes to go on all the same. Nothing was spent.")

    def confirm(self, proposal: Proposal, microbatch: int = 1024) -> None:
        """Refuse what will not fit into memory, then ask, where somebody can be asked."""
        memory = proposal.memory
        if memory is not None and not memory.fits and not self.force:
            raise InputError(memory.refusal(proposal.plan.method, microbatch))
        if not self.yes and self.ask is not None and not self.ask(proposal):
            raise InputError("Not confirmed; nothing was spent.")
