// Package litellm reads the configuration of a LiteLLM proxy as one of language
// models. Settings without a counterpart are reported, by file and line; those that
// are not understood are left out and reported, never guessed. Keys are never in
// the result.
package litellm

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/internal/migrate"
	"github.com/aibridge/aibridge/llm/model"
)

// Models are the models of a proxy.
type Models struct {
	Config model.Config // passes [model.Config.Check]
	Notes  []migrate.Note
}

// The bounds of a configuration.
const (
	maxBytes       = 1 << 20
	maxDeployments = 1000
	maxRoutes      = 4000   // those of fallbacks included
	maxFields      = 50_000 // each as often as an alias (*name) repeats it
	maxNote        = 400    // bytes
)

// Read reads a configuration. file is its name in notes, keys the folder in
// which files will have the keys that stood in the configuration itself.
func Read(r io.Reader, file, keys string) (*Models, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%s: more than %d bytes", file, maxBytes)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s is not YAML: %s", file, faultAt.FindString(err.Error())) // no more: it may quote a key
	}
	b := &reader{file: file, keys: keys, index: make(map[string]int), providers: make(map[service]string)}
	if len(document.Content) > 0 {
		if err := b.document(field{"the configuration", 1, target(document.Content[0])}); err != nil {
			return nil, err
		}
	}
	if b.seen > maxFields {
		return nil, fmt.Errorf("%s: more than %d fields", file, maxFields)
	}
	slices.SortStableFunc(b.notes, func(a, b migrate.Note) int { return a.Line - b.Line })
	if err := b.config.Check(); err != nil { // each part was checked on its own
		return nil, errors.New("the models do not fit together: " + err.Error())
	}
	return &Models{b.config, b.notes}, nil
}

// faultAt finds the line in errors of the parser of YAML.
var faultAt = regexp.MustCompile(`line \d+`)

type reader struct {
	file, keys string
	config     model.Config
	notes      []migrate.Note
	index      map[string]int     // of models, by name and alias
	providers  map[service]string // their names
	routes     int
	seen       int // fields
}

func (r *reader) note(line int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text = strings.ToValidUTF8(text[:min(len(text), maxNote)], "")
	printable := func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '?'
	}
	r.notes = append(r.notes, migrate.Note{File: r.file, Line: line, Text: strings.Map(printable, text)})
}

// document takes the models first: the rest speaks of them.
func (r *reader) document(root field) error {
	sections := make(map[string]field)
	for _, f := range r.fields(root) {
		switch f.name {
		case "model_list", "router_settings", "litellm_settings", "general_settings":
			sections[f.name] = f
		case "include":
			r.note(f.line, "included files are not read: import each, and join the models")
		case "environment_variables":
			r.note(f.line, "environment_variables are not taken over: give them to the bridge's environment")
		default:
			r.note(f.line, "%q has no counterpart", f.name)
		}
	}
	if list, ok := sections["model_list"]; ok {
		deployments := r.items(list)
		if len(deployments) > maxDeployments {
			return fmt.Errorf("%s:%d: more than %d deployments", r.file, list.line, maxDeployments)
		}
		for _, f := range deployments {
			f.name = "the deployment"
			r.deployment(f)
		}
	} else {
		r.note(1, "there is no model_list")
	}
	for _, name := range []string{"router_settings", "litellm_settings", "general_settings"} { // the router's fallbacks win
		if f, ok := sections[name]; ok {
			r.settings(f)
		}
	}
	return nil
}

// add adds a route to a model, which may be new. It reports whether the model
// can be had.
func (r *reader) add(line int, name string, kind model.ModelKind, route model.Route) {
	i, known := r.index[name]
	made := model.ModelConfig{Name: name, Kind: kind}
	if known {
		made = r.config.Models[i]
	}
	if made.Kind != kind {
		r.note(line, "%q is for answers and for embeddings at once: this deployment is left out", name)
		return
	}
	made.Routes = append(slices.Clone(made.Routes), route)
	if !r.fits(made) {
		r.note(line, "%q cannot be a model with this deployment, which is left out: a name has letters, digits and ._:/@+- only, no wildcards, and the deployments of an embedding name one model that has embeddings", name)
		return
	}
	r.routes++
	if known {
		r.config.Models[i] = made
		return
	}
	r.index[name] = len(r.config.Models)
	r.config.Models = append(r.config.Models, made)
}

// fits reports whether a model on its own passes the check of configurations.
func (r *reader) fits(m model.ModelConfig) bool {
	alone := model.Config{Models: []model.ModelConfig{m}}
	for _, p := range r.config.Providers {
		if slices.ContainsFunc(m.Routes, func(route model.Route) bool { return route.Provider == p.Name }) {
			alone.Providers = append(alone.Providers, p)
		}
	}
	return alone.Check() == nil
}
