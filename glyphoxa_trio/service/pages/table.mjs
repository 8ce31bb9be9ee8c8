// The table page: sit down, speak with NPCs by text and voice, and direct them.

import { fill, h, tell } from "./dom.mjs";
import { client, get, keepConnected, logIn, logOut, onRole } from "./service.mjs";
import { Directing } from "./directing.mjs";
import { Questions } from "./questions.mjs";
import { Talk } from "./talk.mjs";
import { VoiceLine } from "./voice_line.mjs";

const KEPT = "glyphoxa.table";
const HOLDS = new Set(["Hold", "Resume", "Flush"]);
const TYPING = 300; // milliseconds without a key after which the NPC is told the words so far
const at = (id) => document.getElementById(id);

const seat = { name: "", session: "", to: "", sound: true, ...kept() };
const asked = new URLSearchParams(location.search).get("session");
if (asked) seat.session = asked;

/** What the browser has kept of an earlier visit. */
function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

let me = { rights: [], session: null, speaker: null };
let npcs = [];
let seated = false;
let sit = null; // has a connection that waits for a table go on
const running = new Map(); // what of this page is being answered, with its milliseconds of audio
const left = new WeakSet(); // what was interrupted: no more of it is played
const awaited = []; // their words, until it is known which turns they are
const own = new Set(); // turns whose events come by a stream of their own

const talk = new Talk();
const line = at("line");
const questions = new Questions(line);
const voice = new VoiceLine({ seat, talk, stream, turnTo });
const directing = new Directing({ seat, speakAs, npcs: () => npcs });

const may = (right) => me.rights.includes(right);

function keep() {
  try {
    localStorage.setItem(KEPT, JSON.stringify(seat));
  } catch {
    // The browser keeps nothing: the next visit asks again.
  }
}

// -- who sits where

function sitDown() {
  if (me.session) seat.session = me.session;
  if (me.speaker) seat.name = me.speaker;
  const ready = Boolean(seat.name && seat.session);
  at("join").hidden = ready;
  at("table").hidden = !ready;
  at("change").hidden = !ready;
  at("seat").textContent = ready ? `${seat.name} at ${seat.session}` : "";
  if (!ready) return stand();
  keep();
  talk.open(seat.session);
  seated = true;
  if (sit !== null) sit();
  else client()?.close(); // and joins this table when it is open again
  line.focus();
}

/** Show the form with which one sits down. */
function stand() {
  seated = false;
  at("join").hidden = false;
  at("table").hidden = true;
  at("name").value = me.speaker ?? seat.name;
  at("name").disabled = Boolean(me.speaker);
  at("session").value = me.session ?? (seat.session || "default");
  at("session").disabled = Boolean(me.session);
  at("name").focus();
  if (may("read")) {
    get("/api/sessions").then((found) => fill(at("known-sessions"), ...found.sessions.map((x) => h("option", { value: x.session }))), () => {});
  }
}

at("join").addEventListener("submit", (event) => {
  event.preventDefault();
  seat.name = at("name").value.trim();
  seat.session = at("session").value.trim();
  sitDown();
});
at("change").addEventListener("click", stand);

const login = at("login");
onRole((found) => {
  const first = me.role === undefined;
  me = found;
  at("role").textContent = me.role?.replace("_", " ") ?? "nobody";
  login.textContent = me.logged_in ? "Log out" : "Log in";
  login.onclick = me.logged_in ? logOut : () => logIn();
  at("operator").hidden = !may("read");
  directing.show(may("direct"));
  const elsewhere = me.session && me.session !== seat.session;
  if (first || elsewhere || (me.speaker && me.speaker !== seat.name)) sitDown();
});

// -- to whom one speaks

function showNpcs() {
  const names = npcs.map((x) => x.name);
  if (!names.includes(seat.to)) seat.to = names.length === 1 ? names[0] : "";
  const options = names.length === 1 ? names : ["", ...names];
  fill(at("to"), h("legend", {}, "You speak to"), ...options.map((name) => h("label", {},
    h("input", { type: "radio", name: "to", value: name, checked: name === seat.to, "data-key": `to-${name}`, onchange: () => choose(name) }),
    name || "Everybody")));
}

function choose(name) {
  seat.to = name;
  keep();
  if (voice.on) turnTo();
}

/** Have the scene know whom this player speaks to; words that name another NPC go there. */
function turnTo() {
  if (seat.to) client()?.request("turn_to", { session: seat.session, npc: seat.to, speaker: seat.name }).catch(() => {});
}

// -- what is said

at("say").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = line.value.trim();
  if (!text) return;
  if (client() === null) return tell("not connected yet; try again in a moment", "bad");
  line.value = "";
  clearTimeout(typing);
  leaveAll();
  turnTo();
  const said = talk.said({ speaker: seat.name, to: seat.to, text, own: true });
  const tier = directing.takeTier();
  stream(client().say(text, { session: seat.session, speaker: seat.name, tier, voiced: seat.sound }), { text, said });
});

async function speakAs(npc, text) {
  const others = npcs.map((x) => x.name).filter((x) => x !== npc);
  const fields = { session: seat.session, speaker: seat.name };
  await stream(client().speakAs(npc, text, fields), { text });
  if (others.length) await client()?.request("overhear", { session: seat.session, scene: others, speaker: npc, text });
}

/** Show and play what comes of an utterance or of a microphone, until it is over. */
async function stream(answer, { text = null, said = null } = {}) {
  const lasts = text === null; // a microphone has many turns
  const source = answer.id;
  const begun = new Set();
  if (!lasts) awaited.push(text);
  running.set(answer, 0);
  at("stop").disabled = false;
  try {
    for await (const event of answer) {
      if (event.event === "Speech") {
        if (event.pcm) speech(answer, event);
        continue;
      }
      if (event.event === "Flush") {
        running.set(answer, 0);
        voice.loudspeaker.flush(source);
      }
      if (HOLDS.has(event.event)) voice.loudspeaker.hold(event.event === "Hold");
      if (lasts) voice.take(event);
      if (!event.turn || event.event === "Transcript") continue;
      const key = `${event.npc}#${event.turn}`;
      own.add(key);
      talk.takeOwn(event, !begun.has(key), text ?? undefined);
      if (lasts && event.event === "TurnDone") begun.delete(key);
      else begun.add(key);
    }
  } catch (error) {
    if (said !== null && error.name === "GlyphoxaError") talk.change(said, { note: error.message });
    else if (error.name === "GlyphoxaError") lasts ? voice.failed(error) : tell(error.message, "bad");
  } finally {
    voice.loudspeaker.end(source);
    running.delete(answer);
    if (!lasts) awaited.splice(awaited.indexOf(text), 1);
    at("stop").disabled = running.size === 0;
  }
}

/** Play a piece of an answer; where the NPCs are not to be heard, it counts as read. */
function speech(answer, { pcm, rate }) {
  running.set(answer, running.get(answer) + (1000 * pcm.byteLength) / 2 / rate);
  if (left.has(answer)) return;
  if (seat.sound) voice.loudspeaker.play(answer.id, pcm, rate, (ms) => answer.played(ms));
  else answer.played(running.get(answer));
}

/** Interrupt the answers to what this player has written. */
function leaveAll() {
  for (const answer of running.keys()) {
    voice.loudspeaker.flush(answer.id);
    if (voice.is(answer)) continue;
    left.add(answer);
    answer.leave();
  }
}

/** Interrupt what is said to this player. */
function interrupt() {
  leaveAll();
  voice.interrupt();
}

at("stop").addEventListener("click", () => {
  interrupt();
  line.focus();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) interrupt();
});

let typing = null;
line.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const text = line.value.trim();
    if (text.length > 3) client()?.request("hearing", { session: seat.session, speaker: seat.name, text }).catch(() => {});
  }, TYPING);
});

at("sound").checked = seat.sound;
at("sound").addEventListener("change", () => {
  seat.sound = at("sound").checked;
  for (const [answer, given] of seat.sound ? [] : running) {
    voice.loudspeaker.flush(answer.id);
    if (given) answer.played(given);
  }
  keep();
});

// -- the connection

/** Take an event of the table that is watched: of others, and of this page as well. */
function seen(event) {
  if (event.event === "StateChanged" || !event.turn) return;
  const key = `${event.npc}#${event.turn}`;
  if (may("direct")) {
    questions.seen(event);
    directing.seen(event);
  }
  if (event.text !== undefined && event.speaker !== undefined) {
    const mine = event.speaker === seat.name && (awaited.includes(event.text) || voice.on);
    if (mine) own.add(key);
    else own.delete(key); // that number was of an earlier session of this name
  }
  if (!own.has(key)) talk.take(event);
}

keepConnected({
  async work(socket) {
    questions.clear();
    if (!seated) await Promise.race([socket.gone, new Promise((go) => (sit = go))]);
    sit = null;
    if (socket.closed !== null) return;
    own.clear();
    npcs = await socket.join(seat.session);
    showNpcs();
    voice.connected();
    if (!may("read")) return void (await socket.gone);
    const watched = socket.watch({ session: seat.session, deltas: true });
    const found = await get(`/api/turns?limit=50&session=${encodeURIComponent(seat.session)}`);
    for (const turn of found.turns.reverse()) talk.kept(turn);
    if (may("direct")) directing.refresh();
    for await (const event of watched) seen(event);
  },
  state(text) {
    const state = at("state");
    state.textContent = text;
    state.className = text === "connected" ? "good" : "warn";
    if (text !== "connected") talk.broke();
  },
});
