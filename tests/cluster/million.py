"""Simulate a big cluster through a bad ten minutes, and check its promises.

    python -m tests.cluster.million                     1,000,000 sessions, 200 workers
    python -m tests.cluster.million 100000 20 --seed 7 --seconds 120

The pure halves of workers and clients are the product's; the bus, the database and the
turns are simulated, and nobody's processor time is: what players wait for is messages,
repetitions and claims. Prints what players saw in each phase, and ends with 1 if a
promise was broken.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable
from random import Random

import attrs

from .simulated import PAY, Client, Heard, Link, Script, Worker, World
from .simulated_journal import CLAIMS, WRITES

EVERY = 300.0  # seconds from one turn of a session to the next, on average
WITHIN = 8.0  # seconds that a player's client gives a turn
SCRIPT = Script(batches=(1, 3, 2), pause=0.6)
PAYING = 0.3  # share of turns with a side effect
LEAVING = 0.02  # share of turns that their player interrupts
WANDERING = 0.1  # share of turns that come through another client than the last
IDLE = 240.0  # seconds after which a worker gives a quiet session back
SERVERS = 3
MACHINE = 8  # workers on one
RESTART = 5.0  # seconds until a worker that died is replaced
NOTICED = 25.0  # seconds until the database and the bus know that a machine is lost
AWAY = 8.0  # seconds that a failover of the database takes
LOST = 0.5  # seconds of acknowledged writes that an asynchronous one loses
DISTURBED = 15.0  # seconds that a phase lasts at most, after what began it
QUIET = "quiet"


@attrs.define(eq=False)
class Seen:
    """The turns of one phase. Times are seconds."""

    ends: Counter[str] = attrs.field(factory=Counter)
    first: array[float] = attrs.field(factory=lambda: array("f"))
    whole: array[float] = attrs.field(factory=lambda: array("f"))

    def add(self, heard: Heard) -> None:
        self.ends[heard.end] += 1
        if heard.first:
            self.first.append(heard.first - heard.began)
        if heard.end == "completed":
            self.whole.append(heard.ended - heard.began)

    def row(self, name: str) -> str:
        turns = sum(self.ends.values())
        shares = [
            f"{100 * self.ends[x] / turns:11.4f}"
            for x in ("completed", "interrupted", "lost", "refused")
        ]
        times = [f"{x:7.3f}" for some in (self.first, self.whole) for x in spread(some)]
        return f"{name:22} {turns:9,} {' '.join(shares)}  {' '.join(times)}"


HEAD = (
    f"{'':22} {'turns':>9} {'completed':>11} {'left':>11} {'lost':>11} {'refused':>11}"
    f"  {'first event':^23} {'whole turn':^23}\n"
    f"{'':22} {'':>9} {'%':>11} {'%':>11} {'%':>11} {'%':>11} "
    + f" {'p50':>7} {'p99':>7} {'worst':>7}"
    * 2
)


def spread(times: array[float]) -> tuple[float, float, float]:
    """Return the median, the 99th percentile, and the worst; NaN without any."""
    if not times:
        return (float("nan"),) * 3
    some = sorted(times)
    return some[len(some) // 2], some[int(len(some) * 0.99)], some[-1]


@attrs.define(eq=False)
class Evening:
    """A cluster, its players, and what happens to it."""

    sessions: int
    many: int  # workers
    seed: int = 1
    seconds: float = 600.0
    random: Random = attrs.field(init=False)
    world: World = attrs.field(init=False)
    seen: dict[str, Seen] = attrs.field(factory=dict, init=False)
    _names: list[str] = attrs.field(init=False)
    _clients: list[Client] = attrs.field(init=False)
    _slots: list[Worker] = attrs.field(factory=list, init=False)
    _said: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = Random(self.seed)
        scale = self.seconds / 600
        self.world = World(self.random, SCRIPT, idle=IDLE * scale, over=self._over)
        self._names = [f"s{n}" for n in range(self.sessions)]
        self._clients = [
            Client(self.world, f"c{n}", Link(server=n % SERVERS))
            for n in range(max(4, self.many // 8))
        ]
        for n in range(self.many):  # not all at once: their beats would come together
            self.world.run(self.world.now + 0.5 / self.many)
            self._slots.append(Worker(self.world, f"w{n}", Link(server=n % SERVERS)))

    def play(self, told: Callable[[float], None] | None = None) -> list[str]:
        """Let everything happen, and return the broken promises.

        Args:
          told: is called with the virtual time, 20 times.
        """
        world, all_ = self.world, self.seconds
        few = max(1, self.many // 40)
        events: list[tuple[float, str, Callable[[], None]]] = [
            (0.20, "workers are killed", lambda: self._kill(few)),
            (0.30, "a machine is lost", self._lose_machine),
            (0.40, "workers stop and wake", lambda: self._stop(few)),
            (0.50, "workers drain", lambda: self._drain(4 * few)),
            (0.62, "NATS server lost", self._lose_server),
            (0.72, "database fails over", lambda: self._fail_over(0.0)),
            (0.86, "... and loses writes", lambda: self._lose_writes(few)),
        ]
        for share, name, happens in events:
            self._at(share * all_, self._begin, name, happens)
        self._arrive(all_)
        end = all_ + WITHIN + DISTURBED
        for part in range(1, 21):
            world.run(end * part / 20)
            if told is not None:
                told(world.now)
        return world.settled()

    def _at(self, when: float, what: Callable[..., None], *args: object) -> None:
        self.world.later(when - self.world.now, what, *args)

    def _begin(self, phase: str, happens: Callable[[], None]) -> None:
        self.world.phase = phase
        self._at(self.world.now + min(DISTURBED, 0.09 * self.seconds), self._quiet)
        happens()

    def _quiet(self) -> None:
        self.world.phase = QUIET

    # -- players

    def _arrive(self, until: float) -> None:
        """Have somebody speak, and the next one a random time later."""
        random, world = self.random, self.world
        at = int(self.sessions * random.random())  # `randrange` takes much longer
        many = len(self._clients)
        other = random.random() < WANDERING
        who = self._clients[int(many * random.random()) if other else at % many]
        self._said += 1
        id_ = str(self._said)
        text = PAY if random.random() < PAYING else "Hm."
        who.say(id_, self._names[at], WITHIN, text)
        if random.random() < LEAVING:
            world.later(random.uniform(0.0, 2.4), who.leave, id_)
        wait = random.expovariate(self.sessions / EVERY)
        if world.now + wait < until:
            world.later(wait, self._arrive, until)

    def _over(self, heard: Heard) -> None:
        # What was said in a quiet moment counts for the disturbance that it met.
        phase = self.world.phase if heard.phase == QUIET else heard.phase
        seen = self.seen.get(phase)
        if seen is None:
            seen = self.seen[phase] = Seen()
        seen.add(heard)

    # -- trouble

    def _some(self, many: int) -> list[int]:
        return self.random.sample(range(self.many), many)

    def _replace(self, slot: int) -> None:
        """Start a worker in the place of another one."""
        name, _, times = self._slots[slot].name.partition(".")
        link = Link(server=self.random.randrange(SERVERS))
        new = Worker(self.world, f"{name}.{int(times or 0) + 1}", link)
        self._slots[slot] = new

    def _kill(self, many: int) -> None:
        for slot in self._some(many):
            self._slots[slot].die()
            self.world.later(RESTART, self._replace, slot)

    def _lose_machine(self) -> None:
        for slot in range(min(MACHINE, max(1, self.many // 5))):
            self._slots[slot].die(noticed=NOTICED)
            self.world.later(RESTART, self._replace, slot)

    def _stop(self, many: int) -> None:
        for slot in self._some(many):
            until = self.world.now + self.random.uniform(0.5, 10.0)
            self._slots[slot].stopped = until

    def _drain(self, many: int) -> None:
        """Drain workers one after another, and replace each."""
        for at, slot in enumerate(self._some(many)):
            self.world.later(0.5 * DISTURBED * at / many, self._drain_one, slot)

    def _drain_one(self, slot: int) -> None:
        self._slots[slot].drain(within=5.0)
        self._until_drained(slot)

    def _until_drained(self, slot: int) -> None:
        worker = self._slots[slot]
        if worker.own.drained:
            worker.die()
            self._replace(slot)
        else:
            self.world.later(0.1, self._until_drained, slot)

    def _lose_server(self) -> None:
        self.world.lose_server(0, [1, 2], longest=2.0)

    def _fail_over(self, lost: float) -> None:
        self.world.fail_over(AWAY, lost=lost)

    def _lose_writes(self, many: int) -> None:
        """Lose the last writes, and some of the workers that made them."""
        self._fail_over(LOST)
        self._kill(many)

    # -- what is printed

    def report(self, broken: list[str]) -> str:
        world, journal = self.world, self.world.journal
        claims = journal.claims
        peak = max(claims, key=lambda x: claims[x])
        twice = sum(n > 1 for n in world.effects.values())
        gone = len(world.acknowledged - journal.turns)
        messages, pings = world.counts["messages"], world.counts["pings"]
        whole = Seen()
        for seen in self.seen.values():
            whole.ends.update(seen.ends)
            whole.first.extend(seen.first)
            whole.whole.extend(seen.whole)
        rows = [seen.row(name) for name, seen in self.seen.items()]
        noticed: Counter[str] = Counter()
        for client in self._clients:
            noticed.update({str(x): n for x, n in client.placement.counts.items()})
        turns = whole.ends.total()
        said = (
            f"{self.sessions:,} sessions, a turn every {EVERY:g} s each; {self.many}"
            f" workers, {len(self._clients)} clients, {SERVERS} NATS servers;"
            f" {self.seconds:g} virtual seconds; seed {self.seed}\n"
            f"a turn: first event after {SCRIPT.pause:g} s, the end after"
            f" {SCRIPT.pause * (len(SCRIPT.batches) + 1):g} s; {SCRIPT.events} events"
            f" in {len(SCRIPT.batches)} messages; {PAYING:.0%} have a side effect; the"
            f" database: {CLAIMS:,} claims or {WRITES:,} writes a second\n"
        )
        counted = (
            f"\nclaims: {claims.total():,}, {claims[peak]:,} in the busiest second"
            f" ({peak}), {journal.counts['claims stolen']:,} stolen,"
            f" {journal.counts['claims refused']:,} refused;"
            f" {journal.counts['releases']:,} sessions were given back\n"
            f"messages: {messages:,}, {messages / turns:.1f} a turn;"
            f" and {pings:,} pings, {pings / turns:.1f} a turn\n"
            "writes refused to workers that had lost the session:"
            f" {world.counts['fenced']:,}; effects refused without a database:"
            f" {world.counts['effects refused']:,}\n"
            f"what clients noticed: {dict(noticed)}\n"
        )
        undone = (
            f"The database that lost its last {LOST:g} s:"
            f" {journal.counts['turns undone']:,} turns and"
            f" {journal.counts['claims undone']:,} claims are undone; {gone:,}"
            f" acknowledged turns are lost, {twice:,} effects were begun twice."
        )
        kept = "Promises: " + ("all kept." if not broken else "BROKEN")
        return "\n".join([said, HEAD, *rows, whole.row("all"), counted, undone, kept])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.million")
    parser.add_argument("sessions", nargs="?", type=int, default=1_000_000)
    parser.add_argument("workers", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args(arguments)
    gc.disable()  # millions of objects, and hardly a cycle among them
    began, processor = time.monotonic(), time.process_time()
    evening = Evening(given.sessions, given.workers, given.seed, given.seconds)

    def told(now: float) -> None:
        passed = time.monotonic() - began
        print(f"{now:.0f} virtual seconds in {passed:.0f} s", file=sys.stderr)  # noqa: T201

    broken = evening.play(told)
    print(evening.report(broken), *broken, sep="\n")  # noqa: T201
    wall, processor = time.monotonic() - began, time.process_time() - processor
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    turns = sum(x.ends.total() for x in evening.seen.values())
    cost = f"{processor:.0f} s of processor, {1e6 * processor / turns:.0f} us a turn"
    print(f"This run: {wall:.0f} s, {cost}, {memory:.1f} GiB")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
