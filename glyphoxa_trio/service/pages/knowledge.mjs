// What NPCs know: facts that wait for the game master, what is known, and secrets.

import { ask, clock, fill, h, tell } from "./dom.mjs";
import { attempt } from "./service.mjs";

const PATIENCE = 300; // milliseconds between keys after which it is searched
const OFTEN = 1000; // milliseconds between two looks while turns are kept
const at = (id) => document.getElementById(id);

export class Knowledge {
  #seat;
  #panel = at("memory");
  #loading = 0;
  #waiting = null;

  constructor(seat) {
    this.#seat = seat;
    this.#panel.addEventListener("toggle", () => this.stale());
    at("knower").addEventListener("change", () => this.stale());
    let timer = null;
    at("memory-words").addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.stale(), PATIENCE);
    });
  }

  /** The NPCs of the table. */
  npcs(names) {
    const chosen = at("knower").value;
    fill(at("knower"), h("option", { value: "" }, "all of the campaign"), ...names.map((x) => h("option", { selected: x === chosen }, x)));
    this.stale();
  }

  /** Something may have changed; more may follow. */
  soon() {
    this.#waiting ??= setTimeout(() => this.stale(), OFTEN);
  }

  /** Load it anew, if it is shown. */
  async stale() {
    clearTimeout(this.#waiting);
    this.#waiting = null;
    if (!this.#panel.open) return;
    const number = ++this.#loading;
    const query = new URLSearchParams({ session: this.#seat.session });
    if (at("knower").value) query.set("npc", at("knower").value);
    if (at("memory-words").value.trim()) query.set("words", at("memory-words").value.trim());
    const found = await attempt("GET", `/api/memory?${query}`);
    if (found !== null && number === this.#loading) this.#show(found);
  }

  #show(found) {
    const told = at("memory-told");
    if (!found.kept) {
      told.textContent = found.remedy;
      fill(at("facts"));
      return;
    }
    const of = found.npc ?? "the campaign";
    const waiting = found.facts.filter((x) => x.waits);
    const known = found.facts.filter((x) => x.known && !x.waits);
    const hidden = found.facts.filter((x) => !x.waits && (found.npc ? !x.known && x.secret : x.secret));
    const secrets = found.secrets.filter((x) => !found.npc || !x.known);
    const shown = found.npc ? known : known.filter((x) => !x.secret);
    told.textContent = `Campaign ${found.campaign}${found.more ? ": only the newest are shown" : ""}`;
    fill(at("facts"),
      h("h3", {}, `Waits for your word (${waiting.length})`), ...waiting.map((x) => this.#fact(x)),
      h("h3", {}, `Known to ${of} (${shown.length})`), ...shown.map((x) => this.#fact(x)),
      h("h3", {}, `Secret${found.npc ? ` from ${of}` : "s"} (${hidden.length + secrets.length})`),
      ...hidden.map((x) => this.#fact(x)), ...secrets.map((x) => this.#secret(x)));
  }

  #fact(row) {
    const about = row.about.length ? `, about ${row.about.join(", ")}` : "";
    const when = row.at_ms ? `, ${new Date(row.at_ms).toLocaleDateString()} ${clock(row.at_ms)}` : "";
    const button = (text, work) => h("button", { "data-key": `${text}-${row.fact}`, "aria-label": `${text}: ${row.text}`, onclick: work }, text);
    const judge = (verdict) => () => this.#change("judge", { fact: row.fact, verdict });
    const choices = row.waits
      ? [button("Confirm", judge("accept")), button("Correct", () => this.#correct(row)), button("Keep secret", judge("secret")), button("Reject", judge("reject"))]
      : [button("Correct", () => this.#correct(row)),
         row.secret ? button("Reveal", () => this.#change("reveal", { fact: row.fact })) : button("Keep secret", judge("secret")),
         button("Forget", () => this.#forget(row))];
    return h("div", { className: "fact" },
      h("div", {}, row.text),
      h("div", { className: "quiet" }, `${row.source}${about}; known to ${row.known_to}${when}`),
      h("div", { className: "row" }, ...choices));
  }

  #secret(row) {
    return h("div", { className: "fact" },
      h("div", {}, h("b", {}, row.name), ` (${row.kind})`, row.summary ? `: ${row.summary}` : ""),
      h("div", { className: "quiet" }, `known to ${row.known_to}`),
      h("div", { className: "row" }, h("button", { "data-key": `Reveal-${row.entity}`, "aria-label": `Reveal: ${row.name}`, onclick: () => this.#change("reveal", { entity: row.entity }) }, "Reveal")));
  }

  async #correct(row) {
    const text = h("textarea", { name: "text", rows: 3, required: true, maxLength: 4000, value: row.text });
    const said = await ask("Correct a fact", h("label", {}, "What is true", text), { ok: "Correct it" });
    if (said !== null && said.text.trim()) await this.#change("correct", { fact: row.fact, text: said.text.trim() });
  }

  async #forget(row) {
    const sure = await ask("Forget a fact?", h("p", {}, row.text), { ok: "Forget it" });
    if (sure !== null) await this.#change("forget", { fact: row.fact });
  }

  async #change(what, body) {
    const done = await attempt("POST", `/api/memory/${what}`, { session: this.#seat.session, ...body });
    if (done !== null) tell(what === "forget" ? "forgotten" : "noted");
    await this.stale();
    if (document.activeElement === document.body) this.#panel.querySelector("summary").focus();
  }
}
