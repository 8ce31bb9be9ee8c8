// How much may be said to NPCs, so that nobody floods the service. Pure: time is given.

/** So many messages of each user in so many milliseconds, and so many answers at once. */
export class Limits {
  #now;
  #most;
  #within;
  #atOnce;
  #said = new Map(); // user: the times of what was said
  #told = new Map(); // user and what: when they were told so
  #running = 0;

  constructor({ now = Date.now, most = 10, within = 30_000, atOnce = 4 } = {}) {
    this.#now = now;
    this.#most = most;
    this.#within = within;
    this.#atOnce = atOnce;
  }

  /** Count a message; return "" if it may be said, and otherwise why not. */
  take(user) {
    const now = this.#now();
    const recent = (this.#said.get(user) ?? []).filter((at) => now - at < this.#within);
    this.#said.set(user, recent);
    if (recent.length >= this.#most) return "tooFast";
    recent.push(now);
    return this.#running >= this.#atOnce ? "busy" : "";
  }

  /** Return true if this user may be told this now, which is so once in a while. */
  mayTell(user, what) {
    const now = this.#now();
    const key = `${user} ${what}`;
    if (now - (this.#told.get(key) ?? -Infinity) < this.#within) return false;
    this.#told.set(key, now);
    return true;
  }

  /** Count an answer while it is given. */
  async during(work) {
    this.#running += 1;
    try {
      return await work();
    } finally {
      this.#running -= 1;
    }
  }
}
