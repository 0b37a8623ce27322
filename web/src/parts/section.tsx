// A part of a page that loads by itself: its title, its answer, or why there is none.
import type { ComponentChildren } from "preact";
import type { Loaded } from "../load";
import { Failed, Loading } from "./states";

interface SectionProps<T> {
  title: string;
  loaded: Loaded<T>;
  note?: string;
  lines?: number;
  children: (answer: T) => ComponentChildren;
}

export function Section<T>({ title, loaded, note, lines, children }: SectionProps<T>) {
  return (
    <section class="part" aria-busy={loaded.loading}>
      <h2>
        {title}
        {note && <small>{note}</small>}
      </h2>
      {loaded.failure && <Failed failure={loaded.failure} />}
      {loaded.answer !== null ? children(loaded.answer) : !loaded.failure && <Loading lines={lines} />}
    </section>
  );
}
