package cap

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
)

// A DataType says what kind of value is shared.
type DataType string

// The types of data. An integer is a number without a fraction, a float any
// number, JSON any value but null, and a binary value a string in standard
// base64.
const (
	String  DataType = "string"
	Number  DataType = "number"
	Integer DataType = "integer"
	Float   DataType = "float"
	Boolean DataType = "boolean"
	Object  DataType = "object"
	Array   DataType = "array"
	JSON    DataType = "json"
	Binary  DataType = "binary"
)

// A Datum is one value of a group, as stored. It is immutable.
type Datum struct {
	Space     protocol.SpaceID `json:"space_id"`
	Cap       protocol.CapID   `json:"cap_id"`
	Group     protocol.GroupID `json:"group_id"`
	Key       protocol.DataKey `json:"data_key"`
	Type      DataType         `json:"data_type"`
	Value     json.RawMessage  `json:"data_value"`
	UpdatedAt int64            `json:"updated_at"` // Unix milliseconds
	UpdatedBy string           `json:"updated_by"` // sender of the request
}

// KeptFor names the budget of records that it uses: the budget of its space.
func (d *Datum) KeptFor() protocol.Party { return protocol.Party{Space: d.Space} }

func (d *Datum) key() string { return dataKey(d.Space, d.Cap, d.Group, d.Key) }

// A dataRef names a value.
type dataRef struct {
	space protocol.SpaceID
	cap   protocol.CapID
	group protocol.GroupID
	key   protocol.DataKey
}

func (d *Datum) ref() dataRef { return dataRef{d.Space, d.Cap, d.Group, d.Key} }

func (r dataRef) tableKey() string { return dataKey(r.space, r.cap, r.group, r.key) }

// maxValue is the length of a value as JSON at most, in bytes. Larger things are
// files.
const maxValue = 64 << 10

// check returns the error of a value that is not of the type.
func (t DataType) check(value json.RawMessage) error {
	if len(value) > maxValue {
		return protocol.Errorf(protocol.PayloadTooLarge, "data_value has %d bytes, at most %d are possible; keep larger values as files", len(value), maxValue).
			With("param_name", "data_value").With("limit", maxValue)
	}
	found := typeOf(value)
	if t == Binary && found == String {
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return protocol.InvalidParam("data_value", "must be a string")
		}
		if _, err := base64.StdEncoding.Strict().DecodeString(text); err != nil {
			return protocol.InvalidParam("data_value", "is not standard base64: "+err.Error())
		}
		return nil
	}
	if !t.holds(found, value) {
		return protocol.InvalidParam("data_value", fmt.Sprintf("must be %s, as data_type says, is %s", t.article(), found.article()))
	}
	return nil
}

// holds reports whether a value whose JSON is of the type found is one of t.
func (t DataType) holds(found DataType, value json.RawMessage) bool {
	switch t {
	case JSON:
		return found != ""
	case Float:
		return found == Number
	case Integer:
		return found == Number && whole(value)
	}
	return found == t
}

// whole reports whether a JSON number has no fraction: 21, 21.0 and 2.1e1 have
// none. Numbers that float64 cannot tell from whole ones count as such.
func whole(number json.RawMessage) bool {
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(number)), 64)
	return err == nil && f == math.Trunc(f)
}

func (t DataType) article() string {
	switch t {
	case Object, Array, Integer:
		return "an " + string(t)
	case JSON:
		return "any value but null"
	case Binary:
		return "a string in base64"
	case "":
		return "null"
	}
	return "a " + string(t)
}

// typeOf is the type of a JSON value, "" of null.
func typeOf(value json.RawMessage) DataType {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 't', 'f':
		return Boolean
	case 'n':
		return ""
	}
	return Number
}
