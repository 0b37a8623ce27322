// A field whose text goes into the address once the typing rests; a page that is drawn meanwhile leaves it alone.
import { useEffect, useRef } from "preact/hooks";

const REST = 250;

interface SearchProps {
  field: { current: HTMLInputElement | null };
  text: string;
  label: string;
  hint: string;
  set: (text: string) => void;
  wrong?: boolean;
  onKeyDown?: (event: KeyboardEvent) => void;
}

export function Search({ field, text, label, hint, set, wrong, onKeyDown }: SearchProps) {
  const timer = useRef(0);
  useEffect(() => {
    // a text of a link or of a step back; while somebody types, the field is ahead of the address
    if (field.current && timer.current === 0) field.current.value = text;
  }, [text]);
  const type = (value: string) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      set(value);
    }, REST);
  };
  return <input ref={field} type="search" defaultValue={text} spellcheck={false} placeholder={hint} aria-label={label} aria-invalid={wrong} onInput={(event) => type(event.currentTarget.value)} onKeyDown={onKeyDown} />;
}
