// What changes in the home while the page is open: events of the server, and whether it is there at all.
import { signal } from "@preact/signals";
import type { HomeChange } from "./models";

export type Link = "connecting" | "live" | "lost" | "off";

export const link = signal<Link>("off");
const revisions = signal<Record<string, number>>({});
const ANY = "";

/** A number that grows whenever a run changes (null: any run, or the home). Components that read it are drawn again. */
export function revision(run: string | null): number {
  const known = revisions.value;
  return run === null || run === "latest" ? (known[ANY] ?? 0) : (known[run] ?? 0) + (known["*"] ?? 0);
}

function bump(names: string[]): void {
  const next: Record<string, number> = { ...revisions.value, [ANY]: (revisions.value[ANY] ?? 0) + 1 };
  for (const name of names) next[name] = (next[name] ?? 0) + 1;
  revisions.value = next;
}

/** Listen until the page is left. A server that comes back is asked for everything anew. */
export function listen(): void {
  if (document.getElementById("ethogram-data")) return;
  link.value = "connecting";
  const events = new EventSource("./api/events");
  events.addEventListener("hello", () => {
    if (link.value === "lost") bump(["*"]);
    link.value = "live";
  });
  events.addEventListener("change", (event) => {
    const said = JSON.parse((event as MessageEvent<string>).data) as HomeChange;
    bump([...said.changed, ...said.gone]);
  });
  events.onerror = () => {
    link.value = "lost";
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}
