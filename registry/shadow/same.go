package shadow

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// same reports whether two values are the same, numbers by their value: a reported
// 21.0 equals a desired 21.
func same(a, b any) bool {
	switch a := a.(type) {
	case object:
		b, ok := b.(object)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			if w, there := b[name]; !there || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || decimalOf(string(a)) == decimalOf(string(b)))
	}
	return a == b
}

// A decimal is the value of a number, however it is written: digits without
// zeros at either end, times ten to the exponent. Zero has no digits.
type decimal struct {
	negative bool
	digits   string
	exponent string // a whole number, of any size
}

// decimalOf reads a number of JSON. It takes time and memory for its text only,
// however large its exponent is.
func decimalOf(text string) decimal {
	number, negative := strings.CutPrefix(text, "-")
	number, power, _ := strings.Cut(strings.ReplaceAll(number, "E", "e"), "e")
	whole, fraction, _ := strings.Cut(number, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return decimal{}
	}
	shift := int64(len(digits) - len(significant) - len(fraction))
	return decimal{negative, significant, plus(power, shift)}
}

// plus is a whole number in digits, "" for zero, and a small one.
func plus(digits string, shift int64) string {
	if digits == "" {
		return strconv.FormatInt(shift, 10)
	}
	if n, err := strconv.ParseInt(digits, 10, 32); err == nil {
		return strconv.FormatInt(n+shift, 10)
	}
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok { // no number of JSON
		return digits
	}
	return n.Add(n, big.NewInt(shift)).String()
}
