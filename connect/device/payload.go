package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aibridge/aibridge/connect/template"
)

// maxTopic bounds a topic, in bytes.
const maxTopic = 512

// CheckTopic says why a text is no topic of a plain device: it is none at all, it
// has wildcards, it begins with $, or it is below the root of the bridge's own.
func CheckTopic(topic, root string) error {
	first, _, _ := strings.Cut(topic, "/")
	switch {
	case topic == "":
		return errors.New("a topic is needed")
	case len(topic) > maxTopic:
		return fmt.Errorf("a topic has at most %d bytes", maxTopic)
	case !utf8.ValidString(topic) || strings.ContainsFunc(topic, unicode.IsControl):
		return errors.New("the topic has characters that may not be in one")
	case strings.ContainsAny(topic, "+#"):
		return errors.New("the topic has a wildcard: it must be one topic")
	case strings.HasPrefix(topic, "$"):
		return errors.New("topics that begin with $ are the server's")
	case first == root:
		return fmt.Errorf("topics below %s are the bridge's own", root)
	}
	return nil
}

// A Topic is a topic with templates in it.
type Topic struct{ template *template.Template }

// ParseTopic reads a topic. What its templates make may not reach beyond one
// level.
func ParseTopic(source, root string) (Topic, error) {
	t, err := template.Parse(source)
	if err != nil {
		return Topic{}, err
	}
	if t.Constant() {
		err = CheckTopic(source, root)
	}
	return Topic{t}, err
}

// Template is the topic as a template.
func (t Topic) Template() *template.Template { return t.template }

// Render makes the topic for params.
func (t Topic) Render(vars template.Vars, root string) (string, error) {
	topic, err := t.template.RenderEach(vars, level)
	if err != nil {
		return "", err
	}
	return topic, CheckTopic(topic, root)
}

// level checks that a value is one level of a topic, or a part of one.
func level(v string) (string, error) {
	if v == "" || strings.ContainsAny(v, "/+#\x00") {
		return "", fmt.Errorf("%.60q may not be in a topic: it is empty, or has a slash or a wildcard", v)
	}
	return v, nil
}

// A Payload is the payload of a message: a text with templates, or JSON whose texts
// may be templates.
type Payload struct {
	text *template.Template
	json any // with *template.Template for every text
}

// TextPayload is a payload that is a text.
func TextPayload(t *template.Template) Payload { return Payload{text: t} }

// JSONPayload is a payload of JSON: a tree as template.FromJSON makes it, with
// templates for its texts. A text that is one expression becomes its value, of
// the value's own type; a member whose parameter is not given is left out.
func JSONPayload(tree any) Payload { return Payload{json: tree} }

// Render makes the payload for params.
func (p Payload) Render(vars template.Vars) ([]byte, error) {
	if p.text != nil {
		s, err := p.text.Render(vars)
		return []byte(s), err
	}
	tree, err := filled(p.json, vars)
	if err != nil {
		return nil, err
	}
	text, err := template.ToJSON(tree)
	return []byte(text), err
}

// filled is a tree with the values of its templates.
func filled(tree any, vars template.Vars) (any, error) {
	switch node := tree.(type) {
	case *template.Template:
		return node.Value(vars)
	case map[string]any:
		full := make(map[string]any, len(node))
		for _, name := range slices.Sorted(maps.Keys(node)) {
			v, err := filled(node[name], vars)
			_, leaf := node[name].(*template.Template)
			switch {
			case leaf && errors.Is(err, template.ErrUndefined):
				continue
			case err != nil:
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			full[name] = v
		}
		return full, nil
	case []any:
		full := make([]any, len(node))
		for i := range node {
			v, err := filled(node[i], vars)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			full[i] = v
		}
		return full, nil
	}
	return tree, nil
}

// A Message is a message that is published for a capability.
type Message struct {
	Topic   string
	Payload []byte
	QoS     byte
	Retain  bool
}

// Messages are the publications of a capability for params, in order.
func (c *Capability) Messages(params json.RawMessage, root string) ([]Message, error) {
	vars, err := paramVars(params)
	if err != nil {
		return nil, err
	}
	var list []Message
	for i := range c.Publish {
		p := &c.Publish[i]
		if p.When != nil {
			v, err := p.When.Value(vars)
			if err != nil && !errors.Is(err, template.ErrUndefined) {
				return nil, err
			}
			if err != nil || !template.True(v) {
				continue
			}
		}
		vars, err := p.let(vars)
		if err != nil {
			return nil, err
		}
		topic, err := p.Topic.Render(vars, root)
		if err != nil {
			return nil, fmt.Errorf("the topic: %w", err)
		}
		payload, err := p.Payload.Render(vars)
		if err != nil {
			return nil, fmt.Errorf("the payload: %w", err)
		}
		list = append(list, Message{topic, payload, p.QoS, p.Retain})
	}
	return list, nil
}

// let are the variables of a publication.
func (p *Publication) let(params template.Vars) (template.Vars, error) {
	if len(p.Let) == 0 {
		return params, nil
	}
	vars := maps.Clone(params)
	for name, made := range p.Let {
		v, err := made.Value(params)
		switch {
		case errors.Is(err, template.ErrUndefined):
			delete(vars, name)
		case err != nil:
			return nil, err
		default:
			vars[name] = v
		}
	}
	return vars, nil
}

// paramVars are params as variables: each by its name.
func paramVars(params json.RawMessage) (template.Vars, error) {
	if len(params) == 0 {
		return template.Vars{}, nil
	}
	v, err := template.FromJSON(params)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the params are no object")
	}
	return object, nil
}
