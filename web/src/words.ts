// Numbers and names as people read them. What is unknown is a dash, never 0.
import type { Estimate } from "./models";

export const NONE = "–";

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : value.toLocaleString("en-US");
}

/** 1,234 → 1.2k; for places where room is short. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (Math.abs(value) < 1000) return String(Math.round(value * 10) / 10);
  const unit = Math.abs(value) < 1e6 ? "k" : Math.abs(value) < 1e9 ? "M" : "G";
  const size = { k: 1e3, M: 1e6, G: 1e9 }[unit];
  const scaled = value / size;
  return `${scaled < 10 ? scaled.toFixed(1).replace(/\.0$/, "") : Math.round(scaled)}${unit}`;
}

export function dollars(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "$0";
  if (Math.abs(value) < 0.0001) return "<$0.0001";
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: value < 1 ? 2 : 2, maximumFractionDigits: value < 1 ? 4 : 2 })}`;
}

export function percent(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined ? NONE : `${(100 * value).toFixed(digits)}%`;
}

/** The interval of an estimate in words, its ends written as the estimate is. */
export function between({ low, high }: Pick<Estimate, "low" | "high">, write: (value: number) => string = percent): string {
  return low === null || high === null ? "no interval" : `${write(low)} to ${write(high)}`;
}

/** What an estimate rests on, for a tooltip. */
export function basis(estimate: Estimate): string {
  const parts = [`${between(estimate)} at ${percent(estimate.level)}`, `n = ${count(estimate.n)} ${estimate.of}`.trim()];
  if (estimate.method) parts.push(estimate.method);
  const missing = Object.values(estimate.missing).reduce((sum, n) => sum + n, 0);
  if (missing) parts.push(`${missing} missing`);
  if (estimate.why) parts.push(estimate.why);
  return parts.join(" · ");
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value < 0.001) return "<1 ms";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
}

export function when(ns: number): string {
  const date = new Date(ns / 1e6);
  const same = date.getFullYear() === new Date().getFullYear();
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(same ? {} : { year: "numeric" }) });
  return `${day}, ${date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
}

export function shortId(trace: string): string {
  return trace.replace(/^b2:/, "").slice(0, 10);
}

export function plural(n: number, noun: string): string {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}
