// A bard: an MCP server in another language, Node 18 or later, without a package.
//
//     node docs/examples/servers/songs.mjs
//
// What makes it a good server for NPCs is three things that any language can do:
//
// * `_meta` says how long a tool takes: a runtime knows its tier before the first call.
// * A call says in its own `_meta` how long somebody waits (`glyphoxa/remaining_ms`):
//   the song is as long as there is time for.
// * A call that nobody waits for any more (`notifications/cancelled`) ends at once.

import { createInterface } from "node:readline";

const VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const VERSE_MS = 200; // what one verse takes
const MARGIN_MS = 50; // kept back for the way of the answer

const SONGS = {
  merry: "The Miller's Goat",
  sad: "Three Lanterns Out at Sea",
  brave: "Hold the Bridge Till Morning",
};

const TOOLS = [
  {
    name: "recall_song",
    title: "Recall a song",
    description: "The name of a song for a mood.",
    inputSchema: {
      type: "object",
      properties: { mood: { type: "string", enum: Object.keys(SONGS) } },
      required: ["mood"],
    },
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    _meta: { "glyphoxa/estimated_duration_ms": 5, "glyphoxa/cacheable_seconds": 600 },
  },
  {
    name: "compose_song",
    title: "Compose a song",
    description: "Verses about a theme, as many as there is time for, at most four.",
    inputSchema: {
      type: "object",
      properties: { theme: { type: "string", minLength: 1 } },
      required: ["theme"],
    },
    annotations: { readOnlyHint: true, idempotentHint: false, openWorldHint: false },
    _meta: {
      "glyphoxa/estimated_duration_ms": 4 * VERSE_MS,
      "glyphoxa/max_duration_ms": 5000,
    },
  },
];

const running = new Map(); // calls that somebody waits for, by the id of their request

function send(message) {
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
}

function said(data) {
  return {
    content: [{ type: "text", text: JSON.stringify(data) }],
    structuredContent: data,
  };
}

function refused(text) {
  return { content: [{ type: "text", text }], isError: true };
}

async function compose(theme, remaining, signal) {
  const left = typeof remaining === "number" ? remaining - MARGIN_MS : Infinity;
  const count = Math.max(1, Math.min(4, Math.floor(left / VERSE_MS)));
  const verses = [];
  while (verses.length < count && !signal.aborted) {
    await new Promise((done) => {
      const timer = setTimeout(done, VERSE_MS);
      signal.addEventListener("abort", () => (clearTimeout(timer), done()));
    });
    verses.push(`Of ${theme} I sing, verse ${verses.length + 1}.`);
  }
  return said({ theme, verses });
}

async function call({ name, arguments: given = {}, _meta = {} }, signal) {
  switch (name) {
    case "recall_song":
      if (!Object.hasOwn(SONGS, given.mood)) {
        return refused(`mood must be one of ${Object.keys(SONGS).join(", ")}`);
      }
      return said({ mood: given.mood, song: SONGS[given.mood] });
    case "compose_song":
      if (typeof given.theme !== "string" || given.theme === "") {
        return refused("theme must be a text that is not empty");
      }
      return compose(given.theme, _meta["glyphoxa/remaining_ms"], signal);
    default:
      throw { code: -32602, message: `Unknown tool: ${name}` };
  }
}

async function answer(method, params, signal) {
  switch (method) {
    case "initialize": {
      const wanted = params.protocolVersion;
      return {
        protocolVersion: VERSIONS.includes(wanted) ? wanted : VERSIONS[0],
        capabilities: { tools: {} },
        serverInfo: { name: "songs", version: "1.0.0" },
      };
    }
    case "ping":
      return {};
    case "tools/list":
      return { tools: TOOLS };
    case "tools/call":
      return call(params, signal);
    default:
      throw { code: -32601, message: "Method not found" };
  }
}

async function take(line) {
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    return send({ id: null, error: { code: -32700, message: "Parse error" } });
  }
  const { id, method, params = {} } = message;
  if (method === "notifications/cancelled") running.get(params.requestId)?.abort();
  if (id === undefined || method === undefined) return;
  const stop = new AbortController();
  running.set(id, stop);
  try {
    const result = await answer(method, params, stop.signal);
    if (!stop.signal.aborted) send({ id, result });
  } catch ({ code = -32603, message: why = "Internal error" }) {
    send({ id, error: { code, message: why } });
  } finally {
    running.delete(id);
  }
}

// The end of stdin is the end of the session: nobody waits for what still runs.
createInterface({ input: process.stdin })
  .on("line", take)
  .on("close", () => running.forEach((stop) => stop.abort()));
