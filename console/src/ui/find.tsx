// "/" finds pages, agents and commands.
import { h } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../lib/bridge";
import { go, link } from "../lib/router";
import { may } from "../lib/session";
import { pages } from "./frame";
import { Icon } from "./marks";

export const finding = signal(false);

interface Found {
  word: string;
  about: string;
  icon: string;
  href: string;
}

async function search(text: string): Promise<Found[]> {
  const has = (s: string) => s.toLowerCase().includes(text.toLowerCase());
  const found: Found[] = pages.filter((p) => has(p.word)).map((p) => ({ word: p.word, about: "page", icon: p.id, href: link(...[p.path].filter(Boolean)) }));
  if (text.length < 2) return found;
  const agents = may("agent:list") ? call("agent.list", { find: text, limit: 5 }) : undefined;
  const skills = may("skill:discover") ? call("skill.discover", { text, limit: 5 }) : undefined;
  const commands = may("bridge:describe") ? call("bridge.describe", {}) : undefined;
  for (const a of (await agents?.catch(() => undefined))?.agents ?? []) found.push({ word: a.agent_id, about: `agent, ${a.status}`, icon: "agents", href: link("agents", a.agent_id) });
  for (const s of (await skills?.catch(() => undefined))?.skills ?? []) found.push({ word: s.skill_id, about: `skill, ${s.status}`, icon: "agents", href: link("skills", s.skill_id) });
  for (const c of ((await commands?.catch(() => undefined)) as any)?.commands?.filter((c: any) => has(c.name)).slice(0, 8) ?? []) found.push({ word: c.name, about: c.summary, icon: "settings", href: link("commands", c.name) });
  return found;
}

export function Finder() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[]>([]);
  const [at, setAt] = useState(0);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    let over = false;
    const timer = setTimeout(() => void search(text.trim()).then((f) => over || (setFound(f), setAt(0))), text ? 120 : 0);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [text]);
  const open = (f?: Found) => {
    if (!f) return;
    dialog.current?.close();
    go(f.href);
  };
  return (
    <dialog class="panel finder" ref={dialog} onClose={() => (finding.value = false)} aria-label="Find">
      <input
        class="in"
        role="combobox"
        aria-expanded="true"
        aria-controls="found"
        aria-activedescendant={found[at] ? `found-${at}` : undefined}
        aria-label="Find a page, an agent, a skill or a command"
        placeholder="Find or run a command"
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
          else if (e.key === "ArrowUp") setAt(Math.max(at - 1, 0));
          else if (e.key === "Enter") open(found[at]);
          else return;
          e.preventDefault();
        }}
      />
      <ul id="found" role="listbox" aria-label="Found" class="found">
        {found.map((f, i) => (
          <li id={`found-${i}`} role="option" aria-selected={i === at} onClick={() => open(f)}>
            <Icon is={f.icon} />
            <b>{f.word}</b> <span class="small dim cut">{f.about}</span>
          </li>
        ))}
      </ul>
    </dialog>
  );
}
