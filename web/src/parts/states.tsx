// What a page shows while it has nothing: loading, empty, failed. Each says what to type.
import type { ComponentChildren } from "preact";
import type { Failure } from "../load";

export function Loading({ lines = 3 }: { lines?: number }) {
  return (
    <div class="loading" role="status" aria-label="loading">
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} class="ghost" />
      ))}
    </div>
  );
}

interface EmptyProps {
  title: string;
  hint?: string;
  command?: string;
  children?: ComponentChildren;
}

export function Empty({ title, hint, command, children }: EmptyProps) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {hint && <p>{hint}</p>}
      {command && <Command text={command} />}
      {children}
    </div>
  );
}

export function Failed({ failure }: { failure: Failure }) {
  return (
    <p class="failure" role="alert">
      <b aria-hidden="true">!</b> {failure.message}
    </p>
  );
}

/** A command that can be copied. */
export function Command({ text }: { text: string }) {
  const copy = () => void navigator.clipboard?.writeText(text);
  return (
    <span class="command">
      <code>{text}</code>
      <button title="Copy" aria-label={`Copy: ${text}`} onClick={copy}>
        <svg viewBox="0 0 16 16" width="13" height="13" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4">
          <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
          <path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2" />
        </svg>
      </button>
    </span>
  );
}
