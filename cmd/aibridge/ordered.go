package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// An orderedObject is a JSON object whose fields keep their order: the bridge puts
// the most important ones first.
type orderedObject struct {
	names  []string
	values map[string]any // as parseOrdered has them
	raw    json.RawMessage
}

// parseOrdered is a JSON value as Go has it, with [json.Number] for numbers and
// *[orderedObject] for objects; nil also for invalid JSON.
func parseOrdered(raw json.RawMessage) any {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '{':
		return parseObject(raw)
	case '[':
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return nil
		}
		list := make([]any, len(items))
		for i, item := range items {
			list[i] = parseOrdered(item)
		}
		return list
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return nil
	}
	return value
}

func parseObject(raw json.RawMessage) any {
	object := &orderedObject{values: make(map[string]any), raw: raw}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil { // the brace
		return nil
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil
		}
		text, _ := name.(string)
		if _, twice := object.values[text]; !twice {
			object.names = append(object.names, text)
		}
		object.values[text] = parseOrdered(value)
	}
	return object
}

// without is the object in JSON without a field.
func (o *orderedObject) without(name string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(o.raw, &fields); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	for _, field := range o.names {
		if field == name {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, err := json.Marshal(field)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), fields[field]...)
	}
	return append(out, '}'), nil
}

// with is the object with the fields of another one in place of one of its own.
func (o *orderedObject) with(at int, inner *orderedObject) *orderedObject {
	made := &orderedObject{names: slices.Concat(o.names[:at], inner.names, o.names[at+1:]), values: maps.Clone(o.values), raw: o.raw}
	maps.Copy(made.values, inner.values)
	return made
}
