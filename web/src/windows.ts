// Windows of a long list, fetched as they come into view and kept: the rows are asked for by their number.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure } from "./load";
import type { Shown } from "./parts/virtual";

export interface Window<Row> {
  first: number;
  of: number;
  rows: Row[];
}

export interface Rows<Row> {
  of: number | null;
  row: (i: number) => Row | undefined;
  show: (shown: Shown) => void;
  /** Fetch the window around something, and give the number of its first row. */
  around: (fetchAround: () => Promise<Window<Row>>) => Promise<Window<Row>>;
  failure: Failure | null;
}

/** `fetchRows(first)` gets one window, once `ready`; when `key` changes, all are forgotten. */
export function useWindows<Row>(key: string, size: number, fetchRows: (first: number) => Promise<Window<Row>>, ready = true): Rows<Row> {
  const held = useRef({ key: "", of: null as number | null, rows: new Map<number, Row>(), asked: new Set<number>() });
  const [, redraw] = useState(0);
  const [failure, setFailure] = useState<Failure | null>(null);
  if (held.current.key !== key) held.current = { key, of: held.current.of, rows: new Map(), asked: new Set() };
  const mine = held.current;
  const take = (window: Window<Row>) => {
    if (held.current !== mine) return;
    mine.of = window.of;
    window.rows.forEach((row, i) => mine.rows.set(window.first + i, row));
    setFailure(null);
    redraw((n) => n + 1);
  };
  const fail = (error: unknown) => {
    if (held.current === mine) setFailure(error instanceof Failure ? error : new Failure(String(error), 0));
  };
  const ask = (page: number) => {
    if (mine.asked.has(page)) return;
    mine.asked.add(page);
    fetchRows(page * size).then(take, (error: unknown) => {
      mine.asked.delete(page);
      fail(error);
    });
  };
  useEffect(() => {
    if (ready) ask(0);
  }, [key, ready]);
  return {
    of: mine.of,
    row: (i) => mine.rows.get(i),
    show: ({ first, last }) => {
      // a window is asked for half its length before it comes into view
      const [from, to] = [Math.max(first - size / 2, 0), Math.max(last - 1, first) + size / 2];
      for (let page = Math.floor(from / size); mine.of !== null && page <= Math.floor(to / size); page += 1) {
        if (page * size < mine.of) ask(page);
      }
    },
    around: async (fetchAround) => {
      const window = await fetchAround();
      take(window);
      return window;
    },
    failure,
  };
}
