package tools

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/aibridge/aibridge/llm/chat"
)

// prepared holds everything that is derived from a declaration once.
type prepared struct {
	err      error // the fault of the declaration; the other fields are empty then
	warnings []string
	shape    *node
	hash     [sha256.Size]byte
	offer    chat.Tool
	terms    []term // words of its texts, for retrieval
}

// prepare returns the prepared form of a tool, derived once.
func (t *Tool) prepare() *prepared {
	if p := t.prepared.Load(); p != nil {
		return p
	}
	p := derive(&t.Declaration)
	t.prepared.CompareAndSwap(nil, p)
	return t.prepared.Load()
}

func derive(d *Declaration) *prepared {
	p := new(prepared)
	if p.warnings, p.err = d.Check(); p.err != nil {
		return p
	}
	shape, err := shapeOf(d)
	if err != nil {
		p.err = fmt.Errorf("tool %q: the schema of its parameters %w", d.Name, err)
		return p
	}
	p.shape = shape
	p.hash = d.hash()
	p.offer = chat.Tool{Name: d.Name, Description: d.Told(), Parameters: d.JSONSchema()}
	if strict, ok := d.StrictSchema(); ok && (d.Strict || !shape.hasOptional()) {
		p.offer.Parameters, p.offer.Strict = strict, true
	}
	p.terms = termsOf(d)
	return p
}

// hasOptional reports whether there are optional arguments.
func (n *node) hasOptional() bool {
	for i := range n.members.list {
		m := &n.members.list[i]
		if !m.required || m.node != nil && m.node.hasOptional() {
			return true
		}
	}
	return n.items != nil && n.items.hasOptional()
}

// Hash is the hash of the part of the declaration that callers and models see. An
// approval given for one declaration does not hold for another.
func (t *Tool) Hash() [sha256.Size]byte { return t.prepare().hash }

func (d *Declaration) hash() [sha256.Size]byte {
	told := *d
	told.Pinned, told.Timeout = false, 0
	text, err := json.Marshal(told)
	if err != nil { // a schema that is no JSON
		text = fmt.Appendf(nil, "%+v", told)
	}
	return sha256.Sum256(text)
}
