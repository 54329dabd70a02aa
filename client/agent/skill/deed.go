package skill

import (
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/protocol"
)

// A Deed is the rule by which a call of a capability is the same deed as another
// one. The bridge checks it against the schemas.
type Deed struct {
	Key       string // "" if no call is
	WindowMS  int64  // 0 if not stated
	Reconcile *Reconcile
}

// A Reconcile names the capability that tells whether a call of unknown outcome
// was done.
type Reconcile struct {
	Capability            protocol.CapabilityID
	Params, Done, NotDone map[string]any // of strings, numbers and booleans
}

// Bounds of effect_window_ms.
const (
	minWindow = 1000
	maxWindow = 24 * 60 * 60 * 1000
)

func (d *decoder) deed(fields *mapping) Deed {
	deed := Deed{Key: d.text(fields.optional("effect_key"), 1, 256)}
	if f := fields.optional("effect_window_ms"); f != nil {
		deed.WindowMS = d.integer(f, minWindow, maxWindow)
	}
	f := fields.optional("reconcile")
	if f == nil {
		return deed
	}
	if r := d.fields(f.value, f.path, "capability", "params", "done_when", "not_done_when"); r != nil {
		deed.Reconcile = &Reconcile{
			Capability: protocol.CapabilityID(d.text(r.required("capability"), 1, 64)),
			Params:     d.scalars(r.optional("params")),
			Done:       d.scalars(r.required("done_when")),
			NotDone:    d.scalars(r.optional("not_done_when")),
		}
	}
	return deed
}

func (d *decoder) integer(f *field, least, most int64) int64 {
	n, err := strconv.ParseInt(f.value.Value, 10, 64)
	if f.value.Kind != yaml.ScalarNode || f.value.ShortTag() != "!!int" || err != nil || n < least || n > most {
		d.fail(f, "must be a whole number from %d to %d", least, most)
		return 0
	}
	return n
}

// scalars reads a mapping of strings, numbers and booleans.
func (d *decoder) scalars(f *field) map[string]any {
	if f == nil {
		return nil
	}
	if f.value.Kind != yaml.MappingNode {
		d.fail(f, "must be a mapping, not %s", kindOf(f.value))
		return nil
	}
	values := make(map[string]any)
	for i := 0; i+1 < len(f.value.Content); i += 2 {
		name, node := f.value.Content[i].Value, f.value.Content[i+1]
		item := &field{path: join(f.path, name), value: node, line: f.value.Content[i].Line}
		var v any
		if node.Kind != yaml.ScalarNode || node.ShortTag() == "!!null" || node.Decode(&v) != nil {
			d.fail(item, "must be a string, a number or a boolean")
			continue
		}
		values[name] = v
	}
	return values
}
