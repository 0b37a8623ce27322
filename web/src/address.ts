// The address holds the whole state: `#/trace?run=night&trace=7620&step=4`. Pages read it here and change it here.
import { signal } from "@preact/signals";

export type Params = Record<string, string>;

export interface Address {
  page: string;
  params: Params;
}

/** The page of an address that names none; a report on disk opens with itself. */
export const START = document.getElementById("ethogram-data") ? "report" : "runs";

function read(): Address {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { page: path || START, params: Object.fromEntries(new URLSearchParams(query)) };
}

export const address = signal<Address>(read());

/** Takes the hash over at once, so that a second change builds on the first; an event that tells nothing new is ignored. */
function follow(): void {
  if (location.hash === followed) return;
  followed = location.hash;
  address.value = read();
}

let followed = location.hash;
addEventListener("hashchange", follow);

export type Given = Record<string, string | number | boolean | null | undefined>;

/** The link to a page; what is empty, false or absent is left out. */
export function href(page: string, params: Given = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) query.set(name, String(value));
  }
  const words = query.toString();
  return `#/${page}${words ? `?${words}` : ""}`;
}

export function go(page: string, params: Given = {}): void {
  location.hash = href(page, params);
  follow();
}

/** Change some of the state of this page. A step back of the browser undoes it, unless `quiet`. */
export function change(params: Given, quiet = false): void {
  const to = href(address.value.page, { ...address.value.params, ...params });
  if (to === location.hash) return;
  if (quiet) history.replaceState(null, "", to);
  else location.hash = to;
  follow();
}
