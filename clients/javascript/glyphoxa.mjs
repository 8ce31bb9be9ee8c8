// Speak with NPCs of a `glyphoxa run`, from a browser or from Node.
//
//     const client = await connect("ws://127.0.0.1:8080/ws");
//     const answer = client.say("An ale!", { npc: "Bartok", speaker: "Aria" });
//     for await (const event of answer) {
//       if (event.event === "Sentence") console.log(event.text);
//     }
//
// An event is an object, as docs/gateway.md of glyphoxa describes it; a Speech has its
// audio as `pcm`, an ArrayBuffer. An event counts as delivered, and the NPC remembers it,
// once the next one is asked for. Without a build step, and without dependencies: Node has
// a WebSocket of its own from version 22 on; give another one as `WebSocket`.

const PROTOCOL = 1;
const ACK_EVERY = 16; // events; the service sends at most 64 without an ack

/** The service refused a request; `code` says how. */
export class GlyphoxaError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "GlyphoxaError";
    this.code = code;
  }
}

/** The connection is closed; `code` is the WebSocket's, `reason` its text. */
export class GlyphoxaClosed extends Error {
  constructor(code, reason) {
    super(`the connection is closed: ${reason || code}`);
    this.name = "GlyphoxaClosed";
    this.code = code;
    this.reason = reason;
  }
}

/** Open a connection; rejects with a GlyphoxaClosed if the service refuses it. */
export function connect(url, { token, WebSocket = globalThis.WebSocket } = {}) {
  if (!WebSocket) throw new Error("there is no WebSocket here: give one");
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      const hello = { type: "hello", protocol: PROTOCOL };
      if (token !== undefined) hello.token = token;
      socket.send(JSON.stringify(hello));
    };
    socket.onerror = () => reject(new GlyphoxaClosed(1006, "it cannot be opened"));
    socket.onclose = ({ code, reason }) => reject(new GlyphoxaClosed(code, reason));
    socket.onmessage = ({ data }) => resolve(new Client(socket, JSON.parse(data)));
  });
}

/** One connection. Made by `connect`. */
export class Client {
  #socket;
  #ids = 0;
  #streams = new Map();
  #waiting = new Map();
  #speeches = []; // whose audio is still to come
  #alive;
  #gone;

  constructor(socket, welcome) {
    this.#socket = socket;
    this.welcome = welcome;
    this.closed = null;
    /** Resolves to the GlyphoxaClosed once the connection is closed. */
    this.gone = new Promise((resolve) => (this.#gone = resolve));
    socket.onmessage = ({ data }) =>
      typeof data === "string" ? this.#take(JSON.parse(data)) : this.#hear(data);
    socket.onclose = ({ code, reason }) => this.#end(new GlyphoxaClosed(code, reason));
    socket.onerror = () => {}; // a close follows
    this.#alive = setInterval(
      () => this.closed === null && this.send({ type: "ping" }),
      (welcome.heartbeat_ms ?? 60000) / 3,
    );
    this.#alive.unref?.();
  }

  /** Open a session, or join it; resolves to its NPCs. */
  async join(session = "default", { campaign, players, variables } = {}) {
    const reply = await this.request("join", { session, campaign, players, variables });
    return reply.npcs;
  }

  /** Say something; iterate over the answer. Options are the fields of `say`. */
  say(text, options = {}) {
    return this.#begin({ type: "say", text, ...options });
  }

  /** Have an NPC say its greeting. */
  greet(npc, options = {}) {
    return this.#begin({ type: "greet", npc, ...options });
  }

  /** Have an NPC say these words, as the game master. */
  speakAs(npc, text, options = {}) {
    return this.#begin({ type: "speak_as", npc, text, ...options });
  }

  /** Open the microphone; iterate over the events of its turns. Once it is `accepted`,
   * its audio goes to `send`. */
  listen(rate, options = {}) {
    return this.#begin({ type: "listen", rate, ...options });
  }

  /** Watch all turns as they happen; iterate over their events. */
  watch(options = {}) {
    return this.#begin({ type: "watch", ...options });
  }

  /** Answer an ApprovalNeeded; resolves to false if it was no longer open. */
  async approve(question, yes, npc, session) {
    const reply = await this.request("approve", { question, yes, npc, session });
    return Boolean(reply.result);
  }

  /** Send any other request of the protocol; resolves to its answer. */
  request(type, fields = {}) {
    const id = this.#newId();
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      try {
        this.send({ type, id, ...fields });
      } catch (error) {
        this.#waiting.delete(id);
        reject(error);
      }
    });
  }

  /** Send a message as it is: an object, or audio of the microphone. */
  send(message) {
    if (this.closed !== null) throw this.closed;
    const binary = message instanceof ArrayBuffer || ArrayBuffer.isView(message);
    this.#socket.send(binary ? message : JSON.stringify(message));
  }

  /** Close the connection; what runs is interrupted. */
  close() {
    clearInterval(this.#alive);
    this.#socket.close(1000);
  }

  #newId() {
    this.#ids += 1;
    return `j${this.#ids}`;
  }

  #begin(message) {
    const id = this.#newId();
    const forget = () => this.#streams.delete(id);
    const answer = new Answer(this, id, message.type, forget);
    this.#streams.set(id, answer);
    this.send({ ...message, id });
    return answer;
  }

  #take(message) {
    const stream = this.#streams.get(message.id);
    const waiting = this.#waiting.get(message.id);
    if (message.type === "events") {
      for (const event of message.events) {
        if (event.event === "Speech" && event.bytes) this.#speeches.push(event);
        this.#streams.get(event.id)?._put(event);
      }
    } else if (stream !== undefined) {
      if (message.type === "accepted") {
        stream._accept();
      } else if (message.type === "error") {
        stream._end(new GlyphoxaError(message.code, message.message));
      } else if (message.type === "done") {
        stream._end(null);
      }
    } else if (waiting !== undefined) {
      this.#waiting.delete(message.id);
      if (message.type === "error") {
        waiting.reject(new GlyphoxaError(message.code, message.message));
      } else {
        waiting.resolve(message);
      }
    }
  }

  #hear(pcm) {
    const event = this.#speeches.shift();
    event.pcm = pcm;
    this.#streams.get(event.id)?._changed();
  }

  #end(closed) {
    clearInterval(this.#alive);
    this.closed = closed;
    for (const { reject } of this.#waiting.values()) reject(closed);
    this.#waiting.clear();
    for (const stream of this.#streams.values()) stream._end(closed);
    this.#gone(closed);
  }
}

/** The events of an utterance, of a microphone, or of a watch. Leaving the loop interrupts
 * the NPC. */
export class Answer {
  #client;
  #lasts; // longer than one turn
  #acks;
  #forget;
  #waiting = [];
  #wake = null;
  #ended = false;
  #accepted = false;
  #deciding = [];
  #error = null;
  #last = 0;
  #acked = 0;
  #played;

  constructor(client, id, type, forget) {
    this.#client = client;
    this.#lasts = type === "listen" || type === "watch";
    this.#acks = type !== "watch";
    this.#forget = forget;
    this.id = id;
    this.done = null; // the last event of an answer, once it has come
  }

  /** Wait until the service has accepted it; rejects if it does not. */
  async accepted() {
    if (!this.#accepted && !this.#ended) {
      await new Promise((resolve) => this.#deciding.push(resolve));
    }
    if (!this.#accepted && this.#error !== null) throw this.#error;
  }

  /** Interrupt the NPC, or close the microphone; the last events still come. */
  leave() {
    if (this.#client.closed === null) this.#client.send({ type: "leave", id: this.id });
  }

  /** Report how many milliseconds of the audio were played in all. From the first report
   * on, only what was played counts as delivered. */
  played(ms) {
    this.#played = ms;
    this.#acknowledge();
  }

  /** Hear the rest; resolves to the last event. */
  async finish() {
    for await (const _ of this);
    return this.done;
  }

  async *[Symbol.asyncIterator]() {
    try {
      while (this.done === null) {
        const behind = this.#last - this.#acked;
        if (behind && (!this.#ready || behind >= ACK_EVERY)) this.#acknowledge();
        while (!this.#ready && !this.#ended) {
          await new Promise((resolve) => (this.#wake = resolve));
        }
        if (!this.#ready) {
          if (this.#error !== null) throw this.#error;
          return;
        }
        const event = this.#waiting.shift();
        this.#last = event.n;
        if (event.event === "Flush") this.#played = undefined; // counts from 0 again
        if (event.event === "TurnDone" && !this.#lasts) this.done = event;
        yield event;
      }
    } finally {
      if (this.done !== null) this.#acknowledge();
      else if (!this.#ended) this.leave();
      this.#forget();
    }
  }

  get #ready() {
    const first = this.#waiting[0];
    if (first === undefined) return false;
    return first.event !== "Speech" || !first.bytes || first.pcm !== undefined;
  }

  #acknowledge() {
    if (this.#client.closed !== null || !this.#acks) return;
    this.#acked = this.#last;
    const ack = { type: "ack", id: this.id, n: this.#last };
    if (this.#played !== undefined) ack.played_ms = this.#played;
    this.#client.send(ack);
  }

  _put(event) {
    this.#waiting.push(event);
    this._changed();
  }

  _changed() {
    this.#wake?.();
  }

  _accept() {
    this.#accepted = true;
    for (const decided of this.#deciding.splice(0)) decided();
  }

  _end(error) {
    this.#ended = true;
    this.#error = error;
    for (const decided of this.#deciding.splice(0)) decided();
    this._changed();
  }
}
