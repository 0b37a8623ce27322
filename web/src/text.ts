// Words of a trace are foreign: control characters and marks that turn the direction of text are made visible.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** A text that shows every character that would otherwise hide or reorder others. */
export function clean(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** A text of at most `most` characters; one that is longer ends in an ellipsis. */
export function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** The first of some names, and whether there are more. */
export function firstOf(names: string[], most: number): string {
  return names.slice(0, most).join(", ") + (names.length > most ? ", …" : "");
}

/** JSON with line breaks, where the text is a whole JSON document of moderate size. */
export function pretty(text: string): string {
  const start = text.trimStart()[0];
  if (text.length > 20_000 || (start !== "{" && start !== "[")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The text cut where a search matches: pairs of words and whether they match. */
export function matches(text: string, wanted: string): [string, boolean][] {
  if (!wanted) return [[text, false]];
  const low = text.toLowerCase();
  const find = wanted.toLowerCase();
  if (low.length !== text.length) return [[text, false]]; // a letter whose lower case is longer: places would be off
  const parts: [string, boolean][] = [];
  let at = 0;
  for (let i = low.indexOf(find); i >= 0 && parts.length < 400; i = low.indexOf(find, at)) {
    if (i > at) parts.push([text.slice(at, i), false]);
    parts.push([text.slice(i, i + find.length), true]);
    at = i + find.length;
  }
  if (at < text.length) parts.push([text.slice(at), false]);
  return parts;
}
