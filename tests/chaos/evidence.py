"""What events of the chaos test have hit, and which failures they are the reason of."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Event:
    """Something that happens to the fleet. It may fail the requests that a replica had as it went away, and no others."""

    name: str
    begun: float
    # What it has hit, and how many; an event that has hit nothing of one of these proves nothing.
    hits: Counter = field(default_factory=Counter)
    # Whose requests it ends, and the moment: from its begin to its end.
    slot: str = ""
    since: float = 0.0
    over: float = 0.0
    # What the replica says if it answers them itself, and for how long they have waited then.
    says: str = ""
    waited: float = 0.0

    def fails(self, slot, since, over, says="", waited=0.0):
        """Say whose requests this has ended, and when."""
        self.slot, self.since, self.over, self.says, self.waited = slot, since, over, says, waited
        # How many were in flight there, and failed.
        self.hits["failed and sent again"] += 0

    def excuses(self, failure):
        """Whether a request failed for this: it was in flight at that moment, and on no other replica."""
        # HAProxy may close a connection without a word, of which `Verdict` knows the number.
        here = bool(self.slot) and failure.slot in ("", self.slot)
        then = failure.sent <= self.over and failure.came >= self.since
        return here and then and self.says in failure.error and failure.came - failure.sent >= self.waited


class Verdict:
    """What failures are the work of which event, and whether each event has hit something."""

    def __init__(self, events, planned, failures, unanswered):
        self.events, self.bad, self.violations, failed = events, [], [], Counter()
        for failure in failures:
            event = next((event for event in events if event.excuses(failure)), None)
            if event is None:
                self.bad.append(failure)
                continue
            event.hits["failed and sent again"] += 1
            # What a replica has refused, it has answered.
            failed[event.slot] += not event.says
        # HAProxy counts by server what it has sent there, and what has come back. So all that failed was on the replica
        # that went away, and all that was there failed.
        for slot in unanswered | failed:
            if unanswered[slot] != failed[slot]:
                text = f"{slot} has not answered {unanswered[slot]} requests, and {failed[slot]} are known to have failed"
                self.violations.append(text)
        happened = Counter(event.name for event in events)
        self.violations += [f"{name} did not happen" for name in planned if not happened[name]]
        for event in events:
            if not event.hits or not all(event.hits.values()):
                self.violations.append(f"{event.name} hit nothing: {listed(event.hits)}")

    def summary(self):
        """The events and what they have hit, in words."""
        sums = {}
        for event in self.events:
            sums.setdefault(event.name, []).append(event.hits)
        return "; ".join(f"{name} {len(hits)} ({listed(sum(hits, Counter()))})" for name, hits in sorted(sums.items()))


def listed(hits):
    """What was hit, in words."""
    return ", ".join(f"{count} {what}" for what, count in hits.items()) or "nothing"
