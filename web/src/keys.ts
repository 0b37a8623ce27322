// Keys: a page says which ones it takes while it is shown; the help sheet lists them.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Key {
  keys: string[];
  label: string;
  does: string;
  act: () => void;
}

type Layer = { current: Key[] };

const layers = signal<Layer[]>([]);
export const helpOpen = signal(false);

/** The keys that work now, those of the page first. */
export function knownKeys(): Key[] {
  return [...layers.value].reverse().flatMap((layer) => layer.current);
}

/**
 * Take keys while the component is shown, as it was last drawn. The newest layer that knows a key gets it. What the keys
 * depend on need not be named any more; pages that still do are right too.
 */
export function useKeys(keys: Key[], _watched?: unknown[]): void {
  const layer = useRef(keys);
  layer.current = keys;
  useLayoutEffect(() => {
    layers.value = [...layers.value, layer];
    return () => {
      layers.value = layers.value.filter((one) => one !== layer);
    };
  }, []);
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      helpOpen.value = false;
      if (typing(event.target)) (event.target as HTMLElement).blur();
      return;
    }
    if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const found = knownKeys().find((key) => key.keys.includes(event.key));
    if (!found) return;
    event.preventDefault();
    found.act();
  });
}
