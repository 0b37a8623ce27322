// Answers come from one of two sources: data inside the page (a report on disk), or the API of a server.
import { useEffect, useRef, useState } from "preact/hooks";
import { revision } from "./live";
import type { ApiProblem, AttemptsView, Inside, PaperTrace, Routes } from "./models";
import { answerOf, neighbours } from "./paper";

export type Path = keyof Routes;
export type Query<P extends Path> = Routes[P]["query"];
export type Answer<P extends Path> = Routes[P]["answer"];

const inside = document.getElementById("ethogram-data");

/** Whether the page is a report: everything it can show is inside. */
export const offline = inside !== null;
const held = inside ? unpacked<Inside>(inside) : null;

/** Deflated JSON that stands in the page in base64. */
async function unpacked<T>(element: Element): Promise<T> {
  const bytes = Uint8Array.from(atob(element.textContent ?? ""), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text()) as T;
}

export class Failure extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** The answer of a route. Inside a report, the stored answer whose query asks for no more than this one. */
export async function load<P extends Path>(path: P, query: Query<P>, stop?: AbortSignal): Promise<Answer<P>> {
  if (held !== null) return stored(await held, path, query);
  let reply: Response;
  try {
    reply = await fetch(`.${path}?${words(query)}`, { signal: stop, headers: { accept: "application/json" } });
  } catch (error) {
    if (stop?.aborted) throw error;
    throw new Failure("The server does not answer. Start it again with: ethogram view", 0);
  }
  if (!reply.ok) throw await failureOf(reply);
  return (await reply.json()) as Answer<P>;
}

/** Send something to be written, such as a label. */
export async function send<P extends Path>(path: P, body: Query<P>): Promise<Answer<P>> {
  if (offline) throw new Failure("A report cannot be changed; open the run with: ethogram view", 405);
  const headers = { "content-type": "application/json" };
  const reply = await fetch(`.${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!reply.ok) throw await failureOf(reply);
  return (await reply.json()) as Answer<P>;
}

async function failureOf(reply: Response): Promise<Failure> {
  try {
    return new Failure(((await reply.json()) as ApiProblem).error, reply.status);
  } catch {
    return new Failure(`The server answered ${reply.status}.`, reply.status);
  }
}

const chunks = new Map<number, Promise<PaperTrace[]>>();

/** The attempts of one chunk, unpacked when the first of them is opened. */
function chunkOf(number: number): Promise<PaperTrace[]> {
  const element = document.getElementById(`ethogram-words-${number}`);
  if (!chunks.has(number)) chunks.set(number, element ? unpacked<PaperTrace[]>(element) : Promise.resolve([]));
  return chunks.get(number)!;
}

async function stored<P extends Path>(report: Inside, path: P, query: Query<P>): Promise<Answer<P>> {
  const wanted = query as Record<string, unknown>;
  const answer = path.startsWith("/api/trace") ? await ofTrace(report, path, wanted) : plain(report, path, wanted);
  if (answer === undefined) throw new Failure("This report does not hold it; open the run with: ethogram view", 404);
  return answer as Answer<P>;
}

function plain(report: Inside, path: string, query: Record<string, unknown>): unknown {
  const fits = (one: { path: string; query: Record<string, unknown> }) =>
    one.path === path && Object.entries(one.query).every(([name, value]) => query[name] === value);
  return report.answers.find(fits)?.answer;
}

async function ofTrace(report: Inside, path: string, query: Record<string, unknown>): Promise<unknown> {
  const trace = String(query.trace);
  const chunk = report.chunks[trace];
  if (chunk === undefined) return undefined;
  if (path === "/api/trace/neighbours") {
    const grid = report.answers.find((one) => one.path === "/api/run/attempts")?.answer;
    return neighbours(grid as AttemptsView | undefined, report.chunks, trace);
  }
  const attempt = (await chunkOf(chunk)).find((one) => one.trace === trace);
  return attempt && answerOf(attempt, path, query);
}

function words(query: object): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") params.set(name, String(value));
  }
  return params.toString();
}

export interface Loaded<T> {
  answer: T | null;
  failure: Failure | null;
  loading: boolean;
}

const asking = new Map<string, Promise<unknown>>();

/** What several parts of a page ask for at once is asked once. */
function shared<P extends Path>(path: P, query: Query<P>, key: string): Promise<Answer<P>> {
  const known = asking.get(key);
  if (known) return known as Promise<Answer<P>>;
  const answer = load(path, query).finally(() => asking.delete(key));
  asking.set(key, answer);
  return answer;
}

/**
 * An answer that follows its query, and is asked for again when its run changes or `again` does. The old one stays
 * until then.
 */
export function useAnswer<P extends Path>(path: P, query: Query<P> | null, again = 0): Loaded<Answer<P>> {
  const [state, setState] = useState<Loaded<Answer<P>>>({ answer: null, failure: null, loading: query !== null });
  const asked = useRef("");
  const key = query === null ? "" : words(query);
  const run = query !== null && "run" in query ? String(query.run) : null;
  const seen = revision(run);
  useEffect(() => {
    if (query === null) return;
    let over = false;
    const same = asked.current === `${path}?${key}`;
    asked.current = `${path}?${key}`;
    setState((before) => ({ answer: before.answer, failure: same ? before.failure : null, loading: true }));
    shared(path, query, `${path}?${key} ${seen} ${again}`).then(
      (answer) => !over && setState({ answer, failure: null, loading: false }),
      (error: unknown) => {
        if (over) return;
        const failure = error instanceof Failure ? error : new Failure(String(error), 0);
        setState((before) => ({ answer: failure.status === 0 ? before.answer : null, failure, loading: false }));
      },
    );
    return () => {
      over = true;
    };
  }, [path, key, seen, again]);
  return state;
}
