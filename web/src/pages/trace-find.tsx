// Words that are looked for in a trace: the field, "n of m", and the way from one to the next.
import { useEffect, useMemo, useState } from "preact/hooks";
import { change } from "../address";
import { load } from "../load";
import type { TextSearch } from "../models";
import { Search } from "../parts/search";
import { count, plural } from "../words";

export interface Found {
  answer: TextSearch | null;
  failure: string | null;
}

/** The steps that hold a text, asked for once the typing rests. */
export function useFind(place: { run: string; trace: string }, text: string): Found {
  const key = `${place.run} ${place.trace} ${text}`;
  const [state, setState] = useState<Found & { key: string }>({ key: "", answer: null, failure: null });
  useEffect(() => {
    if (!text.trim()) return;
    const stop = new AbortController();
    load("/api/trace/find", { ...place, text }, stop.signal).then(
      (answer) => setState({ key, answer, failure: null }),
      (error: Error) => !stop.signal.aborted && setState({ key, answer: null, failure: error.message }),
    );
    return () => stop.abort();
  }, [key]);
  return useMemo(() => (state.key === key && text.trim() ? state : { answer: null, failure: null }), [state, key]);
}

interface FindProps {
  field: { current: HTMLInputElement | null };
  text: string;
  found: Found;
  now: number | null;
  move: (by: 1 | -1) => void;
}

export function Find({ field, text, found, now, move }: FindProps) {
  const at = found.answer?.at ?? [];
  const number = now === null ? 0 : at.indexOf(now) + 1;
  const enter = (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    move(event.shiftKey ? -1 : 1);
  };
  return (
    <div class="find">
      <Search field={field} text={text} label="Find in this trace" hint="Find in this trace ( / )" set={(find) => change({ find }, true)} onKeyDown={enter} />
      {text.trim() && (
        <span class="find-count" role="status" title={found.answer ? `${plural(found.answer.times, "place")} in ${plural(found.answer.steps, "step")} of ${count(found.answer.of)}` : ""}>
          {found.failure ?? (found.answer === null ? "…" : at.length === 0 ? "none" : `${number || "–"} of ${count(at.length)}`)}
        </span>
      )}
      <button class="icon" disabled={at.length === 0} title="Previous (Shift N)" aria-label="Previous match" onClick={() => move(-1)}>
        ↑
      </button>
      <button class="icon" disabled={at.length === 0} title="Next (n)" aria-label="Next match" onClick={() => move(1)}>
        ↓
      </button>
    </div>
  );
}
