// The service as its pages use it: requests over HTTP, one login, one WebSocket.

import { ask, h, tell } from "./dom.mjs";
import { GlyphoxaClosed, connect } from "./glyphoxa.mjs";

/** A request failed; `code` is that of the service. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function send(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new ApiError(0, "gone", "the service does not answer");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new ApiError(response.status, answer.code ?? "", answer.error ?? response.statusText);
  }
  return answer;
}

/** Send a request; where its right is missing, ask for a token and try once more. */
export async function api(method, path, body) {
  const rights = changes;
  try {
    return await send(method, path, body);
  } catch (error) {
    const refused = error.status === 401 || (error.status === 403 && error.code === "forbidden");
    // Where the person has just logged out, the page had asked with the rights of before.
    if (!refused || leaving || rights !== changes) throw error;
    if (!(await logIn(error.message))) throw error;
    return send(method, path, body);
  }
}

export const get = (path) => api("GET", path);

/** As `api`, and a failure is told in place of raised; resolves to null then. */
export async function attempt(method, path, body) {
  try {
    return await api(method, path, body);
  } catch (error) {
    tell(error.message, "bad");
    return null;
  }
}

const listeners = new Set();

/** Call `listener` with the role of this page, now and when it changes. */
export async function onRole(listener) {
  listeners.add(listener);
  listener(await send("GET", "/api/me"));
}

async function roleChanged() {
  changes += 1;
  const me = await send("GET", "/api/me");
  for (const listener of listeners) listener(me);
  changes += 1; // what was asked for meanwhile had the old rights or the new ones
  socket?.close(); // and opens again, with the new rights
  wake?.();
}

let question = null; // the open question for a token: there is one at a time
let declined = false; // the person logged out or closed the question: they ask next
let leaving = false; // a logout is under way
let changes = 0; // grows when the rights of this page begin to change, and when they have

/** Ask for a token until it is right, or the question is closed.
 *
 * Who asks while the question is open gets the same answer: the page and a person may
 * both ask in one moment. */
export function logIn(why = "") {
  question ??= askForToken(why).finally(() => {
    question = null;
  });
  return question;
}

async function askForToken(why) {
  let told = why;
  for (;;) {
    const said = await ask("Token", h("div", {},
      told ? h("p", { className: "notice" }, told) : null,
      h("input", { hidden: true, autocomplete: "username", value: "token" }),
      h("label", {}, "The token that was printed at the start, or one of the token file",
        h("input", { type: "password", name: "token", required: true, autocomplete: "current-password" }))),
    { ok: "Log in" });
    if (said === null) {
      declined = true;
      return false;
    }
    try {
      await send("POST", "/api/login", { token: said.token.trim() });
    } catch (error) {
      told = error.message;
      continue;
    }
    declined = false;
    await roleChanged();
    return true;
  }
}

export async function logOut() {
  // Before the service closes the connection: the page would open it again, with what
  // the old rights allow, be refused, and ask for a token by itself.
  declined = leaving = true;
  try {
    await send("POST", "/api/logout", {});
    await roleChanged();
  } finally {
    leaving = false;
  }
}

let socket = null;
let wake = null; // has a connection tried again that waits for a token

/** The open connection, or null. */
export const client = () => socket;

/** Keep a connection, and watch all turns with it.
 *
 * `opened(client)` is called after each opening, when anything may have been missed;
 * `seen(event)` with each event; `state(text)` with the state of the connection. */
export function keepWatching({ options = {}, opened, seen, state }) {
  return keepConnected({
    state,
    async work(client) {
      const stream = client.watch(options);
      await opened?.(client);
      for await (const event of stream) seen(event);
    },
  });
}

/** Keep a connection: open it again whenever it breaks, with a pause that grows.
 *
 * Where it needs a token it asks for one, except after a logout: then the person asks.
 * `work(client)` is called after each opening; when it ends or fails, the next one is
 * opened. `state(text)` is called with the state of the connection. */
export async function keepConnected({ work, state }) {
  const url = new URL("/ws", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  let pause = 250;
  for (;;) {
    const rights = changes;
    try {
      socket = await connect(url.href);
      pause = 250;
      state("connected");
      await work(socket);
    } catch (error) {
      if (error.code === "forbidden" || error.code === 4001) {
        socket?.close();
        socket = null;
        if (rights !== changes) continue; // what was refused had the rights of before
        state("needs a token");
        if (declined || !(await logIn("a token is needed"))) {
          await new Promise((go) => {
            wake = go;
            setTimeout(go, 30_000);
          });
        }
        continue;
      }
      if (!(error instanceof GlyphoxaClosed)) console.error(error);
    }
    socket = null;
    state("connecting");
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 5000);
  }
}
