// One turn as a picture: model rounds, the tools beside each other, the ceiling of each
// fan-out, and in words what was cut, refused, cached or hidden, and why.

import { clock, h, many, ms } from "./dom.mjs";

const GONE = new Set(["timeout", "cancelled"]);
const REFUSED = new Set(["denied", "skipped", "unavailable", "invalid_arguments"]);

const callOf = (bar) => bar.call?.id ?? bar.outcome?.call.id;

/** The bars of a turn: what ran from when to when, in milliseconds since its beginning. */
export function barsOf(turn, now) {
  const events = turn.events;
  const zero = events[0].at_ms;
  const last = events.at(-1);
  const end = Math.max((turn.end === undefined ? now : last.at_ms) - zero, 1);
  const bars = [];
  const open = new Map(); // calls and questions that run
  let round = null; // the model's round that runs
  const close = (bar, at) => Object.assign(bar, { to: at });
  for (const event of events) {
    const at = event.at_ms - zero;
    switch (event.event) {
      case "ToolsShown":
        if (round) close(round, at);
        round = { kind: "model", name: `model, round ${event.round + 1}`, from: at, shown: event };
        bars.push(round);
        break;
      case "ToolStarted": {
        if (round) { close(round, at); round = null; }
        const bar = { kind: "tool", name: event.tool, from: at, call: event.call };
        open.set(event.call.id, bar);
        bars.push(bar);
        break;
      }
      case "ToolFinished": {
        const found = open.get(event.outcome.call.id);
        const bar = found ?? { kind: "tool", name: event.outcome.tool ?? event.outcome.call.name, from: at };
        if (!found) bars.push(bar);
        close(bar, at);
        bar.outcome = event.outcome;
        break;
      }
      case "ApprovalNeeded": {
        if (round) { close(round, at); round = null; }
        const bar = { kind: "wait", name: `approval: ${event.tool}`, from: at, question: event };
        open.set(event.question, bar);
        bars.push(bar);
        break;
      }
      case "ApprovalSettled": {
        const bar = open.get(event.question);
        if (bar) { close(bar, at); bar.decision = event.decision; }
        break;
      }
      case "FanOutDone": {
        if (round) { close(round, at); round = null; }
        const began = Math.min(at, ...bars.filter((x) => x.kind === "tool"
          && event.outcomes.some((y) => y.call.id === callOf(x))).map((x) => x.from));
        for (const outcome of event.outcomes) {
          let bar = bars.find((x) => x.kind === "tool" && callOf(x) === outcome.call.id);
          if (!bar) { // it never ran
            bar = { kind: "tool", name: outcome.tool ?? outcome.call.name, from: at, to: at };
            bars.push(bar);
          }
          bar.outcome = outcome;
          bar.ceiling = began + event.budget_ms;
        }
        break;
      }
      case "LateResult": {
        bars.push({ kind: "tool", name: `${event.outcome.tool} (late)`, from: at, to: at, outcome: event.outcome });
        break;
      }
      case "Sentence":
      case "TurnDone":
        if (round) {
          round.to = at;
          if (event.event === "TurnDone") round = null;
        }
        break;
      default:
    }
  }
  for (const bar of bars) bar.to ??= end;
  const ceilings = bars.map((bar) => bar.ceiling ?? 0);
  return { bars, end: Math.max(end, ...bars.map((bar) => bar.to)), ceiling: Math.max(0, ...ceilings) };
}

/** What became of a call, in words: [class, text]. */
export function outcomeInWords(outcome) {
  const unknown = outcome.effect === "unknown" ? "; whether it had its effect is unknown" : "";
  const what = outcome.message ? `: ${outcome.message}` : "";
  if (outcome.status === "ok") {
    if (outcome.cached) return ["", "answered from the cache"];
    const other = outcome.answered_by ? `, by ${outcome.answered_by}, which was asked as well and was faster` : "";
    const shared = outcome.shared ? ", shared with another call" : "";
    return ["good", `answered after ${ms(outcome.elapsed_ms)}${other}${shared}`];
  }
  if (outcome.status === "timeout") {
    return ["bad", `cut after ${ms(outcome.elapsed_ms)} by the ${outcome.limit ?? "turn"}'s limit${unknown}`];
  }
  if (outcome.status === "pending") return ["warn", `goes on after the turn, which waited ${ms(outcome.elapsed_ms)}`];
  if (REFUSED.has(outcome.status)) return ["warn", `not run, ${outcome.status.replaceAll("_", " ")}${what}`];
  return ["bad", `${outcome.status.replaceAll("_", " ")} after ${ms(outcome.elapsed_ms)}${what}${unknown}`];
}

function place(element, from, to, all) {
  element.style.left = `${(100 * from) / all}%`;
  if (to !== null) element.style.width = `${(100 * Math.max(0, to - from)) / all}%`;
  return element;
}

/** The whole detail of a turn. */
export function waterfall(turn, now) {
  const { bars, end, ceiling } = barsOf(turn, now);
  const all = Math.max(end, ceiling) * 1.04;
  const rows = bars.flatMap((bar) => {
    const gone = bar.outcome && GONE.has(bar.outcome.status);
    const kind = gone ? "cut" : bar.outcome?.cached ? "tool cached" : bar.kind === "model" ? "" : bar.kind;
    const time = h("span", { className: "time" }, ms(bar.to - bar.from));
    if ((bar.to / all) > 0.8) time.style.right = `${100 - (100 * bar.from) / all}%`;
    else time.style.left = `${(100 * bar.to) / all}%`;
    const track = h("div", { className: "track" },
      place(h("span", { className: `bar ${kind}` }), bar.from, bar.to, all), time,
      bar.ceiling ? place(h("span", { className: "ceiling", title: "the ceiling" }), bar.ceiling, null, all) : null);
    return [h("div", { className: "name" }, bar.name), track];
  });
  return h("div", {},
    h("div", { className: "waterfall", "aria-hidden": "true" }, rows),
    h("p", { className: "legend", "aria-hidden": "true" },
      ...[["", "model"], ["tool", "tool"], ["cut", "cut"], ["wait", "approval"]].map(([kind, name]) =>
        h("span", {}, h("i", { className: `bar ${kind}` }), name)),
      h("span", {}, h("i", { className: "ceiling" }), "ceiling")),
    h("h3", {}, "What happened"),
    h("ol", {}, story(turn).map(([kind, text]) => h("li", { className: kind }, text))));
}

/** The turn in sentences, each with a class. */
export function story(turn) {
  const told = [];
  const zero = turn.events[0].at_ms;
  const hidden = new Map();
  for (const event of turn.events) {
    const at = `${ms(event.at_ms - zero)}: `;
    switch (event.event) {
      case "TierSelected":
        told.push(["", `${event.selected} because of ${event.reason}` +
          (event.tier === event.selected ? "" : `, held to ${event.tier} by the NPC's ceiling`) +
          `; ${ms(event.budget_ms)} for tools`]);
        break;
      case "Queued": told.push(["quiet", `waits at position ${event.position}`]); break;
      case "Scripted": told.push(["", `given words, by ${event.speaker}; no model was asked`]); break;
      case "Shed": told.push(["bad", `turned away: ${event.reason}`]); break;
      case "ContextAdded":
        for (const line of event.lines) told.push(["quiet", `${at}added to the prompt: ${line}`]);
        for (const [name, why] of event.missed ?? []) told.push(["warn", `${at}left out of the prompt: ${name}: ${why}`]);
        break;
      case "ToolsShown":
        told.push(["", `${at}round ${event.round + 1} shows ${many(event.shown.length, "tool")}` +
          (event.shown.length ? ` (${event.shown.join(", ")})` : "") +
          `, ${ms(event.remaining_ms)} left` + (event.forbidden ? ", asked to answer in words" : "")]);
        for (const [name, no] of event.forbidden ? [] : event.hidden) {
          if (hidden.get(name) === no.text) continue; // said before
          hidden.set(name, no.text);
          told.push(["warn", `hidden: ${name}: ${no.text}${no.remedy ? `; ${no.remedy}` : ""}`]);
        }
        break;
      case "FanOutDone":
        for (const outcome of event.outcomes) {
          const [kind, text] = outcomeInWords(outcome);
          told.push([kind, `${at}${outcome.tool ?? outcome.call.name}(${outcome.call.arguments}) ${text}`]);
          if (outcome.status === "ok" && outcome.message) told.push(["quiet", `it said: ${outcome.message.slice(0, 400)}`]);
        }
        break;
      case "ApprovalSettled": told.push(["", `${at}the call of ${event.tool} was ${event.decision}`]); break;
      case "Filler": told.push(["quiet", `${at}said meanwhile: ${event.text}`]); break;
      case "ModelFailed": told.push(["bad", `${at}the model failed: ${event.kind}: ${event.detail}`]); break;
      case "ModelSwitched": told.push(["warn", `${at}${event.model} answers instead of ${event.instead_of}: ${event.reason}`]); break;
      case "EngineSwitched": told.push(["warn", `${at}${event.engine} instead of ${event.instead_of}: ${event.reason}`]); break;
      case "SpeechFailed": told.push(["warn", `${at}not spoken: ${event.detail}`]); break;
      case "FellBack": told.push(["warn", `${at}a fallback line was said: ${event.reason}`]); break;
      case "Flush": told.push(["warn", `${at}interrupted: ${event.reason}`]); break;
      case "LateResult": {
        const [kind, text] = outcomeInWords(event.outcome);
        told.push([kind, `${at}late, after the turn: ${event.outcome.tool} ${text}`]);
        break;
      }
      case "UsageReported":
        told.push(["quiet", `${at}${event.model}: ${many(event.input_tokens, "token")} in, ${event.output_tokens} out` +
          (event.cost === undefined ? "" : `, costs ${event.cost.toPrecision(3)}`)]);
        break;
      case "TurnKept": if (!event.kept) told.push(["bad", `lost to memory: ${event.error}`]); break;
      case "TurnDone":
        told.push([event.end === "completed" ? "good" : "warn",
          `${at}${event.end}: model ${ms(event.timings.model_ms)}, tools ${ms(event.timings.tools_ms)}, all ${ms(event.timings.total_ms)}` +
          (event.error ? `; ${event.error}` : "")]);
        break;
      default:
    }
  }
  return told;
}

/** The head of a turn's detail. */
export function head(turn) {
  return h("div", {},
    h("h2", {}, `${turn.npc}, turn ${turn.turn} `,
      turn.tier ? h("span", { className: "chip" }, turn.tier) : null),
    h("p", { className: "quiet" }, `${turn.session}${turn.tenant ? ` of ${turn.tenant}` : ""}, ${clock(turn.began_ms)}`),
    turn.text ? h("p", {}, h("b", {}, `${turn.speaker}: `), turn.text) : null,
    turn.answer ? h("p", {}, h("b", {}, `${turn.npc}: `), turn.answer) : null);
}
