// The loudspeaker and the microphone of the table page.

let opening = null;

/** The audio of this page, opened when it is first needed: browsers want a gesture. */
async function audio() {
  opening ??= (async () => {
    const context = new AudioContext({ latencyHint: "interactive" });
    await context.audioWorklet.addModule("/pages/audio.mjs");
    return context;
  })();
  const context = await opening;
  if (context.state === "suspended") await context.resume();
  return context;
}

/** Plays what NPCs say, and tells what was really played. */
export class Loudspeaker {
  #node = null;
  #latency = 0; // milliseconds between the audio thread and the air
  #sources = new Map(); // by name: {id, played, ended}
  #ids = 0; // a source that was flushed goes on under another id, so that it counts anew
  #last = null; // what was asked for is done in order, also while the audio opens

  #do(message) {
    const work = () => this.#node.port.postMessage(message);
    this.#last = (this.#last ?? this.#open()).then(work).catch((error) => console.warn(error));
  }

  async #open() {
    const context = await audio();
    const node = new AudioWorkletNode(context, "glyphoxa-loudspeaker", { numberOfInputs: 0, outputChannelCount: [1] });
    node.connect(context.destination);
    this.#latency = 1000 * (context.baseLatency + (context.outputLatency || 0));
    node.port.onmessage = ({ data }) => this.#told(data);
    this.#node = node;
  }

  /** Play a piece of a source; `played(ms)` is called as its audio is heard. */
  play(name, pcm, rate, played) {
    let source = this.#sources.get(name);
    if (source === undefined) {
      source = { id: ++this.#ids, played, ended: false };
      this.#sources.set(name, source);
      played(0); // from now on, only what was played counts
    }
    this.#do({ play: source.id, pcm, rate });
  }

  /** Stop playing a source at once, and drop the rest of it. */
  flush(name) {
    const source = this.#sources.get(name);
    this.#sources.delete(name);
    if (source !== undefined) this.#do({ flush: source.id });
  }

  /** No more audio of this source comes; what is left is played. */
  end(name) {
    const source = this.#sources.get(name);
    if (source !== undefined) source.ended = true;
  }

  /** Pause, or go on. */
  hold(held) {
    if (this.#node !== null) this.#do({ held });
  }

  #told({ id, played_ms: ms, left }) {
    // What the audio thread has rendered is in the air a little later.
    setTimeout(() => {
      const found = [...this.#sources].find(([, source]) => source.id === id);
      if (found === undefined) return; // flushed meanwhile
      const [name, source] = found;
      source.played(ms);
      if (source.ended && !left) this.flush(name);
    }, this.#latency);
  }
}

/** Why there is no microphone, in words that help. */
export function whyNoMicrophone(error) {
  if (!navigator.mediaDevices) {
    return "There is no microphone here: browsers allow one only on pages from this machine (http://localhost) or over TLS (https://). " +
      "Ask whoever runs the service for an address with https, or open the page on the machine of the service.";
  }
  switch (error?.name) {
    case "NotAllowedError":
      return "The browser does not let this page use the microphone. Allow it in the settings of the page, beside its address, and try again.";
    case "NotFoundError":
      return "No microphone is connected.";
    case "NotReadableError":
      return "Another program holds the microphone.";
  }
  return `The microphone cannot be used: ${error?.message ?? error}`;
}

/** The microphone, while it is on. Made by `openMicrophone`. */
class OpenMicrophone {
  #stream;
  #nodes;

  constructor(rate, stream, nodes) {
    this.rate = rate;
    this.#stream = stream;
    this.#nodes = nodes;
  }

  close() {
    for (const node of this.#nodes) node.disconnect();
    for (const track of this.#stream.getTracks()) track.stop();
  }
}

/** Open the microphone; `heard(pcm, level)` is called every 30 ms, `ended()` if it is
 * taken away. */
export async function openMicrophone(heard, ended) {
  if (!navigator.mediaDevices) throw new Error("none");
  const stream = await navigator.mediaDevices.getUserMedia({
    audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 },
  });
  const context = await audio();
  const from = context.createMediaStreamSource(stream);
  const node = new AudioWorkletNode(context, "glyphoxa-microphone", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
  node.port.onmessage = ({ data }) => heard(data.pcm, data.level);
  from.connect(node);
  stream.getTracks()[0].addEventListener("ended", ended);
  return new OpenMicrophone(context.sampleRate, stream, [from, node]);
}
