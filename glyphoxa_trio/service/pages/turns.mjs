// The list of turns, which grows while they run, and the one that is chosen.

import { clock, fill, h, many, ms } from "./dom.mjs";
import { attempt } from "./service.mjs";
import { head, waterfall } from "./waterfall.mjs";

const MOST = 300;
const BAD_CALL = new Set(["timeout", "crashed", "unavailable", "skipped", "tool_error", "denied"]);

/** Whether the events of a turn that was read have one that comes by the watch as well. */
function has(events, event) {
  const same = (x) => x.at_ms === event.at_ms && x.event === event.event;
  return events.length > 0 && (events.at(-1).at_ms > event.at_ms || events.some(same));
}

export class Turns {
  #turns = new Map(); // by number; the latest comes last
  #rows = new Map();
  #changed = new Set();
  #chosen = null;
  #drawing = false;
  #list = document.getElementById("turn-list");
  #detail = document.getElementById("turn-detail");
  #body = h("tbody");
  #filters = ["session", "npc", "only"].map((x) => document.getElementById(`turns-${x}`));

  constructor() {
    this.#list.append(h("table", {}, h("thead", {}, h("tr", {},
      ...["When", "Who", "Said", "All", "End"].map((x) => h("th", { scope: "col" }, x)))), this.#body));
    for (const filter of this.#filters) filter.addEventListener("input", () => this.#all());
    this.#body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row) this.choose(row.dataset.number);
    });
    this.#body.addEventListener("keydown", (event) => {
      const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      const row = step && event.target.closest("tr")[step];
      if (!row) return;
      event.preventDefault();
      row.querySelector("button").focus();
    });
  }

  /** Read the list anew: turns may have been missed. */
  async load() {
    const found = await attempt("GET", `/api/turns?limit=${MOST}`);
    if (found === null) return;
    this.#turns = new Map(found.turns.reverse().map((x) => [String(x.number), { ...x, number: String(x.number) }]));
    this.#all();
    if (this.#chosen === null) return;
    if (this.#turns.has(this.#chosen)) this.choose(this.#chosen);
    else fill(this.#detail);
  }

  npcs(names) {
    const select = this.#filters[1];
    const chosen = select.value;
    fill(select, h("option", { value: "" }, "all"), ...names.map((x) => h("option", {}, x)));
    select.value = chosen;
  }

  /** Take an event of a turn that was just published. */
  seen(event) {
    if (!event.number) return;
    const number = String(event.number); // a cluster's have the name of the worker
    let turn = this.#turns.get(number);
    if (turn === undefined) {
      turn = { number, npc: event.npc, turn: event.turn, session: event.session ?? "default",
        tenant: event.tenant ?? "", began_ms: event.at_ms, events: [] };
      this.#turns.set(number, turn);
      if (this.#turns.size > MOST) this.#drop(this.#turns.keys().next().value);
    }
    if (turn.events && !has(turn.events, event)) turn.events.push(event);
    switch (event.event) {
      case "TierSelected": Object.assign(turn, { tier: event.tier, budget_ms: event.budget_ms, speaker: event.speaker, text: event.text }); break;
      case "Scripted": case "Shed": Object.assign(turn, { speaker: event.speaker, text: event.text }); break;
      case "TurnDone": Object.assign(turn, { end: event.end, answer: event.text, total_ms: event.timings.total_ms,
        calls: event.outcomes.map((x) => ({ tool: x.tool ?? x.call.name, status: x.status })) }); break;
      default:
    }
    this.#changed.add(number);
    if (!this.#drawing) {
      this.#drawing = true;
      requestAnimationFrame(() => this.#draw());
    }
  }

  /** Show one turn in detail. */
  async choose(number) {
    this.#mark(number);
    const turn = this.#turns.get(number);
    if (turn === undefined) return;
    if (turn.events === undefined) {
      const whole = await attempt("GET", `/api/turns/${number}`);
      if (whole === null || this.#chosen !== number) return;
      turn.events = whole.events;
    }
    this.#show(turn);
  }

  #mark(number) {
    this.#rows.get(this.#chosen)?.setAttribute("aria-selected", "false");
    this.#chosen = number;
    this.#rows.get(number)?.setAttribute("aria-selected", "true");
  }

  #show(turn) {
    if (!turn.events.length) return;
    fill(this.#detail, h("div", { className: "card" }, head(turn), waterfall(turn, Date.now()),
      turn.end ? h("p", {}, h("a", { href: `/api/turns/${turn.number}/events.jsonl`, download: "" }, "Download its events")) : null));
  }

  #draw() {
    this.#drawing = false;
    for (const number of this.#changed) {
      const turn = this.#turns.get(number);
      if (turn !== undefined) this.#put(turn);
    }
    const chosen = this.#changed.has(this.#chosen) ? this.#turns.get(this.#chosen) : undefined;
    this.#changed.clear();
    if (chosen?.events) this.#show(chosen);
    this.#count();
  }

  #all() {
    this.#rows.clear();
    this.#body.replaceChildren();
    for (const turn of this.#turns.values()) this.#put(turn);
    this.#count();
  }

  #put(turn) {
    const before = this.#rows.get(turn.number);
    if (!this.#wanted(turn)) {
      before?.remove();
      this.#rows.delete(turn.number);
      return;
    }
    const row = this.#row(turn);
    this.#rows.set(turn.number, row);
    if (before === undefined) {
      this.#body.prepend(row);
    } else {
      const focused = before.contains(document.activeElement);
      before.replaceWith(row);
      if (focused) row.querySelector("button").focus();
    }
  }

  #row(turn) {
    const bad = (turn.calls ?? []).filter((x) => BAD_CALL.has(x.status));
    const end = turn.end === undefined ? "running" : turn.end;
    const notes = bad.map((x) => `${x.tool} ${x.status.replaceAll("_", " ")}`);
    return h("tr", { "data-number": turn.number, "aria-selected": turn.number === this.#chosen },
      h("td", { className: "quiet short" }, clock(turn.began_ms)),
      h("td", {}, turn.npc, turn.session === "default" ? null : h("div", { className: "quiet" }, turn.session)),
      h("td", {}, h("button", { "data-key": `turn-${turn.number}` }, `${turn.speaker ?? ""}: ${(turn.text ?? "").slice(0, 120)}`),
        notes.length ? h("div", { className: "bad" }, notes.join(", ")) : null),
      h("td", { className: "number" }, turn.total_ms === undefined ? "" : ms(turn.total_ms)),
      h("td", { className: `short ${end === "completed" ? "good" : end === "running" ? "quiet" : "bad"}` }, end));
  }

  #wanted(turn) {
    const [session, npc, only] = this.#filters.map((x) => x.value.trim());
    if (session && turn.session !== session) return false;
    if (npc && turn.npc !== npc) return false;
    const calls = turn.calls ?? [];
    if (only === "tools") return calls.length > 0;
    if (only === "trouble") {
      return (turn.end !== undefined && turn.end !== "completed") || calls.some((x) => BAD_CALL.has(x.status));
    }
    return true;
  }

  #drop(number) {
    this.#turns.delete(number);
    this.#rows.get(number)?.remove();
    this.#rows.delete(number);
  }

  #count() {
    document.getElementById("turns-count").textContent = `${this.#rows.size} of ${many(this.#turns.size, "turn")}`;
  }
}
