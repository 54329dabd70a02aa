package entities

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

// An input is a topic on which Home Assistant sends commands.
type input struct {
	words map[string]call // by the payload
	value *parameter      // of any payload that fits; nil takes words alone
}

// A call is a capability with its params.
type call struct {
	capability protocol.CapabilityID
	params     json.RawMessage
	risky      bool
}

// A parameter is the one of a capability that a payload is the value of.
type parameter struct {
	capability protocol.CapabilityID
	name       string
	sort       string
	risky      bool
}

// maxCommand bounds a command of Home Assistant, in bytes.
const maxCommand = 4 << 10

// call is the call that a payload asks for.
func (in *input) call(payload []byte) (call, error) {
	if len(payload) > maxCommand || !utf8.Valid(payload) {
		return call{}, errors.New("the payload is too long, or no text")
	}
	if c, ok := in.words[string(payload)]; ok {
		return c, nil
	}
	if in.value == nil {
		return call{}, errors.New("the payload is none of the words that are announced")
	}
	v, err := valueOf(in.value.sort, string(payload))
	if err != nil {
		return call{}, err
	}
	params, err := json.Marshal(map[string]any{in.value.name: v})
	return call{in.value.capability, params, in.value.risky}, err
}

// valueOf is a payload as a sort of value. The range is for the schema of the
// capability to judge.
func valueOf(sort, payload string) (any, error) {
	switch sort {
	case "number", "integer":
		f, err := strconv.ParseFloat(strings.TrimSpace(payload), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("the payload is no number")
		}
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), nil
		}
		return f, nil
	}
	return payload, nil
}

// words is an input that takes one word for each capability.
func words(of map[string]*Capability) input {
	in := input{words: map[string]call{}}
	for word, c := range of {
		in.words[word] = call{c.ID, json.RawMessage("{}"), c.risky()}
	}
	return in
}

// valued is an input whose payload is a parameter.
func valued(c *Capability, name, sort string) input {
	if sort == "boolean" {
		set := func(v bool) call {
			params, _ := json.Marshal(map[string]bool{name: v}) // cannot fail
			return call{c.ID, params, c.risky()}
		}
		return input{words: map[string]call{on: set(true), off: set(false)}}
	}
	return input{value: &parameter{c.ID, name, sort, c.risky()}}
}

// The payloads of entities that are on or off.
const (
	on  = "ON"
	off = "OFF"
)
