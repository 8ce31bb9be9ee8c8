// The tools: how long they take, which tier that is, and why one is hidden; with the
// remedies that this page can carry out.

import { ask, fill, h, many, ms, tell } from "./dom.mjs";
import { attempt } from "./service.mjs";

const SVG = "http://www.w3.org/2000/svg";
const SCALE = Math.log10(10_000); // the picture ends at ten seconds
const CEILINGS = [500, 1500, 4000];

/** p50 and p99 on a logarithmic scale, with the ceilings of the tiers. */
function spark(row) {
  const x = (value) => (110 * Math.log10(Math.max(1, Math.min(10_000, value)))) / SCALE;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 110 20");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `p50 ${ms(row.p50_ms)}, p99 ${ms(row.p99_ms)}`);
  const draw = (name, values) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
    svg.append(element);
  };
  draw("rect", { x: 0, y: 3, width: x(row.p99_ms ?? row.p50_ms), height: 6, class: "p99" });
  draw("rect", { x: 0, y: 11, width: x(row.p50_ms), height: 6 });
  for (const at of CEILINGS) draw("line", { x1: x(at), x2: x(at), y1: 0, y2: 20 });
  return svg;
}

/** The rank of each tool by its p50 among those of its server. */
function ranks(tools) {
  const found = new Map();
  const groups = Map.groupBy ? Map.groupBy(tools, (x) => x.server)
    : tools.reduce((all, x) => all.set(x.server, [...(all.get(x.server) ?? []), x]), new Map());
  for (const group of groups.values()) {
    group.filter((x) => x.p50_ms !== null).sort((a, b) => a.p50_ms - b.p50_ms)
      .forEach((x, at) => found.set(x.tool, `${at + 1} of ${group.length}`));
  }
  return found;
}

export class Tools {
  #list = document.getElementById("tool-list");
  #npc = document.getElementById("tools-npc");
  #tier = document.getElementById("tools-tier");
  #told = document.getElementById("measuring");
  #button = document.getElementById("measure");

  constructor() {
    for (const select of [this.#npc, this.#tier]) select.addEventListener("change", () => this.load());
    this.#button.addEventListener("click", () => this.#measureAll());
  }

  npcs(names) {
    const chosen = this.#npc.value;
    fill(this.#npc, h("option", { value: "" }, "all NPCs"), ...names.map((x) => h("option", {}, x)));
    this.#npc.value = chosen;
  }

  async load() {
    const query = new URLSearchParams();
    if (this.#npc.value) query.set("npc", this.#npc.value);
    if (this.#tier.value) query.set("tier", this.#tier.value);
    const found = await attempt("GET", `/api/tools?${query}`);
    if (found === null) return;
    const rank = ranks(found.tools);
    fill(document.getElementById("tool-warnings"),
      ...found.warnings.slice(-5).map((x) => h("p", { className: "notice" }, x)));
    fill(this.#list, h("table", {},
      h("caption", { className: "quiet" }, `Tools in a ${found.tier} turn${found.npc ? ` for ${found.npc}` : ""}`),
      h("thead", {}, h("tr", {}, ...["Tool", "Shown", "Tier", "p50", "p99", "Latency", "Badge", "Rank", "Health", ""]
        .map((x) => h("th", { scope: "col" }, x)))),
      h("tbody", {}, ...found.tools.map((row) => this.#row(row, rank)))));
    if (!found.measuring) this.#button.disabled = false;
  }

  /** A tool was measured. */
  probed(event) {
    this.#told.textContent = event.done === event.total
      ? `measured ${many(event.total, "tool")}` : `measured ${event.done} of ${event.total}: ${event.key}`;
  }

  #row(row, rank) {
    const shown = row.hidden ? ["warn", "no"] : row.deferred ? ["", "in a line"] : ["good", "yes"];
    return h("tr", {},
      h("th", { scope: "row" }, h("span", { className: "mono" }, row.tool),
        row.hidden ? h("div", { className: "warn" }, row.hidden) : null),
      h("td", { className: shown[0] }, shown[1]),
      h("td", {}, row.tier),
      h("td", { className: "number" }, ms(row.p50_ms)),
      h("td", { className: "number" }, ms(row.p99_ms)),
      h("td", {}, row.p50_ms === null ? h("span", { className: "quiet" }, many(row.samples, "sample")) : spark(row)),
      h("td", {}, row.badge ? h("span", { className: "chip" }, row.badge) : ""),
      h("td", { className: "quiet" }, rank.get(row.tool) ?? ""),
      h("td", { className: row.health === "good" ? "good" : "bad" }, row.health),
      h("td", {}, h("button", { "data-key": `tool-${row.tool}`, onclick: () => this.#open(row) },
        row.waits_for_approval ? "Approve…" : row.hidden ? "Remedies…" : "Look…")));
  }

  async #open(row) {
    const found = await attempt("GET", `/api/tools/${encodeURIComponent(row.tool)}`);
    if (found === null) return;
    const measure = h("button", { type: "button", onclick: () => this.#measure(row) }, "Measure it");
    const body = h("div", {},
      h("p", {}, found.description),
      found.server ? h("p", { className: "mono" }, found.server) : null,
      found.difference.length ? [h("h3", {}, "What has changed since it was approved"), h("pre", {}, found.difference.join("\n"))] : null,
      found.stated.length ? h("ul", {}, ...found.stated.map((x) => h("li", {}, x))) : null,
      h("h3", {}, "For whom"),
      h("ul", {}, ...found.npcs.map((one) => h("li", {},
        h("b", {}, one.npc), `: ${one.text}`,
        one.remedies.length ? h("ul", {}, ...one.remedies.map((x) => h("li", {}, x.text))) : null))),
      h("details", {}, h("summary", {}, "Parameters"), h("pre", {}, JSON.stringify(found.parameters, null, 1))),
      h("p", {}, measure));
    const waits = row.waits_for_approval;
    const said = await ask(found.tool, body, { ok: waits ? "Approve it as it is" : "", cancel: "Close" });
    if (said === null || !waits) return;
    const path = `/api/tools/${encodeURIComponent(found.tool)}/approve`;
    if (await attempt("POST", path, { seen: found.fingerprint })) tell(`${found.tool} is approved as it is`);
    this.load();
  }

  async #measure(row) {
    const question = row.harmless ? "It is called a few times; it only reads."
      : "It is called a few times with made-up arguments, whatever it does.";
    if ((await ask(`Measure ${row.tool}?`, h("p", {}, question), { ok: "Measure" })) === null) return;
    await this.#calibrate([row.tool]);
  }

  async #measureAll() {
    const question = "All tools that only read are called a few times, one after the other.";
    if ((await ask("Measure again?", h("p", {}, question), { ok: "Measure" })) === null) return;
    await this.#calibrate([]);
  }

  async #calibrate(tools) {
    this.#button.disabled = true;
    this.#told.textContent = "measuring";
    const done = await attempt("POST", "/api/calibrate", { tools });
    this.#button.disabled = false;
    if (done === null) this.#told.textContent = "";
    else this.#told.textContent = done.measured.length ? `measured ${many(done.measured.length, "tool")}` : "there was no tool to measure";
    for (const one of done?.measured ?? []) if (one.note) tell(`${one.key}: ${one.note}`, "bad");
    this.load();
  }
}
