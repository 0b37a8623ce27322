// A report holds attempts whole: their windows, filters and searches are cut here, as a server cuts them for a page.
import { shows } from "./kinds";
import type { AttemptsView, CardsQuery, CardsView, FindQuery, NeighboursView, OutlineQuery, OutlineView, PaperTrace, TextSearch } from "./models";

type Asked = Record<string, unknown>;

/** The answer of a route about one trace; undefined where a report has none. */
export function answerOf(attempt: PaperTrace, path: string, query: Asked): unknown {
  switch (path) {
    case "/api/trace":
      return attempt.head;
    case "/api/trace/turns":
      return attempt.turns;
    case "/api/trace/beside":
      return attempt.beside;
    case "/api/trace/cards":
      return cards(attempt, query as unknown as CardsQuery);
    case "/api/trace/outline":
      return outline(attempt, query as unknown as OutlineQuery);
    case "/api/trace/find":
      return find(attempt, query as unknown as FindQuery);
    default:
      return undefined;
  }
}

/** The attempts beside a trace: those of the grid that the report holds. */
export function neighbours(grid: AttemptsView | undefined, held: Record<string, number>, trace: string): NeighboursView {
  const rows = (grid?.rows ?? []).map((row) => row.cells.filter((cell) => cell.trace in held));
  const list = rows.flat().map((cell) => cell.trace);
  const at = list.indexOf(trace);
  const siblings = rows.find((row) => row.some((cell) => cell.trace === trace)) ?? [];
  return { at: at + 1, of: list.length, previous: list[at - 1] ?? null, next: at < 0 ? null : (list[at + 1] ?? null), siblings };
}

function cards({ cards: all }: PaperTrace, query: CardsQuery): CardsView {
  const wanted = all.filter((card) => card.steps.some((step) => shows(step, query.only)));
  return { first: 0, of: wanted.length, cards: wanted };
}

function outline({ outline: all }: PaperTrace, query: OutlineQuery): OutlineView {
  const kept: number[] = [];
  const folded = new Set((query.folded ?? "").split(",").filter(Boolean).map(Number));
  let hidden = -1;
  all.at.forEach((place, i) => {
    const inside = place <= hidden;
    if (folded.has(place)) hidden = Math.max(hidden, place + (all.inside[i] ?? 0));
    if (!inside && shows({ kind: all.kinds[all.kind[i] ?? 0] ?? "other", failed: all.failed[i] ?? false }, query.only)) kept.push(i);
  });
  const pick = <T>(column: T[]): T[] => kept.map((i) => column[i]!);
  const { at, depth, kind, name, failed, step, begin, seconds, tokens, inside } = all;
  const columns = { at: pick(at), depth: pick(depth), kind: pick(kind), name: pick(name), failed: pick(failed), step: pick(step), begin: pick(begin), seconds: pick(seconds), tokens: pick(tokens), inside: pick(inside) };
  return { ...all, ...columns, first: 0, of: kept.length };
}

function find({ cards: all, head }: PaperTrace, query: FindQuery): TextSearch {
  const wanted = query.text.toLowerCase();
  const at: number[] = [];
  let times = 0;
  for (const step of all.flatMap((card) => card.steps)) {
    const texts = [...step.parts.map((part) => part.text), ...step.parts.map((part) => part.name)];
    const own = texts.reduce((sum, text) => sum + text.toLowerCase().split(wanted).length - 1, 0);
    if (own > 0) at.push(step.step);
    times += own;
  }
  return { text: query.text, steps: at.length, of: head.steps, times, at };
}
