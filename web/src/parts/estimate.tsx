// A number with its uncertainty, as words and as a small interval.
import type { Estimate } from "../models";
import { basis, between, count, NONE, percent } from "../words";

/** A share with its interval on a line from 0 to 1. */
export function Rate({ estimate, wide = false }: { estimate: Estimate | null; wide?: boolean }) {
  if (!estimate || estimate.value === null) return <span class="rate none" title={estimate?.why ?? ""}>{NONE}</span>;
  const { value, low, high } = estimate;
  const x = (share: number) => 2 + 56 * share;
  return (
    <span class={wide ? "rate wide" : "rate"} title={basis(estimate)}>
      <b>{percent(value)}</b>
      <svg viewBox="0 0 60 12" aria-hidden="true">
        <line x1="2" x2="58" y1="6" y2="6" class="axis" />
        {low !== null && high !== null && <line x1={x(low)} x2={Math.max(x(high), x(low) + 1)} y1="6" y2="6" class="spread" />}
        <circle cx={x(value)} cy="6" r="3" class="point" />
      </svg>
      <small>{between(estimate)}</small>
    </span>
  );
}

/** A difference of two success rates on a line from −1 to +1; of something `lost`, more is worse. */
export function Effect({ estimate, lost = false }: { estimate: Estimate; lost?: boolean }) {
  const { value, low, high } = estimate;
  if (value === null) return <span class="muted">{estimate.why ?? NONE}</span>;
  const x = (share: number) => 45 + 42 * share;
  const signed = (share: number) => `${share > 0 ? "+" : share < 0 ? "−" : ""}${percent(Math.abs(share))}`;
  const tone = low !== null && low > 0 ? "up" : high !== null && high < 0 ? "down" : "open";
  const good = { up: lost ? "worse" : "better", down: lost ? "better" : "worse", open: "" }[tone];
  return (
    <span class={`effect ${good}`} title={`${estimate.method}, n = ${count(estimate.n)} ${estimate.of}`}>
      <b>
        <i aria-hidden="true">{tone === "up" ? "↑" : tone === "down" ? "↓" : "?"}</i> {signed(value)}
      </b>
      <svg viewBox="0 0 90 12" aria-hidden="true">
        <line class="axis" x1="3" x2="87" y1="6" y2="6" />
        <line class="zero" x1="45" x2="45" y1="1" y2="11" />
        {low !== null && high !== null && <line class="spread" x1={x(low)} x2={x(high)} y1="6" y2="6" />}
        <circle cx={x(value)} cy="6" r="3" />
      </svg>
      <small class="muted">{between(estimate, signed)}</small>
    </span>
  );
}
