"""Deliberate faults: each takes out one line of the product that keeps a promise.

Above 300 lines of nothing but the table: a fault, where it is, and what it breaks.
"""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.simulation.promises.monitor import Promise

WHOLE_HOST: Final = "tests/simulation/test_whole_host.py"
QUEUE: Final = "tests/npc/test_turn_queue.py"
SCENE: Final = "tests/npc/scene/test_scene_random.py"
DUALITY: Final = "tests/builtin/test_duality.py"
CROSSINGS: Final = "tests/aio/test_bridge_random.py"
LIVENESS: Final = "tests/simulation/test_liveness.py"
TRIALS: Final = "tests/simulation/test_trials.py"


@attrs.frozen
class Mutant:
    """One fault.

    Args:
      name: what goes wrong, in a few words.
      file: below the package.
      old: what stands there, exactly once.
      new: what stands there then.
      breaks: the promise that is not kept any more.
      hunter: which tests look for it.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: Promise | str
    hunter: str = WHOLE_HOST


MUTANTS: Final = (
    # ------------------------------------------------------------------ actors
    Mutant(
        "a fan-out has a quarter of a second more",
        "actors/fanout.py",
        "= trio.CancelScope(deadline=self.deadline)",
        "= trio.CancelScope(deadline=self.deadline + 0.25)",
        Promise.ON_TIME,
    ),
    Mutant(
        "a lone call is not cut at its turn's end",
        "host/executor.py",
        "deadline=min(booking.until, fan.deadline)",
        "deadline=booking.until",
        Promise.ON_TIME,
    ),
    Mutant(
        "a fan-out whose time is up takes it for an interruption",
        "actors/fanout.py",
        "return self._scope.cancel_called",
        "return False",
        Promise.STOPPED,
    ),
    Mutant(
        "nobody cancels a flight without passengers",
        "actors/flight.py",
        "        self._stop()\n",
        "",
        Promise.STOPPED,
    ),
    Mutant(
        "a call without a task is not left",
        "mcp/calls.py",
        "        forget()\n",
        "",
        Promise.STOPPED,
    ),
    Mutant(
        "calls that do not stop are not counted",
        "actors/stray.py",
        "return sum(since + grace <= now for since in strays.values())",
        "return 0",
        Promise.RIGHTS,
    ),
    Mutant(
        "an asker who leaves tells nobody",
        "actors/mailbox.py",
        "                call.abandon()\n",
        "",
        Promise.STOPPED,
    ),
    # ---------------------------------------------------- the way back, and trials
    Mutant(
        "the way back never opens",
        "tools/readmission.py",
        "        if self.open or self.left > 0:\n",
        "        if True:\n",
        Promise.SHOWN_AGAIN,
        LIVENESS,
    ),
    Mutant(
        "a good call brings no tool back",
        "host/measurements.py",
        "if hidden.judge(good=good):",
        "if False and hidden.judge(good=good):",
        Promise.SHOWN_AGAIN,
        LIVENESS,
    ),
    Mutant(
        "a tool that is back keeps the timeouts that hid it",
        "tools/window.py",
        "_LATENCIES: Final = (_OK, _TIMEOUT, _CENSORED)",
        "_LATENCIES: Final = (_OK, _CENSORED)",
        Promise.SHOWN_AGAIN,
        LIVENESS,
    ),
    Mutant(
        "a new life of a server keeps the cut calls of the one before",
        "tools/window.py",
        "[sample for sample in self._ring if sample.kind is _OK][-most:]",
        "list(self._ring)",
        Promise.SHOWN_AGAIN,
        TRIALS,
    ),
    Mutant(
        "an idempotent write is measured unasked",
        "tools/consent.py",
        "    if not definition.read_only:\n",
        "    if not definition.repeatable:\n",
        Promise.ASKED,
        TRIALS,
    ),
    Mutant(
        "a hint that a tool destroys is not read",
        "mcp/metadata.py",
        "read_only and destroys is not True",
        "read_only",
        Promise.ASKED,
        TRIALS,
    ),
    Mutant(
        "what reaches the web is measured unasked",
        "tools/consent.py",
        "purpose is Purpose.PROBE and definition.open_world",
        "False and definition.open_world",
        Promise.ASKED,
        TRIALS,
    ),
    Mutant(
        "what is granted to nobody is measured unasked",
        "tools/consent.py",
        "grant.covers(definition, exposed)\n"
        "        and (agreed or grant.approves(definition, exposed))",
        "True",
        Promise.ASKED,
        TRIALS,
    ),
    Mutant(
        "what nobody approved is measured unasked",
        "tools/consent.py",
        "and (agreed or grant.approves(definition, exposed))",
        "",
        Promise.ASKED,
        TRIALS,
    ),
    Mutant(
        "any number of calls of an unknown tool run at once",
        "host/attempts.py",
        "TRIALS_AT_ONCE = 2",
        "TRIALS_AT_ONCE = 20",
        Promise.TRIALS,
        TRIALS,
    ),
    Mutant(
        "a write of an unknown tool is cut",
        "host/executor.py",
        "slot.pending = booking.first.on_trial and definition.side_effects",
        "slot.pending = False",
        Promise.KEPT,
        TRIALS,
    ),
    Mutant(
        "a call that still works is made again",
        "host/executor.py",
        "caller.pending[slot.listing.key, slot.arguments] = slot.call",
        "pass",
        Promise.ONCE,
        TRIALS,
    ),
    Mutant(
        "a call that somebody limited ends after half a minute all the same",
        "host/executor.py",
        "        if booking.until == math.inf:\n",
        "        if booking.until > trio.current_time() + LONGEST_FLIGHT:\n",
        Promise.LIMITS,
        TRIALS,
    ),
    Mutant(
        "a running turn gets what its NPC is granted meanwhile",
        "tools/gate.py",
        "if self.also is not None and not self.also.covers(definition, exposed):",
        "if False:",
        Promise.RIGHTS,
        TRIALS,
    ),
    Mutant(
        "one death of a server is a failure of each of its calls",
        "host/attempts.py",
        "        if self._same_death(attempt, result):\n",
        "        if False:\n",
        Promise.RIGHTS,
        TRIALS,
    ),
    # ---------------------------------------------------------------- executor
    Mutant(
        "a yes counts for every call of that id",
        "host/executor.py",
        "frozenset(x for x in approved if often[x] == 1)",
        "frozenset(approved)",
        Promise.RIGHTS,
    ),
    Mutant(
        "a cut call is told as interrupted",
        "host/executor.py",
        "settle_rest(verdict.cut)",
        "settle_rest(verdict.interrupted)",
        Promise.ONE_OUTCOME,
    ),
    Mutant(
        "calls that the time cut off are told of twice",
        "host/executor.py",
        "            slot.settled = True\n",
        "            slot.settled = end.limit is None\n",
        Promise.ONE_OUTCOME,
    ),
    Mutant(
        "an unknown effect is forgotten",
        "host/executor.py",
        "if end.effect is Effect.UNKNOWN and slot.listing is not None:",
        "if False and slot.listing is not None:",
        Promise.ONCE,
    ),
    Mutant(
        "writes of one group run side by side",
        "host/executor.py",
        "                await turn.wait()\n",
        "",
        Promise.IN_ORDER,
    ),
    Mutant(
        "one call more than is allowed",
        "host/executor.py",
        "if slot.index >= caller.max_calls:",
        "if slot.index > caller.max_calls:",
        Promise.RIGHTS,
    ),
    Mutant(
        "a tool's own limit is not kept",
        "host/executor.py",
        "            while True:\n"
        "                with trio.CancelScope(deadline=min(booking.until, ",
        "            while True:\n"
        "                with trio.CancelScope(deadline=min(booking.until + 0.125, ",
        Promise.LIMITS,
    ),
    Mutant(
        "a late result goes to nobody",
        "host/executor.py",
        "        if caller.on_late is not None:\n",
        "        if False and caller.on_late is not None:\n",
        Promise.ENDS,
    ),
    Mutant(
        "who goes on is cut at its turn's end all the same",
        "host/executor.py",
        "            if not slot.goes_on:\n                booking.leave(early)",
        "            booking.leave(early)",
        Promise.KEPT,
    ),
    Mutant(
        "a call that is too slow for the tier runs",
        "host/executor.py",
        "        if no is not None:\n            raise _Refused(no)",
        "        if no is not None and no.reason is not Reason.OVER_TIER:\n"
        "            raise _Refused(no)",
        Promise.RIGHTS,
    ),
    Mutant(
        "a call that nobody approved runs",
        "host/executor.py",
        "        if not slot.approved and not self._is_approved(listing, grant):",
        "        if False:",
        Promise.RIGHTS,
    ),
    Mutant(
        "what is taken away while a call waits its turn is not",
        "host/executor.py",
        "grant, tier = caller.rights\n        listing =",
        "grant, tier = caller.grant, caller.tier\n        listing =",
        Promise.RIGHTS,
        "tests/runtime/test_reload.py"
        "::test_a_call_that_waits_its_turn_is_refused_when_it_comes",
    ),
    Mutant(
        "what is taken away in the middle of a turn is not",
        "npc/turn/state.py",
        "        self.grant = attrs.evolve(grant, also=began_with)\n",
        "",
        Promise.RIGHTS,
    ),
    Mutant(
        "a tool runs whose schema was not loaded",
        "host/executor.py",
        "            no = view.not_loaded(listing)",
        "            view.not_loaded(listing)",
        Promise.RIGHTS,
    ),
    Mutant(
        "a tool that changed is not held back",
        "host/executor.py",
        "changed=bool(held) and listing.key in held",
        "changed=False",
        Promise.RIGHTS,
    ),
    Mutant(
        "an answer for one NPC is kept for all",
        "host/executor.py",
        'scope = caller.npc if definition.per_npc else ""',
        'scope = ""',
        Promise.FRESH,
    ),
    Mutant(
        "nothing stands in a tool's way",
        "host/executor.py",
        "obstacle=self._attempts.obstacle(listing)",
        "obstacle=None",
        Promise.RIGHTS,
    ),
    # ----------------------------------------------------------------- verdict
    Mutant(
        "a limit is called by the other's name",
        "host/verdict.py",
        "limit = Limit.SERVER if by_server else Limit.TOOL",
        "limit = Limit.TOOL if by_server else Limit.SERVER",
        Promise.LIMITS,
    ),
    Mutant(
        "a cached answer is told as an effect",
        "host/verdict.py",
        "definition.side_effects and not (cached or result.is_error)",
        "definition.side_effects and not result.is_error",
        Promise.EFFECTS,
    ),
    Mutant(
        "a lost answer is told as no effect",
        "host/verdict.py",
        "slot, Status.UNAVAILABLE, now, message=words(error), no_answer=True",
        "slot, Status.UNAVAILABLE, now, message=words(error), no_answer=False",
        Promise.EFFECTS,
    ),
    Mutant(
        "a call that never began may have had an effect",
        "host/verdict.py",
        "        and slot.flown\n",
        "",
        Promise.EFFECTS,
    ),
    # ---------------------------------------------------------------- attempts
    Mutant(
        "a write leaves what was read before it",
        "host/attempts.py",
        "            self.cache.drop_group(definition.group)\n",
        "",
        Promise.FRESH,
    ),
    Mutant(
        "nobody joins a call that is on its way",
        "host/attempts.py",
        "return None if key is None else self._in_flight.get(key)",
        "return None",
        Promise.SHARED,
    ),
    Mutant(
        "what ran into its limit is not recorded",
        "host/attempts.py",
        "        self._record(attempt, early)\n",
        "",
        Promise.RIGHTS,
    ),
    Mutant(
        "a breaker opens late",
        "tools/breaker.py",
        "threshold: int = attrs.field(default=5,",
        "threshold: int = attrs.field(default=9,",
        Promise.RIGHTS,
    ),
    Mutant(
        "a breaker closes after a second",
        "tools/breaker.py",
        "pause: float = attrs.field(default=10.0,",
        "pause: float = attrs.field(default=1.0,",
        Promise.RIGHTS,
    ),
    # -------------------------------------------------------------------- gate
    Mutant(
        "a grant covers everything",
        "tools/gate.py",
        "        return _matches_any(self.tools, _Named(definition, exposed))\n\n"
        "    def approves",
        "        return True\n\n    def approves",
        Promise.RIGHTS,
    ),
    Mutant(
        "a tool of the next tier is shown",
        "tools/gate.py",
        "if estimate.tier > tier:",
        "if estimate.tier > tier.slower():",
        Promise.RIGHTS,
    ),
    Mutant(
        "a server that is down is asked",
        "tools/gate.py",
        "if candidate.availability is Availability.DOWN or candidate.obstacle:",
        "if candidate.obstacle:",
        Promise.RIGHTS,
    ),
    Mutant(
        "a tool that does not fit is admitted",
        "tools/gate.py",
        "if estimate.seconds > remaining:",
        "if estimate.seconds > 2 * remaining:",
        Promise.RIGHTS,
    ),
    Mutant(
        "a fast turn asks for approvals",
        "tools/gate.py",
        "if tier is Tier.FAST:  #",
        "if tier is None:  #",
        Promise.RIGHTS,
    ),
    Mutant(
        "a running turn gets what is new",
        "tools/gate.py",
        "if self.also is not None and not self.also.covers(definition, exposed):",
        "if self.also is None and not self.also:",
        Promise.RIGHTS,
    ),
    # ---------------------------------------------------------------- estimate
    Mutant(
        "a tool of which nothing is known is not deep",
        "tools/estimate.py",
        "limits.standard_threshold, Tier.DEEP",
        "limits.standard_threshold, Tier.STANDARD",
        Promise.RIGHTS,
    ),
    Mutant(
        "a floor is not kept",
        "tools/estimate.py",
        "    tier = max(tier, definition.min_tier)\n",
        "",
        Promise.RIGHTS,
    ),
    Mutant(
        "one sample is enough",
        "tools/estimate.py",
        "samples >= ENOUGH_SAMPLES:",
        "samples >= 1:",
        Promise.RIGHTS,
    ),
    # -------------------------------------------------------------- calibrator
    Mutant(
        "what is measured counts for nothing",
        "host/calibrator.py",
        "            self._measurements.record(listing.definition, sample)\n",
        "",
        Promise.RIGHTS,
        "tests/host/test_calibrator.py",
    ),
    # ---------------------------------------------------------------- cascaded
    Mutant(
        "a round is shown the whole budget",
        "npc/engines/cascaded.py",
        "    remaining = turn.tool_clock.remaining(trio.current_time())\n",
        "    remaining = turn.tool_clock.budget\n",
        Promise.BUDGET,
    ),
    Mutant(
        "each round has the whole budget",
        "npc/turn/tool_round.py",
        "deadline = clock.start(begun)",
        "deadline = clock.start(begun) + clock.spent(begun)",
        Promise.BUDGET,
    ),
    Mutant(
        "calls are run in the last round",
        "npc/turn/tool_round.py",
        "max_calls=0 if self.last else turn.config.max_calls,",
        "max_calls=turn.config.max_calls,",
        Promise.RIGHTS,
    ),
    Mutant(
        "outcomes are told in the order in which they came",
        "npc/turn/tool_round.py",
        "        outcomes.insert(len(outcomes) + 1 - after, outcome)\n",
        "        outcomes.append(outcome)\n",
        Promise.ONE_OUTCOME,
    ),
    Mutant(
        "a model that says nothing is waited for without end",
        "npc/engines/cascaded.py",
        "patience.wait_for(ErrorKind.FIRST_TOKEN, turn.config.first_token)\n"
        "            async with stream",
        "async with stream",
        Promise.ENDS,
    ),
    Mutant(
        "a model's time is only that of one answer",
        "npc/patience.py",
        "self.scope.deadline = min(now + limit, end)",
        "self.scope.deadline = now + limit",
        Promise.MODEL,
    ),
    # ----------------------------------------------------------------- session
    Mutant(
        "an NPC's ceiling is not kept",
        "npc/turn/tiers.py",
        "return min(self.ceiling(settings), selection.tier), selection",
        "return selection.tier, selection",
        Promise.TIER,
    ),
    Mutant(
        "an elevation does not end",
        "npc/turn/memory.py",
        "            if now < until:\n",
        "            if until:\n",
        Promise.TIER,
    ),
    Mutant(
        "a turn keeps the tier that its NPC lost",
        "npc/turn/state.py",
        "        self.tier = min(self.tier, ceiling)\n",
        "",
        Promise.RIGHTS,
        "tests/runtime/test_reload.py::test_a_demoted_npc_loses_its_slow_tools_in_the_middle_of_a_turn",
    ),
    Mutant(
        "a turn ends without a word",
        "npc/turn/runner.py",
        "            output.post(\n                TurnDone(",
        "            utterance.stream.post(\n                TurnDone(",
        Promise.ENDS,
    ),
    Mutant(
        "nobody who waits is ever answered",
        "npc/session/actor.py",
        "            if following is not None:\n",
        "            if following is not None and self._queue.waiting:\n",
        Promise.ENDS,
    ),
    Mutant(
        "an approval is waited for without end",
        "npc/approval.py",
        "            with trio.move_on_at(deadline):\n",
        "            with trio.CancelScope():\n",
        Promise.ENDS,
    ),
    Mutant(
        "a question is withdrawn without a word",
        "npc/approval.py",
        "                    question.settle(Decision.WITHDRAWN)\n"
        "                    tell(id_, question)\n",
        "                    del self._open[id_]\n",
        Promise.ENDS,
    ),
    Mutant(
        "FAST is no choice",
        "npc/selection.py",
        "if situation.override is not None:",
        "if situation.override:",
        Promise.TIER,
    ),
    Mutant(
        "a call is forgotten in the history, its answer is not",
        "npc/conversation.py",
        "            self._echoes.append(_echo(outcome.call))\n",
        "            self._echoes[:] = [_echo(outcome.call)]\n",
        Promise.WHOLE,
    ),
    Mutant(
        "a filler waits for calls that have ended",
        "npc/turn/tool_round.py",
        "            self._awaiting.ended(slot)\n",
        "            pass\n",
        Promise.FILLER,
    ),
    Mutant(
        "fillers are said as often as there is a moment for one",
        "npc/filler.py",
        "                say(text)\n                return\n",
        "                say(text)\n",
        Promise.FILLER,
        "tests/npc/test_filler.py",
    ),
    Mutant(
        "whoever plays is told twice to stop",
        "npc/turn/output.py",
        "            self._flushed = True\n",
        "",
        Promise.FLUSH,
    ),
    Mutant(
        "nobody is told to stop",
        "npc/turn/output.py",
        "            self.post(Flush(npc=self.npc, turn=self.turn, "
        "reason=utterance.reason))\n",
        "",
        Promise.FLUSH,
    ),
    Mutant(
        "text goes on after an interruption",
        "npc/turn/output.py",
        "        await trio.lowlevel.checkpoint_if_cancelled()\n",
        "",
        "an interruption stops output at once",
        "tests/npc/test_flush.py",
    ),
    Mutant(
        "a fast model is waited for as long as any other",
        "npc/engines/sentence_cascade.py",
        "            within=turn.config.opener,\n",
        "            within=turn.config.first_token,\n",
        "a slow fast model never delays a turn",
        "tests/npc/test_sentence_cascade.py",
    ),
    Mutant(
        "the opener is not told to whoever goes on",
        "npc/engines/sentence_cascade.py",
        "    await turn.say_at_once(round_, 0, opened.text)\n",
        "    await turn.write(opened.text)\n    await turn._said(opened.text, 0)\n",
        "opener and continuation are one message",
        "tests/npc/test_sentence_cascade.py",
    ),
    # --------------------------------------------------- connection and fleet
    Mutant(
        "a write is sent again when its answer is lost",
        "mcp/calls.py",
        "if not (self._again and self.request.repeatable):",
        "if not self._again:",
        Promise.ONCE,
    ),
    Mutant(
        "a call that was sent is told as never sent",
        "mcp/calls.py",
        "            raise lost from None",
        "            raise",
        "what was lost may have run",
        "tests/mcp/test_delivery.py",
    ),
    Mutant(
        "a server that is done leaves its call hanging",
        "mcp/calls.py",
        "        with trio.move_on_at(request.until):\n",
        "        with trio.CancelScope():\n",
        Promise.EFFECTS,
        "tests/mcp/test_delivery.py",
    ),
    Mutant(
        "what has failed is published as ready",
        "runtime/publisher.py",
        "ServerState.FAILED: Availability.DOWN,",
        "ServerState.FAILED: Availability.READY,",
        Promise.RIGHTS,
    ),
    Mutant(
        "a closed server keeps its tools",
        "mcp/fleet.py",
        "        self._publish(member.spec.name, ServerState.STOPPED, ())\n",
        "",
        "the tools of a server that was taken away are gone",
        "tests/mcp/test_fleet.py",
    ),
    # ------------------------------------------------------------- generations
    Mutant(
        "a reload does not wait for those who talk",
        "runtime/generations.py",
        "                await self.activity.quiet()\n",
        "                pass\n",
        Promise.OWN_SERVERS,
        "tests/runtime/test_reload.py::test_a_turn_ends_as_it_began_and_the_next_one_is_of_the_new_generation",
    ),
    Mutant(
        "what a server may not offer any more is offered",
        "runtime/generations.py",
        "                self.fleet.narrow(spec.name, spec.allow)\n",
        "",
        Promise.RIGHTS,
        "tests/runtime/test_reload.py",
    ),
    # ------------------------------------------------- whose turn, and one round
    Mutant(
        "whoever directs waits as a player does",
        "npc/turn_queue.py",
        "rank = Rank.DM if who.dm else min(",
        "rank = min(",
        "whoever directs is next",
        QUEUE,
    ),
    Mutant(
        "a speaker waits twice",
        "npc/turn_queue.py",
        "[*left, _Waiting(who, rank, since)]",
        "[*self._waiting, _Waiting(who, rank, since)]",
        "a speaker has one place",
        QUEUE,
    ),
    Mutant(
        "whoever goes on loses their place",
        "npc/turn_queue.py",
        "since = min([self._came, *(x.since for x in same)])",
        "since = self._came",
        "a speaker keeps their place",
        QUEUE,
    ),
    Mutant(
        "whoever leaves the queue ends the turn that runs",
        "npc/turn_queue.py",
        "        if self.running is not who:\n",
        "        if self.running is None:\n",
        "one at a time",
        QUEUE,
    ),
    Mutant(
        "a player interrupts the answer to another",
        "npc/turn_queue.py",
        " and who.speaker == earlier.speaker",
        "",
        "others wait",
        QUEUE,
    ),
    Mutant(
        "words that were replaced are forgotten",
        "npc/turn/memory.py",
        "for ended in (exchange, *self._superseded):",
        "for ended in (exchange,):",
        "everything that was said is remembered in its order",
        "tests/npc/test_session.py",
    ),
    Mutant(
        "the tool clock runs on when the calls have ended",
        "npc/turn/tool_round.py",
        "            clock.stop(ended)\n",
        "",
        "the tool clock runs while tools do",
        "tests/npc/test_cascaded.py",
    ),
    Mutant(
        "somebody is asked about a call that is refused whatever they say",
        "npc/turn/tool_round.py",
        "[call for call in self._possible if call.name in names]",
        "[*self._possible]",
        "nobody is asked in vain",
        "tests/npc/test_approval.py",
    ),
    Mutant(
        "a result that comes late is told to nobody",
        "npc/turn/tool_round.py",
        "            on_late=turn.keep_late,\n",
        "",
        "late results are told",
        "tests/npc/test_session.py",
    ),
    Mutant(
        "what a reload takes away before a turn is made is not",
        "npc/turn/runner.py",
        "        if self._narrower is not None:\n"
        "            self.narrow(self._narrower)\n",
        "",
        Promise.RIGHTS,
        "tests/npc/test_hot_context.py",
    ),
    Mutant(
        "a reload that came in a turn is lost when its session crashes",
        "npc/session/actor.py",
        "                        memory.go_over_to(settings)\n",
        "                        if not self._running:\n"
        "                            memory.go_over_to(settings)\n",
        "a crash costs one turn and nothing else",
        "tests/runtime/test_crashes.py",
    ),
    Mutant(
        "a microphone is not told that its session has crashed",
        "npc/session/actor.py",
        "            self.runner.engine.close()\n",
        "",
        "nobody speaks to a model that does not hear them",
        "tests/runtime/test_crashes.py",
    ),
    # ------------------------------------------------------------------- scene
    Mutant(
        "an NPC speaks though another one does",
        "npc/scene/actor.py",
        "        if now is None or now is place:\n",
        "        if now is not None:\n",
        "one NPC speaks at a time",
        SCENE,
    ),
    Mutant(
        "an NPC speaks while another one is still listened to",
        "npc/scene/actor.py",
        "            await place.told.wait()\n",
        "            pass\n",
        "one NPC speaks at a time",
        SCENE,
    ),
    Mutant(
        "a muted NPC goes on",
        "npc/scene/actor.py",
        '                self._end(place, f"{npc} is muted")\n',
        "                pass\n",
        "a muted NPC says nothing of its own",
        SCENE,
    ),
    Mutant(
        "NPCs overhear themselves",
        "npc/scene/actor.py",
        "        but = place.npc if place.begun or said.spoken else None\n",
        "        but = None\n",
        "what was said to others is what others were told",
        SCENE,
    ),
    Mutant(
        "an NPC overhears what was not delivered",
        "npc/turn/listener.py",
        "self._exchange.heard\n",
        "self._exchange.written\n",
        "only what was delivered is heard",
        "tests/npc/scene/test_scene.py",
    ),
    Mutant(
        "what was overheard is never forgotten",
        "npc/conversation.py",
        "        self.overheard.popleft()\n",
        "",
        "an NPC remembers so many lines of others",
        "tests/npc/test_overhearing.py",
    ),
    Mutant(
        "a template is formatted",
        "npc/templates.py",
        "_PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)",
        'text.format_map({**values, "": ""})',
        "invalid syntax falls back to the text",
        "tests/npc/test_templates.py",
    ),
    # --------------------------------------------------------------------- aio
    Mutant(
        "a result that comes together with a cancellation is lost",
        "aio/call.py",
        "                if self._found is not None:  # it came between the two\n",
        "                if False:\n",
        "every wait of asyncio for trio ends",
        CROSSINGS,
    ),
    Mutant(
        "whoever is cancelled does not wait for the end of the work",
        "aio/call.py",
        "            await outlast(self.ended)  # and raise the first, not the last\n",
        "",
        "nothing runs for a task that was cancelled",
        CROSSINGS,
    ),
    Mutant(
        "a wait for an event that is cancelled loses the event",
        "aio/items.py",
        "        if self._asked is None:\n            self._asked = self._bridge",
        "        if True:\n            self._asked = self._bridge",
        "every event arrives once, and in order",
        CROSSINGS,
    ),
    # ----------------------------------------------------------------- servers
    Mutant(
        "a difficulty of 0 is none",
        "builtin/duality/rules.py",
        "        if self.difficulty is None:\n            return False\n",
        "        if not self.difficulty:\n            return False\n",
        "a difficulty of 0 is one",
        DUALITY,
    ),
    Mutant(
        "dice of a seed favour low faces",
        "builtin/duality/chance.py",
        "for word in self._words if word < fair) % sides + 1\n",
        "for word in self._words if fair) % 2**13 % sides + 1\n",
        "a seed has the same fair dice everywhere",
        DUALITY,
    ),
    Mutant(
        "latencies are not told",
        "servers/wording.py",
        "    if definition.estimated_duration is not None:\n",
        "    if False:\n",
        "a second runtime knows a tool's tier before the first call",
        "tests/servers/test_dispatch.py",
    ),
    Mutant(
        "calls lose their time in line",
        "servers/dispatch.py",
        "else limit + IN_LINE\n",
        "else limit\n",
        "a tool's own time is its own",
        "tests/servers/test_dispatch.py",
    ),
)
