// JSON as text: pretty, whole, copied whole; and the difference of two.
import { h, Fragment, type ComponentChildren } from "preact";
import { Copy } from "./parts";

const sorted = (v: unknown): unknown =>
  Array.isArray(v) ? v.map(sorted) : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, x]) => [k, sorted(x)])) : v;

/** JSON with sorted names and no space, as it is hashed. */
export const canonical = (v: unknown) => JSON.stringify(sorted(v));

export const pretty = (v: unknown) => JSON.stringify(v, null, 2) ?? "";

/** A value as JSON; names are dimmed. */
export function Json({ value, flat, copy = true }: { value: unknown; flat?: boolean; copy?: boolean }) {
  const text = flat ? canonical(value) : pretty(value);
  return (
    <div class="json">
      <pre class="code" tabIndex={0}>
        {flat ? text : coloured(text)}
      </pre>
      {copy && <Copy text={text} />}
    </div>
  );
}

function coloured(text: string): ComponentChildren {
  if (text.length > 100_000) return text;
  return text.split("\n").map((l) => {
    const name = /^(\s*)("(?:[^"\\]|\\.)*":)(.*)$/.exec(l);
    return name ? (
      <>
        {name[1]}
        <span class="k">{name[2]}</span>
        {name[3]}
        {"\n"}
      </>
    ) : (
      l + "\n"
    );
  });
}

/** What was, and what is, line by line. */
export function Diff({ before, after }: { before: string; after: string }) {
  return (
    <pre class="code" tabIndex={0}>
      {differ(before.split("\n"), after.split("\n")).map(([kind, line]) =>
        kind === " " ? (
          <span>{line + "\n"}</span>
        ) : kind === "+" ? (
          <ins class="add">{line + "\n"}</ins>
        ) : (
          <del class="del">{line + "\n"}</del>
        ),
      )}
    </pre>
  );
}

type Line = [kind: " " | "+" | "-", text: string];

/** The longest common lines stay; bounded, as texts are. */
export function differ(a: string[], b: string[]): Line[] {
  if (a.length * b.length > 4_000_000) return [...a.map((l): Line => ["-", l]), ...b.map((l): Line => ["+", l])];
  const w = b.length + 1;
  const best = new Uint32Array((a.length + 1) * w);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) best[i * w + j] = a[i] === b[j] ? best[(i + 1) * w + j + 1] + 1 : Math.max(best[(i + 1) * w + j], best[i * w + j + 1]);
  const lines: Line[] = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push([" ", a[i]]), i++, j++;
    else if (i < a.length && (j === b.length || best[(i + 1) * w + j] >= best[i * w + j + 1])) lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}
