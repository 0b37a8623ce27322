// Which steps a filter of a trace's page shows.
import type { CardsQuery, StepView } from "./models";

export type Only = NonNullable<CardsQuery["only"]>;
const TOOLS = ["tool", "retrieval", "memory"];

export function shows(step: Pick<StepView, "kind" | "failed">, only: Only | null | undefined): boolean {
  if (only === "errors") return step.failed;
  if (only === "tools") return TOOLS.includes(step.kind);
  return !only || step.kind === "model";
}
