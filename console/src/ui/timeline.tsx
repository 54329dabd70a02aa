// What happened, the latest first, as a line: when, what, how it went.
import { h, type ComponentChildren } from "preact";
import { Mark, shapeOf, type Shape } from "./marks";
import { Time } from "./parts";

export interface Moment {
  at: number;
  state?: string;
  shape?: Shape;
  what: ComponentChildren;
  about?: ComponentChildren;
}

export const Timeline = ({ of, label }: { of: Moment[]; label: string }) => (
  <ol class="timeline" aria-label={label}>
    {of.map((m) => (
      <li>
        <Mark is={m.shape ?? shapeOf(m.state ?? "")} />
        <Time at={m.at} />
        <span class="grow">
          {m.what} {m.about && <span class="dim">{m.about}</span>}
        </span>
      </li>
    ))}
  </ol>
);
