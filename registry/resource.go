package registry

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// A Resource is something in a space that is not an agent or a skill: a
// device, a room, a data set. The bridge keeps it and knows no more about it.
type Resource struct {
	ID          protocol.ResourceID `json:"resource_id" doc:"unique in its space"`
	Name        string              `json:"name" len:"1-128" text:"line" doc:"for people"`
	Type        string              `json:"type" len:"1-32" text:"line" doc:"kind of resource: device, room"`
	Status      string              `json:"status,omitempty" len:"1-32" text:"line" default:"active" doc:"whatever its owner says about it"`
	Description string              `json:"description,omitempty" len:"1-512" text:"lines" doc:"kind"`
	Properties  json.RawMessage     `json:"properties,omitempty" type:"object" doc:"anything else, up to 16 KiB"`
}

// maxProperties bounds the properties of a resource, in bytes.
const maxProperties = 16 << 10

// Validate checks the rules that the tags of the fields cannot express.
func (r *Resource) Validate() error {
	if len(r.Properties) > maxProperties {
		return protocol.InvalidParam("properties", "may have at most 16384 bytes")
	}
	return nil
}

// A ResourceRecord is a registered resource, as stored. It is immutable.
type ResourceRecord struct {
	Resource
	Space     protocol.SpaceID `json:"space_id"`
	Owner     protocol.Party   `json:"owner"`      // the party that registered it
	UpdatedAt int64            `json:"updated_at"` // Unix milliseconds
}

// KeptFor is the party whose budget of records the resource uses.
func (r *ResourceRecord) KeptFor() protocol.Party { return r.Owner }
