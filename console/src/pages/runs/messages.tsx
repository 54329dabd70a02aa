// What people, models and tools say, as text.
import { Code, h } from "../../core";

/** A message in the words of OpenAI's protocol. */
export interface Talked {
  role: string;
  content?: string | null;
  name?: string;
  tool_calls?: { function: { name: string; arguments?: string } }[];
}

const long = 600;

/** A message; that of the system and long ones of tools are folded. */
export function Said({ of: m, who }: { of: Talked; who?: string }) {
  const text = m.content ?? "";
  if (m.role === "system" || m.role === "tool")
    return (
      <details class={`msg ${m.role}`}>
        <summary>{m.role === "system" ? "What the model is told before everything else" : `Result${m.name ? ` of ${m.name}` : ""}`}</summary>
        <pre class="code" tabIndex={0}>{text}</pre>
      </details>
    );
  return (
    <div class={`msg ${m.role}`}>
      <b class="small">{m.role === "user" ? (who ?? "You") : "Model"}</b>
      {text && (text.length > long && m.role === "user" ? <details><summary>{text.slice(0, 160)}…</summary><p class="theirs">{text}</p></details> : <p class="theirs">{text}</p>)}
      {(m.tool_calls ?? []).map((c) => (
        <p class="small">
          wants <Code>{c.function.name}</Code> <span class="mono break dim">{c.function.arguments === "{}" ? "" : c.function.arguments}</span>
        </p>
      ))}
    </div>
  );
}
