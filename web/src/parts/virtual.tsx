// A list of any length of which only what can be seen is in the page. Heights are measured as rows are shown.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const AROUND = 300;
const MARGIN = 8;
const MOST_PIXELS = 12_000_000;

/** Offsets of rows whose heights are guessed until they are measured: sums in a Fenwick tree. */
export class Heights {
  private readonly own = new Map<number, number>();
  private readonly sums: Float64Array;

  constructor(
    readonly count: number,
    readonly guess: number,
  ) {
    this.sums = new Float64Array(count + 1);
  }

  height(i: number): number {
    return this.own.get(i) ?? this.guess;
  }

  /** Set a measured height; gives by how much it differs from what was believed. */
  set(i: number, height: number): number {
    const more = height - this.height(i);
    if (more === 0) return 0;
    this.own.set(i, height);
    for (let at = i + 1; at <= this.count; at += at & -at) this.sums[at] = (this.sums[at] ?? 0) + more;
    return more;
  }

  /** Where a row begins. */
  offset(i: number): number {
    let sum = i * this.guess;
    for (let at = i; at > 0; at -= at & -at) sum += this.sums[at] ?? 0;
    return sum;
  }

  /** The row at a height. */
  at(offset: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.offset(middle + 1) <= offset) low = middle + 1;
      else high = middle;
    }
    return Math.min(low, Math.max(this.count - 1, 0));
  }
}

export interface Shown {
  first: number;
  last: number;
}

interface VirtualProps {
  count: number;
  /** The height of a row until it is measured; with `fixed`, of every row. */
  guess: number;
  fixed?: boolean;
  /** A row to bring into view, and a number that changes when it must be done again. */
  target?: { row: number; again: number } | null;
  class?: string;
  label: string;
  row: (i: number) => ComponentChildren;
  onShown?: (shown: Shown) => void;
}

export function Virtual({ count, guess, fixed, target, class: name, label, row, onShown }: VirtualProps) {
  const box = useRef<HTMLDivElement>(null);
  const believed = fixed ? guess : Math.min(guess, MOST_PIXELS / Math.max(count, 1));
  const heights = useRef(new Heights(count, believed));
  if (heights.current.count !== count || heights.current.guess !== believed) heights.current = new Heights(count, believed);
  // the row that was asked for stays in place while rows around it are measured, until somebody scrolls
  const pinned = useRef<number | null>(null);
  const [view, setView] = useState({ top: 0, tall: 800, tick: 0 });
  const all = heights.current;
  const total = all.offset(count);
  // a page can only be so tall: above that, a pixel of the scroll bar stands for several
  const scale = Math.max(total / MOST_PIXELS, 1);
  const top = view.top * scale;
  const first = count ? all.at(Math.max(top - AROUND, 0)) : 0;
  const last = count ? Math.min(all.at(top + view.tall + AROUND) + 1, count) : 0;

  const look = useCallback(() => {
    const element = box.current;
    if (!element) return;
    const [now, tall] = [element.scrollTop, element.clientHeight];
    // rows beyond the edge are drawn already: most frames of a scroll need nothing new
    setView((before) => {
      const near = Math.abs(before.top - now) < AROUND / 3 && before.tall === tall && heights.current.offset(heights.current.count) <= MOST_PIXELS;
      return near ? before : { top: now, tall, tick: before.tick };
    });
  }, []);
  useEffect(() => {
    look();
    const watcher = new ResizeObserver(look);
    if (box.current) watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [look]);
  useEffect(() => onShown?.({ first, last }), [first, last, count]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !target || count === 0) return;
    const wanted = Math.min(Math.max(target.row, 0), count - 1);
    const begins = all.offset(wanted);
    const seen = begins >= top && begins + Math.min(all.height(wanted), view.tall) <= top + view.tall;
    pinned.current = fixed ? null : wanted;
    if (!seen || !fixed) element.scrollTop = Math.max(begins - (fixed ? view.tall / 3 : MARGIN), 0) / scale;
    look();
  }, [target?.row, target?.again, count]);

  const report = (i: number, height: number) => {
    const more = all.set(i, height);
    if (more === 0) return;
    const element = box.current;
    if (element && pinned.current !== null) element.scrollTop = Math.max(all.offset(pinned.current) - MARGIN, 0);
    // what is read stays where it is when something above it turns out taller
    else if (element && all.offset(i) < element.scrollTop * scale - 1) element.scrollTop += more / scale;
    look();
    setView((before) => ({ ...before, tick: before.tick + 1 }));
  };
  const rows = [];
  for (let i = first; i < last; i += 1) {
    const place = all.offset(i) - top + view.top;
    rows.push(
      <Row key={i} i={i} place={place} height={fixed ? guess : null} report={report}>
        {row(i)}
      </Row>,
    );
  }
  const release = () => (pinned.current = null);
  return (
    <div ref={box} class={`virtual ${name ?? ""}`} onScroll={look} onWheel={release} onTouchMove={release} onPointerDown={release} onKeyDown={release} tabIndex={0} role="region" aria-label={label}>
      <div class="virtual-all" style={{ height: `${total / scale}px` }}>
        {rows}
      </div>
    </div>
  );
}

interface RowProps {
  i: number;
  place: number;
  height: number | null;
  report: (i: number, height: number) => void;
  children: ComponentChildren;
}

/** One row; without a fixed height it says how tall it is, whenever that changes. */
function Row({ i, place, height, report, children }: RowProps) {
  const element = useRef<HTMLDivElement>(null);
  const told = useRef(report);
  told.current = report;
  useLayoutEffect(() => {
    const own = element.current;
    if (!own || height !== null) return;
    const watcher = new ResizeObserver(() => told.current(i, own.offsetHeight));
    watcher.observe(own);
    return () => watcher.disconnect();
  }, [i, height]);
  const style = { transform: `translateY(${place}px)`, ...(height === null ? {} : { height: `${height}px` }) };
  return (
    <div ref={element} class="virtual-row" style={style}>
      {children}
    </div>
  );
}
