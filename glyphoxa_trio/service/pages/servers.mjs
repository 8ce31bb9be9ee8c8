// The MCP servers: how each is, and adding, changing, testing and removing them.

import { ask, fill, h, many, ms, span, tell } from "./dom.mjs";
import { api, attempt } from "./service.mjs";

const STATES = { ready: "good", failed: "bad", stopped: "warn", restarting: "warn" };

/** The words of a command line; quotes keep blanks together. */
export function wordsOf(line) {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map((x) =>
    x[1] !== undefined ? x[1].replace(/\\(.)/g, "$1") : x[2] ?? x[3]);
}

/** Lines of NAME=VALUE, or "Name: value"; a name alone is taken out. */
export function pairsOf(text, mark) {
  const found = {};
  for (const line of text.split("\n").map((x) => x.trim()).filter(Boolean)) {
    const at = line.indexOf(mark);
    if (at < 0) found[line] = null;
    else found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

export class Servers {
  #list = document.getElementById("server-list");
  #revision = "";
  #tests = new Map();

  constructor() {
    document.getElementById("add-server").addEventListener("click", () => this.#edit(null, {}));
    document.getElementById("reload").addEventListener("click", () => this.#reload());
    document.getElementById("reload-now").addEventListener("click", () => this.#reload(true));
  }

  async load() {
    const found = await attempt("GET", "/api/servers");
    if (found === null) return;
    this.#revision = found.revision;
    document.getElementById("add-server").disabled = !found.editable;
    fill(this.#list, found.servers.length ? found.servers.map((row) => this.#card(row))
      : h("p", { className: "quiet" }, "There are no servers yet."));
  }

  #card(row) {
    const since = row.state_ms === undefined ? "" : ` for ${span(row.state_ms)}`;
    const test = this.#tests.get(row.name);
    return h("article", { className: "card server", "aria-label": row.name },
      h("h2", {}, row.name, h("span", { className: `chip ${STATES[row.state] ?? "quiet"}` }, `${row.state}${since}`),
        row.restarts ? h("span", { className: "chip warn" }, many(row.restarts, "restart")) : null),
      h("p", { className: "mono" }, row.target ?? row.transport),
      h("p", { className: "quiet" }, `${many(row.tools.length, "tool")}${row.tools.length ? `: ${row.tools.join(", ")}` : ""}`),
      row.held_back?.length ? h("p", { className: "warn" }, `held back until they are approved: ${row.held_back.join(", ")}`) : null,
      row.last_error ? h("p", { className: "bad" }, row.last_error) : null,
      row.stderr.length ? h("details", {}, h("summary", {}, "Its last lines"), h("pre", {}, row.stderr.join("\n"))) : null,
      test ? h("ul", { className: "steps" }, ...test.steps.map((x) => h("li", { className: x.ok ? "good" : "bad" },
        `${x.step}: ${ms(x.took_ms)}${x.text ? `: ${x.text}` : ""}`)), ...test.stderr.map((x) => h("li", { className: "mono" }, x))) : null,
      h("div", { className: "row" },
        h("button", { "data-key": `test-${row.name}`, onclick: (event) => this.#test(row.name, event.target) }, "Test"),
        row.editable ? [
          h("button", { "data-key": `change-${row.name}`, onclick: () => this.#edit(row.name, {}) }, "Change…"),
          h("button", { "data-key": `remove-${row.name}`, onclick: () => this.#remove(row.name) }, "Remove…"),
        ] : h("span", { className: "quiet" }, row.source ? `it is in ${row.source}: edit it there` : "")));
  }

  async #test(name, button) {
    button.disabled = true;
    button.textContent = "Testing…";
    const found = await attempt("POST", `/mcp/test/${encodeURIComponent(name)}`, {});
    if (found !== null) this.#tests.set(name, found);
    await this.load();
  }

  /** Ask for a server's entry, and send it; what was typed is not lost by a refusal. */
  async #edit(name, typed, why = "") {
    const revision = this.#revision; // that of the list which is seen now
    const field = (label, key, more = {}) => h("label", {}, label,
      h(more.tag ?? "input", { name: key, value: typed[key] ?? "", autocomplete: "off", spellcheck: false, ...more.props }));
    const keeps = name === null ? "" : " (empty: as it is)";
    const said = await ask(name === null ? "Add a server" : `Change ${name}`, h("div", {},
      why ? h("p", { className: "notice bad", role: "alert" }, why) : null,
      name === null ? field("Name", "name", { props: { required: true } }) : null,
      field(`Command${keeps}`, "command", { props: { placeholder: "npx -y @modelcontextprotocol/server-time" } }),
      field(`or URL${keeps}`, "url", { props: { type: "url", placeholder: "https://example.org/mcp" } }),
      field("Variables, a NAME=VALUE in each line; ${VAR} keeps a secret out of the file", "env", { tag: "textarea" }),
      field("Headers, for a URL, a Name: value in each line", "headers", { tag: "textarea" }),
      h("p", { className: "quiet" }, "It goes into the .mcp.json of the project. Values are never shown again.")),
    { ok: "Save and reload" });
    if (said === null) return;
    const body = { revision, env: pairsOf(said.env, "="), headers: pairsOf(said.headers, ":") };
    if (said.command.trim()) body.command = wordsOf(said.command);
    if (said.url.trim()) body.url = said.url.trim();
    if (name === null) body.name = said.name.trim();
    try {
      const path = name === null ? "/api/servers" : `/api/servers/${encodeURIComponent(name)}`;
      const done = await api(name === null ? "POST" : "PATCH", path, body);
      for (const place of done.plain_secrets ?? []) tell(`${place} is in the file as you wrote it; \${VAR} keeps a secret out`, "bad");
    } catch (error) {
      await this.load(); // another edit may have come first
      await this.#edit(name, said, error.message);
      return;
    }
    await this.#reload();
  }

  async #remove(name) {
    const revision = this.#revision;
    if ((await ask(`Remove ${name}?`, h("p", {}, "Its entry is taken out of the .mcp.json, and its tools are gone at once."), { ok: "Remove" })) === null) return;
    const query = new URLSearchParams({ revision });
    if (await attempt("DELETE", `/api/servers/${encodeURIComponent(name)}?${query}`)) await this.#reload();
    else await this.load();
  }

  async #reload(now = false) {
    const told = document.getElementById("reloading");
    told.textContent = now ? "reloading" : "reloading, when no turn runs";
    const done = await attempt("POST", "/api/reload", { now });
    told.textContent = "";
    if (done !== null) {
      const parts = ["added", "removed", "changed", "tried_again"].filter((x) => done[x].length)
        .map((x) => `${x.replace("_", " ")}: ${done[x].join(", ")}`);
      tell(`reloaded${parts.length ? `; ${parts.join("; ")}` : ", nothing changed"}`);
    }
    await this.load();
  }
}
