package http

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// The API in small pieces for coding agents: llms.txt leads to api-spec.md, what
// holds for all commands, and that to one page for each family. It is made of the
// declarations, and is as public as /openapi.json.

const markdown = "text/markdown; charset=utf-8"

// familyPages serves the page of each family.
func familyPages(set *commands.Set) http.HandlerFunc {
	pages := make(map[string]http.HandlerFunc)
	for _, f := range families(set) {
		pages[f.Name+".md"] = lazily(markdown, func() ([]byte, error) {
			var b bytes.Buffer
			_, err := commands.WriteFamilyMarkdown(&b, set, f.Name)
			return b.Bytes(), err
		})
	}
	return func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.PathValue("file")]
		if !ok {
			writeError(w, protocol.Errorf(protocol.NotFound, "there is no such family of commands; /api-spec.md lists them").With("path", r.URL.Path))
			return
		}
		page(w, r)
	}
}

// llmsText is the page that coding agents look for first (llmstxt.org).
func llmsText(set *commands.Set, bridge string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# AI Bridge %s\n\n", bridge)
	b.WriteString("> A bridge between devices, skills and language models: an MQTT 5 broker with one protocol of commands, over MQTT, HTTP, WebSocket and MCP.\n\n")
	b.WriteString("Read api-spec.md first, then only the families that you need. All links are relative to this page.\n\n")
	b.WriteString("## API\n\n- [api-spec.md](api-spec.md): how any command is called and answered, and the error codes\n")
	b.WriteString("- [openapi.json](openapi.json): all of it as OpenAPI, which is large\n\n## Families of commands\n\n")
	writeFamilies(&b, set)
	return b.Bytes()
}

// writeFamilies lists the families with their commands, each with a link.
func writeFamilies(b *bytes.Buffer, set *commands.Set) {
	for _, f := range families(set) {
		names := make([]string, len(f.Commands))
		for i, c := range f.Commands {
			names[i] = c.Name
		}
		fmt.Fprintf(b, "- [%s](api-spec/%[1]s.md): %s\n", f.Name, strings.Join(names, ", "))
	}
}

// specRules are the rules for all commands.
func specRules(set *commands.Set) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, specText, protocol.Version, commands.AnyCommandMayAnswer())
	writeFamilies(&b, set)
	return b.Bytes()
}

const specText = `# The API of the bridge

Every command takes params and answers with a result, whichever way it comes in.

## HTTP

    POST api/v1/commands/{command}
    Authorization: Bearer KEY_OR_TOKEN
    Content-Type: application/json

    {"param": "value"}

The body is the params, the answer the result. An error has a status and ` + "`{\"error\":{\"code\",\"message\",\"details\"}}`" + `; ` + "`details.param_name`" + ` names the parameter that is wrong. ` + "`X-Timeout-Ms`" + ` says how long to wait, ` + "`Idempotency-Key`" + ` makes a repeat harmless.

## MQTT and WebSocket

Publish an envelope on ` + "`aibridge/bridge/request`" + ` (the first level is as the bridge is configured; QoS 1, with a Response Topic of your own), or send it over the WebSocket ` + "`ws`" + `:

    {"version": "%s", "id": "1", "timestamp": 0, "type": "request", "command": "agent.list", "params": {}}

The response has the same ` + "`id`" + ` and either ` + "`result`" + ` or ` + "`error`" + `. The same id and params again are answered again and not run again.

## Errors

Besides the codes that a command lists, any may answer %s.

Unknown parameters are refused. One that is not marked *required* may be left out. A list has ` + "`limit`, `next_cursor` and `cursor`" + `: ask again with the cursor until there is none.

## Families

`
