package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

//go:embed index.html
var indexPage string

// A document is a page that never changes while the process runs.
type document struct {
	contentType string
	body        []byte
	etag        string
}

func newDocument(contentType string, body []byte) document {
	sum := sha256.Sum256(body)
	return document{contentType, body, `"` + hex.EncodeToString(sum[:12]) + `"`}
}

func (d document) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", d.contentType)
	h.Set("Etag", d.etag)
	h.Set("Cache-Control", "no-cache") // keep it, but ask
	boundWrite(w)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
}

// documents are what people and tools read about the commands. They tell no
// more than the program's own documentation does, so they want no credential;
// commands that agents registered are not in them (see bridge.describe).
type documents struct{ openAPI, list, index document }

func newDocuments(set *commands.Set) (*documents, error) {
	openAPI, err := OpenAPI(set)
	if err != nil {
		return nil, err
	}
	list, err := commandList(set)
	if err != nil {
		return nil, err
	}
	index, err := renderIndex(set)
	if err != nil {
		return nil, err
	}
	return &documents{
		openAPI: newDocument("application/json", openAPI),
		list:    newDocument("application/json", list),
		index:   newDocument("text/html; charset=utf-8", index),
	}, nil
}

func (d *documents) serveOpenAPI(w http.ResponseWriter, r *http.Request) { d.openAPI.serve(w, r) }
func (d *documents) serveList(w http.ResponseWriter, r *http.Request)    { d.list.serve(w, r) }
func (d *documents) serveIndex(w http.ResponseWriter, r *http.Request)   { d.index.serve(w, r) }

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

func renderIndex(set *commands.Set) ([]byte, error) {
	page, err := template.New("index").Parse(indexPage)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{"Version": protocol.Version, "Commands": set.All()})
	return out.Bytes(), err
}

func commandPath(name string) string { return "/api/v1/commands/" + name }
