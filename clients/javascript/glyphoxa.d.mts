/** An event of a turn; docs/gateway.md has the fields of each kind. */
export interface TurnEvent {
  id: string;
  n: number;
  event: string;
  npc: string;
  turn: number;
  session?: string;
  pcm?: ArrayBuffer;
  [field: string]: unknown;
}

export interface NpcInfo {
  name: string;
  tier: "fast" | "standard" | "deep";
}

export interface To {
  session?: string;
  npc?: string;
  scene?: string[];
  speaker?: string;
}

export interface SayOptions extends To {
  to?: string;
  tier?: "fast" | "standard" | "deep";
  remaining_ms?: number;
  voiced?: boolean;
}

export class GlyphoxaError extends Error {
  readonly code: string;
}

export class GlyphoxaClosed extends Error {
  readonly code: number;
  readonly reason: string;
}

export class Answer implements AsyncIterable<TurnEvent> {
  readonly id: string;
  readonly done: TurnEvent | null;
  accepted(): Promise<void>;
  leave(): void;
  played(ms: number): void;
  finish(): Promise<TurnEvent | null>;
  [Symbol.asyncIterator](): AsyncIterator<TurnEvent>;
}

export class Client {
  readonly welcome: { role: string; session?: string; version: string };
  readonly closed: GlyphoxaClosed | null;
  readonly gone: Promise<GlyphoxaClosed>;
  join(
    session?: string,
    options?: {
      campaign?: string;
      players?: Record<string, string>;
      variables?: Record<string, string | null>;
    },
  ): Promise<NpcInfo[]>;
  say(text: string, options?: SayOptions): Answer;
  greet(npc: string, options?: To): Answer;
  speakAs(npc: string, text: string, options?: To): Answer;
  listen(rate: number, options?: To): Answer;
  watch(options?: { session?: string; deltas?: boolean }): Answer;
  approve(question: string, yes: boolean, npc: string, session?: string): Promise<boolean>;
  request(type: string, fields?: Record<string, unknown>): Promise<Record<string, unknown>>;
  send(message: object | ArrayBuffer | ArrayBufferView): void;
  close(): void;
}

export function connect(
  url: string,
  options?: { token?: string; WebSocket?: unknown },
): Promise<Client>;
