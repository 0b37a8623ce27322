// How an attempt ended: a filled blue disc, an orange ring with a stroke, or a small grey dot.
import type { AttemptCell } from "../models";

export function Dot({ state }: { state: AttemptCell["state"] }) {
  return (
    <svg class={`dot ${state}`} viewBox="0 0 14 14" aria-hidden="true">
      {state === "passed" && <circle cx="7" cy="7" r="5" />}
      {state === "failed" && (
        <>
          <circle cx="7" cy="7" r="4.6" />
          <path d="M4.8 4.8l4.4 4.4" />
        </>
      )}
      {state === "missing" && <circle cx="7" cy="7" r="1.8" />}
    </svg>
  );
}
