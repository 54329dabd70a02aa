// "?" shows the keys.
import { h } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { goes } from "../lib/keys";
import { keys } from "../lib/shown";
import { pages } from "./frame";
import { Button } from "./parts";

export const helping = signal(false);

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const all: [string, string][] = [
    ...keys.value,
    ["/", "find a page, a thing or a command"],
    ["J K", "move"],
    ["Enter", "open"],
    ["E", "envelope of what the page does"],
    ["Esc", "back"],
    ...Object.entries(goes).map(([k, p]): [string, string] => [`G ${k.toUpperCase()}`, `go to ${pages.find((x) => x.path === p)?.word}`]),
  ];
  return (
    <dialog class="panel" ref={dialog} onClose={() => (helping.value = false)} aria-label="Keys">
      <div class="body stack">
        <h2>Keys</h2>
        <p class="small dim">A single key moves, opens and chooses. It never acts.</p>
        <dl class="facts">
          {all.map(([k, what]) => [
            <dt>
              <kbd>{k}</kbd>
            </dt>,
            <dd>{what}</dd>,
          ])}
        </dl>
        <Button onClick={() => dialog.current?.close()}>Close</Button>
      </div>
    </dialog>
  );
}
