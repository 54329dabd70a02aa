package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxArgumentFile bounds the file of an argument @file, in bytes.
const maxArgumentFile = 64 << 20

// parseArguments turns k=v words into parameters. A word @file is an object
// read from a file ("@-" for standard input) that later words add to, and a word
// {…} is such an object itself. Dots
// lead into objects (params.celsius=25). A value is taken as the type that the
// command's schema wants, a list also as words with commas between; where the schema is
// silent, as JSON if it is JSON and as text otherwise.
func parseArguments(words []string, schema json.RawMessage, stdin io.Reader) (map[string]any, error) {
	params := make(map[string]any)
	for _, word := range words {
		if path, ok := strings.CutPrefix(word, "@"); ok {
			if err := readArguments(path, stdin, params); err != nil {
				return nil, err
			}
			continue
		}
		if strings.HasPrefix(word, "{") {
			if err := json.Unmarshal([]byte(word), &params); err != nil {
				return nil, usageError{fmt.Errorf("%.40q…: %w", word, err)}
			}
			continue
		}
		key, text, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return nil, usageError{fmt.Errorf("%q is neither name=value nor {…} nor @file", word)}
		}
		path := strings.Split(key, ".")
		if err := put(params, path, typed(text, typeAt(schema, path))); err != nil {
			return nil, usageError{err}
		}
	}
	return params, nil
}

func readArguments(path string, stdin io.Reader, params map[string]any) error {
	r := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		r = file
	}
	data, err := io.ReadAll(io.LimitReader(r, maxArgumentFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &params); err != nil {
		return usageError{fmt.Errorf("@%s: %w", path, err)}
	}
	return nil
}

// put sets a value at a path, making the objects on the way.
func put(into map[string]any, path []string, value any) error {
	for i, key := range path[:len(path)-1] {
		switch next := into[key].(type) {
		case nil:
			fresh := make(map[string]any)
			into[key], into = fresh, fresh
		case map[string]any:
			into = next
		default:
			return fmt.Errorf("%s is already a value, not an object", strings.Join(path[:i+1], "."))
		}
	}
	into[path[len(path)-1]] = value
	return nil
}

// typeAt is the JSON type that a schema gives to a path, "" if it gives none.
func typeAt(schema json.RawMessage, path []string) string {
	var node struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	for {
		if json.Unmarshal(schema, &node) != nil {
			return ""
		}
		if len(path) == 0 {
			kind, _ := node.Type.(string)
			return kind
		}
		next, ok := node.Properties[path[0]]
		if !ok {
			return ""
		}
		schema, path = next, path[1:]
		node.Type, node.Properties = nil, nil
	}
}

// typed reads text as a JSON value of the wanted type.
func typed(text, kind string) any {
	if kind == "string" {
		return text
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	if kind == "array" {
		return strings.Split(text, ",")
	}
	return text // wrong for a number, which the bridge explains better
}
