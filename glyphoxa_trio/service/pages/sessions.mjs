// The sessions: who talks, what they cost, and which are set aside.

import { ask, fill, h, span } from "./dom.mjs";
import { attempt } from "./service.mjs";

export class Sessions {
  #list = document.getElementById("session-list");

  async load() {
    const found = await attempt("GET", "/api/sessions");
    if (found === null) return;
    fill(document.getElementById("known-sessions"), ...found.sessions.map((x) => h("option", { value: x.session })));
    if (!found.sessions.length) {
      fill(this.#list, h("p", { className: "quiet" }, "There are no sessions yet."));
      return;
    }
    fill(this.#list, h("table", {},
      h("thead", {}, h("tr", {}, ...["Session", "NPCs", "State", "Last used", "Tokens", "Cost", ""].map((x) => h("th", { scope: "col" }, x)))),
      h("tbody", {}, ...found.sessions.map((row) => h("tr", {},
        h("th", { scope: "row" }, row.session, row.tenant ? h("div", { className: "quiet" }, row.tenant) : null),
        h("td", {}, row.npcs.join(", ")),
        h("td", { className: row.talking.length ? "good" : "quiet" },
          row.talking.length ? `${row.talking.join(", ")} in a turn` : row.set_aside ? "set aside" : "live"),
        h("td", { className: "quiet" }, row.set_aside ? "" : `${span(row.unused_ms)} ago`),
        h("td", { className: "number" }, `${row.spent.input_tokens} in, ${row.spent.output_tokens} out`),
        h("td", { className: "number" }, row.spent.cost ? row.spent.cost.toPrecision(3) : "–"),
        h("td", {}, row.tenant ? "" : h("button", { "data-key": `end-${row.session}`, onclick: () => this.#end(row.session) }, "End…")))))));
  }

  async #end(session) {
    if ((await ask(`End ${session}?`, h("p", {}, "Whatever runs in it is interrupted, and its conversations are over."), { ok: "End it" })) === null) return;
    await attempt("DELETE", `/api/sessions/${encodeURIComponent(session)}`);
    await this.load();
  }
}
