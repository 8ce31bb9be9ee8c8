// The conversation of the table page: what was said, as it is said, and read aloud by
// screen readers a sentence at a time. Nothing that anybody says becomes HTML.

import { h } from "./dom.mjs";

const MOST = 300; // entries that are shown
const KEPT = 120; // entries that a reload of this tab finds again
const MOST_ALOUD = 30;
const ENDS = {
  interrupted: "interrupted",
  failed: "no answer: it failed",
  shed: "turned away",
  broken: "interrupted: the connection broke",
};
const SHOWN = new Set([
  "TextDelta", "Sentence", "Filler", "Queued", "TierSelected", "Scripted", "Shed", "ToolStarted", "ToolFinished",
  "ApprovalNeeded", "ApprovalSettled", "FellBack", "SpeechFailed", "TurnDone",
]);
const BEGINS = new Set(["TierSelected", "Scripted", "Shed"]);

/** Say if the words of a sentence are in a text already, whatever the blanks. */
const has = (text, sentence) => text.replace(/\s+/g, "").includes(sentence.replace(/\s+/g, ""));

export class Talk {
  #list = document.getElementById("talk");
  #aloud = document.getElementById("aloud");
  #entries = [];
  #turns = new Map(); // the last entry of each NPC and turn
  #views = new Map();
  #dirty = new Set();
  #drawing = false;
  #saving = null;
  #key = null;

  /** Show what this tab has kept of a table. */
  open(session) {
    this.#save();
    this.#key = `glyphoxa.talk.${session}`;
    this.#entries = [];
    this.#turns.clear();
    this.#views.clear();
    this.#dirty.clear();
    this.#list.replaceChildren();
    let kept = [];
    try {
      kept = JSON.parse(sessionStorage.getItem(this.#key)) ?? [];
    } catch {
      // Nothing was kept, or it cannot be read: the table begins empty.
    }
    for (const entry of kept) this.#add(entry);
    this.broke();
  }

  /** Add what a person says; returns the entry. */
  said({ speaker, to, text, own }) {
    return this.#add({ kind: "said", who: speaker, to, text, own, note: "" });
  }

  /** Change an entry, and draw it anew. */
  change(entry, values) {
    Object.assign(entry, values);
    this.#touch(entry);
  }

  /** Take an event of a turn that others began. */
  take(event) {
    if (event.event === "Queued") return;
    const begins = BEGINS.has(event.event);
    if (begins && event.event !== "Scripted") {
      this.said({ speaker: event.speaker, to: event.npc, text: event.text });
      this.#say(`${event.speaker} to ${event.npc}: ${event.text}`);
    }
    this.takeOwn(event, begins, event.text);
  }

  /** Take an event of a turn that answers what this page `asked`. `begins`: the first. */
  takeOwn(event, begins, asked) {
    if (!SHOWN.has(event.event)) return;
    let entry = this.#turns.get(this.#of(event));
    // A session that ended and began anew counts its turns from 1 again.
    if (entry === undefined || (begins && entry.end)) {
      entry = this.#add({ kind: "answer", who: event.npc, turn: event.turn, asked, text: "", fillers: [], calls: [], notes: [], end: "" });
    } else if (entry.end === "broken") {
      entry.end = ""; // the connection is there again, and the turn of another goes on
    }
    this.#apply(entry, event);
    this.#touch(entry);
  }

  /** Add a turn as the service keeps it, unless it is here. */
  kept(turn) {
    const known = this.#turns.get(this.#of(turn));
    if (known !== undefined && known.asked === turn.text) {
      if (known.end === "broken" && turn.end) this.change(known, { end: turn.end, text: turn.answer ?? known.text });
      return;
    }
    if (!turn.end) return; // its events come
    if (turn.text) this.said({ speaker: turn.speaker, to: turn.npc, text: turn.text });
    this.#add({ kind: "answer", who: turn.npc, turn: turn.turn, asked: turn.text, text: turn.answer ?? "", fillers: [], calls: turn.calls ?? [], notes: [], end: turn.end });
  }

  /** Mark what runs as cut, since no more of it will come. */
  broke() {
    for (const entry of this.#entries) {
      if (entry.kind === "answer" && !entry.end) this.change(entry, { end: "broken" });
    }
  }

  #of(event) {
    return `${event.npc}#${event.turn}`;
  }

  #apply(entry, event) {
    switch (event.event) {
      case "TextDelta":
        entry.text += event.text;
        break;
      case "Sentence":
        if (!has(entry.text, event.text)) entry.text += `${entry.text ? " " : ""}${event.text}`;
        this.#say(`${event.npc}: ${event.text}`);
        break;
      case "Filler":
        entry.fillers.push(event.text);
        break;
      case "Queued":
        entry.notes = [`waits for its turn (${event.position})`];
        break;
      case "TierSelected":
        entry.notes = [event.tier];
        break;
      case "Scripted":
        entry.notes = event.text ? [`words of ${event.speaker}`] : [];
        break;
      case "ToolStarted":
        this.#call(entry, event.call.id, { tool: event.tool, status: "" });
        break;
      case "ToolFinished": {
        const { call, tool, status, elapsed_ms: ms } = event.outcome;
        this.#call(entry, call.id, { tool: tool || call.name, status, ms });
        break;
      }
      case "ApprovalNeeded":
        this.#call(entry, event.call.id, { tool: event.tool, status: "waits for the game master" });
        break;
      case "ApprovalSettled":
        this.#call(entry, event.call.id, { tool: event.tool, status: event.decision });
        break;
      case "FellBack":
        entry.notes.push(`fallback: ${event.reason.replaceAll("_", " ")}`);
        break;
      case "SpeechFailed":
        entry.notes.push("could not be spoken");
        break;
      case "TurnDone":
        entry.end = event.end;
        if (event.text && event.end === "completed") entry.text = event.text;
        if (ENDS[event.end]) this.#say(`${event.npc}: ${ENDS[event.end]}`);
        this.#later();
        break;
    }
  }

  #call(entry, id, values) {
    const found = entry.calls.find((x) => x.id === id);
    if (found) Object.assign(found, values);
    else entry.calls.push({ id, ...values });
  }

  #add(entry) {
    this.#entries.push(entry);
    if (entry.kind === "answer") this.#turns.set(`${entry.who}#${entry.turn}`, entry);
    while (this.#entries.length > MOST) {
      const oldest = this.#entries.shift();
      this.#views.get(oldest)?.item.remove();
      this.#views.delete(oldest);
      this.#dirty.delete(oldest);
      const key = `${oldest.who}#${oldest.turn}`;
      if (this.#turns.get(key) === oldest) this.#turns.delete(key);
    }
    this.#touch(entry);
    return entry;
  }

  // -- what is seen

  #touch(entry) {
    this.#dirty.add(entry);
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => this.#draw());
  }

  /** Draw what has changed since the last frame, all of it at once. */
  #draw() {
    this.#drawing = false;
    const list = this.#list;
    const below = list.scrollHeight - list.scrollTop - list.clientHeight;
    for (const entry of this.#dirty) {
      let view = this.#views.get(entry);
      if (view === undefined) {
        view = this.#view(entry);
        this.#views.set(entry, view);
        list.append(view.item);
      }
      this.#fill(view, entry);
    }
    this.#dirty.clear();
    if (below < 60) list.scrollTop = list.scrollHeight;
  }

  #view(entry) {
    const words = document.createTextNode("");
    const text = h("span", { dir: "auto" }, words);
    const who = h("b", { className: "who" }, entry.who + (entry.kind === "said" && entry.to ? ` to ${entry.to}` : ""));
    const fillers = h("span");
    const chips = h("div", { className: "chips" });
    const item = h("li", { className: entry.kind }, who, fillers, text, chips);
    return { item, text, words, fillers, chips, shown: "" };
  }

  #fill(view, entry) {
    if (view.words.data !== entry.text) view.words.data = entry.text;
    if (entry.kind === "said") {
      view.chips.replaceChildren(...(entry.note ? [h("span", { className: "chip bad" }, entry.note)] : []));
      return;
    }
    view.text.classList.toggle("live", !entry.end);
    const shown = JSON.stringify([entry.fillers, entry.calls, entry.notes, entry.end]);
    if (shown === view.shown) return;
    view.shown = shown;
    view.fillers.replaceChildren(...entry.fillers.map((x) => h("span", { className: "filler" }, `… ${x}`)));
    const end = ENDS[entry.end];
    view.chips.replaceChildren(
      ...entry.notes.map((x) => h("span", { className: "chip quiet" }, x)),
      ...entry.calls.map((x) => this.#chip(x)),
      ...(end ? [h("span", { className: "chip warn" }, end)] : []));
  }

  #chip({ tool, status, ms }) {
    const kind = status === "ok" || status === "approved" ? "good" : status ? "warn" : "runs";
    const took = ms === undefined ? "" : `, ${Math.round(ms)} ms`;
    return h("span", { className: `chip ${kind}` }, `${tool}: ${status ? `${status.replaceAll("_", " ")}${took}` : "runs"}`);
  }

  #say(text) {
    this.#aloud.append(h("p", {}, text));
    while (this.#aloud.children.length > MOST_ALOUD) this.#aloud.firstChild.remove();
  }

  // -- what a reload finds again

  #later() {
    this.#saving ??= setTimeout(() => this.#save(), 500);
  }

  #save() {
    clearTimeout(this.#saving);
    this.#saving = null;
    if (this.#key === null) return;
    try {
      sessionStorage.setItem(this.#key, JSON.stringify(this.#entries.slice(-KEPT)));
    } catch {
      // The browser keeps nothing, or no more: the page works without.
    }
  }

  constructor() {
    addEventListener("pagehide", () => this.#save());
  }
}
