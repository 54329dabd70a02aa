package http

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/gotemplate"
	"github.com/aibridge/aibridge/protocol"
)

//go:embed index.html
var indexPage string

//go:embed index.css
var indexStyle string

// indexPolicy limits the page at / to loading the style it carries, an icon
// that is none, and nothing from anywhere.
var indexPolicy = "default-src 'none'; img-src data:; style-src '" + styleHash(indexStyle) +
	"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func styleHash(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A document is a page that never changes while the process runs.
type document struct {
	contentType string
	body        []byte
	etag        string
}

func newDocument(contentType string, body []byte) document {
	sum := sha256.Sum256(body)
	// A weak tag, as it is the same whether the text goes out compressed or not.
	return document{contentType, body, `W/"` + hex.EncodeToString(sum[:12]) + `"`}
}

func (d document) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", d.contentType)
	h.Set("Etag", d.etag)
	h.Set("Cache-Control", "no-cache") // keep it, but ask
	boundWrite(w)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
}

// documents are the pages about the commands, for people and tools. They have no
// more than the program's own documentation, so they need no credential; commands
// that agents registered are not in them (see bridge.describe).
type documents struct {
	openAPI, list, index  http.HandlerFunc
	agents, rules, family http.HandlerFunc // the API in small pieces, see apispec.go
}

func newDocuments(a *API) *documents {
	index := lazily("text/html; charset=utf-8", func() ([]byte, error) { return renderIndex(a) })
	return &documents{
		openAPI: lazily("application/json", func() ([]byte, error) { return OpenAPI(a.Set) }),
		list:    lazily("application/json", func() ([]byte, error) { return commandList(a.Set) }),
		agents:  lazily("text/plain; charset=utf-8", func() ([]byte, error) { return llmsText(a.Set, a.BridgeID), nil }),
		rules:   lazily(markdown, func() ([]byte, error) { return specRules(a.Set), nil }),
		family:  familyPages(a.Set),
		index: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", indexPolicy)
			index(w, r)
		},
	}
}

// lazily serves a document that is made when it is asked for first: few bridges are
// ever asked for it.
func lazily(contentType string, render func() ([]byte, error)) http.HandlerFunc {
	made := sync.OnceValues(func() (document, error) {
		body, err := render()
		return newDocument(contentType, body), err
	})
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := made()
		if err != nil {
			writeError(w, protocol.Wrap(protocol.Internal, err, "the document cannot be made"))
			return
		}
		d.serve(w, r)
	}
}

type listedCommand struct {
	Name    string          `json:"name"`
	Aliases []string        `json:"aliases,omitempty"`
	Summary string          `json:"summary"`
	Effect  commands.Effect `json:"effect"`
	Action  string          `json:"action"`
	Async   bool            `json:"async,omitempty"`
	Errors  []protocol.Code `json:"errors,omitempty"`
	Path    string          `json:"path"`
}

func commandList(set *commands.Set) ([]byte, error) {
	list := []listedCommand{}
	for c := range set.All() {
		list = append(list, listedCommand{
			Name: c.Name, Aliases: c.Aliases, Summary: c.Summary, Effect: c.Effect,
			Action: c.Action, Async: c.Async, Errors: c.Errors, Path: commandPath(c.Name),
		})
	}
	body, err := json.Marshal(map[string]any{"commands": list, "total": len(list)})
	return append(body, '\n'), err
}

// A family is the commands whose names begin alike, for the page at /.
type family struct {
	Name     string
	Commands []shownCommand
}

// A shownCommand is a command as the page at / shows it.
type shownCommand struct {
	*commands.Command
	Path        string
	Reads, Acts bool
	Failures    []string // its own errors, "3001 not found"
}

func families(set *commands.Set) []family {
	var list []family
	for c := range set.All() { // in the order of their names
		if len(list) == 0 || list[len(list)-1].Name != c.Family() {
			list = append(list, family{Name: c.Family()})
		}
		last := &list[len(list)-1]
		shown := shownCommand{Command: c, Path: commandPath(c.Name), Reads: c.Effect == commands.Read, Acts: c.Effect == commands.Act}
		for _, code := range c.Errors {
			shown.Failures = append(shown.Failures, string(code)+" "+code.String())
		}
		last.Commands = append(last.Commands, shown)
	}
	return list
}

// A shownMount is something else that is served here, for the page at /.
type shownMount struct{ Path, Text string }

// mountTexts describe the mounted handlers.
var mountTexts = []shownMount{
	{"/docs/", "the documentation of this version, with a search"},
	{"/vfs/", "files: upload, download, list, delete, health"},
	{"/mcp", "the Model Context Protocol, for clients of language models"},
}

func renderIndex(a *API) ([]byte, error) {
	page, err := gotemplate.ParseHTML("index", indexPage)
	if err != nil {
		return nil, err
	}
	var mounts []shownMount
	for _, m := range mountTexts {
		if a.Mounts[m.Path] != nil || a.Mounts["GET "+m.Path] != nil {
			mounts = append(mounts, m)
		}
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Version": protocol.Version, "Style": gotemplate.HTML(indexStyle), // which is a constant
		"Metrics": a.Metrics != nil, "Mounts": mounts, "Families": families(a.Set),
	})
	return out.Bytes(), err
}

func commandPath(name string) string { return "/api/v1/commands/" + name }
