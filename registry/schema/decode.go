package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// decode reads a JSON value as the validator wants it. Numbers become exact
// where that is cheap and float64 where it is not: the validator computes with
// rationals, and 1e999999 as a rational has a million digits.
func decode(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is more than one JSON value")
	}
	return tame(v)
}

func tame(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return tameNumber(v)
	case map[string]any:
		for key, item := range v {
			if v[key], err = tame(item); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			if v[i], err = tame(item); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// maxDigits is how long a number may be written to be kept as it is.
const maxDigits = 32

func tameNumber(n json.Number) (any, error) {
	if len(n) <= maxDigits && !strings.ContainsAny(string(n), "eE") {
		return n, nil
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, errors.New("holds a number that is out of range")
	}
	return f, nil
}

// depth counts the levels of nested objects and arrays.
func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, item := range v {
			deepest = max(deepest, depth(item))
		}
	case []any:
		for _, item := range v {
			deepest = max(deepest, depth(item))
		}
	default:
		return 0
	}
	return deepest + 1
}
