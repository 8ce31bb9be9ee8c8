// The connection to the service, opened again when it breaks. Without Foundry.

const REFUSED = [4001, 4002]; // the token, the version: trying again changes nothing
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30_000;
const OPEN_WITHIN = 10_000;

/** Keeps one connection open until it is stopped.
 *
 * `open` makes a client of an {address, token}. `told` hears of it: `up(client)` each time,
 * which may take its time and fail; `down(error)` once for each outage; `refused(error)`
 * when it is given up. `sleep` waits some milliseconds, or until a signal is aborted. */
export class Connection {
  #open;
  #told;
  #sleep;
  #random;
  #stopping = null;
  #client = null;

  constructor({ open, told, sleep = wait, random = Math.random }) {
    this.#open = open;
    this.#told = told;
    this.#sleep = sleep;
    this.#random = random;
  }

  /** The client, while it is connected and ready; else null. */
  get client() {
    return this.#client?.closed === null ? this.#client : null;
  }

  /** Begin, with another address or token than before, or anew. */
  start(target) {
    this.stop();
    const stopping = new AbortController();
    this.#stopping = stopping;
    this.#keep(target, stopping.signal).catch((error) => this.#told.refused(error));
  }

  /** Close the connection, and open none. */
  stop() {
    this.#stopping?.abort();
    this.#stopping = null;
    this.#client?.close();
    this.#client = null;
  }

  async #keep(target, signal) {
    let pause = FIRST_WAIT;
    let down = false;
    while (!signal.aborted) {
      let client = null;
      let lost;
      try {
        client = await this.#opened(target, signal);
        if (signal.aborted) return client?.close();
        await this.#told.up(client);
        if (signal.aborted) return client.close();
        this.#client = client;
        [pause, down] = [FIRST_WAIT, false];
        lost = await client.gone;
      } catch (error) {
        client?.close();
        lost = error;
      }
      if (this.#client === client) this.#client = null;
      if (signal.aborted) return;
      const hopeless = REFUSED.includes(lost.code) || ["SyntaxError", "SecurityError"].includes(lost.name);
      if (hopeless) return this.#told.refused(lost);
      if (!down) this.#told.down(lost);
      down = true;
      await this.#sleep(pause * (0.5 + this.#random() / 2), signal);
      pause = Math.min(2 * pause, LONGEST_WAIT);
    }
  }

  /** A client; one that comes too late is closed. */
  async #opened(target, signal) {
    let late = false;
    const opening = this.#open(target).then((client) => {
      if (late) client.close();
      return client;
    });
    const enough = new AbortController();
    const end = AbortSignal.any([signal, enough.signal]);
    const patience = wait(OPEN_WITHIN, end).then(() => {
      late = true;
      throw new Error("it does not answer");
    });
    try {
      return await Promise.race([opening, patience]);
    } finally {
      enough.abort();
      opening.catch(() => {});
      patience.catch(() => {});
    }
  }
}

/** Wait; ends early, and quietly, when the signal is aborted. */
export function wait(ms, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}
