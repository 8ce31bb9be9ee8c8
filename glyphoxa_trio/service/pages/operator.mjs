// The operator's page: its views, and what keeps them as the service is.

import { tabs } from "./dom.mjs";
import { attempt, keepWatching, logIn, logOut, onRole } from "./service.mjs";
import { Questions } from "./questions.mjs";
import { Servers } from "./servers.mjs";
import { Sessions } from "./sessions.mjs";
import { Tools } from "./tools.mjs";
import { Turns } from "./turns.mjs";

const views = { turns: new Turns(), tools: new Tools(), servers: new Servers(), sessions: new Sessions() };
const questions = new Questions();
const stale = new Set(Object.keys(views));
let shown = "turns";
let loading = null;

/** Load the view that is shown, if it is stale; at most twice a second. */
function refresh() {
  if (loading !== null || !stale.has(shown)) return;
  stale.delete(shown);
  const view = shown;
  loading = Promise.all([views[view].load(), new Promise((go) => setTimeout(go, 500))]).finally(() => {
    loading = null;
    refresh();
  });
}

async function npcs() {
  const found = await attempt("GET", "/api/npcs");
  if (found === null) return;
  const names = found.npcs.map((x) => x.name);
  views.turns.npcs(names);
  views.tools.npcs(names);
}

tabs(document.getElementById("tabs"), (name) => {
  shown = name;
  if (name !== "turns") stale.add(name);
  refresh();
});

const login = document.getElementById("login");
onRole((me) => {
  document.getElementById("role").textContent = me.role?.replace("_", " ") ?? "nobody";
  login.textContent = me.logged_in ? "Log out" : "Log in";
  login.onclick = me.logged_in ? logOut : () => logIn();
});

const CHANGES = { servers: ["servers"], tools: ["tools"], sessions: ["sessions"], config: ["servers", "tools"] };

keepWatching({
  async opened() {
    questions.clear();
    for (const name of Object.keys(views)) stale.add(name);
    await npcs();
    await views.turns.load();
    stale.delete("turns");
    refresh();
  },
  seen(event) {
    if (event.event === "StateChanged") {
      for (const what of event.what) for (const view of CHANGES[what]) stale.add(view);
      if (event.what.includes("config")) npcs();
      refresh();
    } else if (event.event === "Probed") {
      views.tools.probed(event);
    } else {
      views.turns.seen(event);
      questions.seen(event);
      if (event.event === "TurnDone" || event.event === "TierSelected") {
        stale.add("sessions");
        refresh();
      }
    }
  },
  state(text) {
    const state = document.getElementById("state");
    state.textContent = text;
    state.className = text === "connected" ? "good" : "warn";
  },
});
