package schema

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// An intNode decodes signed integers.
type intNode struct {
	min, max int64
	bits     int
	enum     []string
}

func newInt(t reflect.Type, limits *tags) (node, error) {
	n := &intNode{min: math.MinInt64 >> (64 - t.Bits()), max: math.MaxInt64 >> (64 - t.Bits()), bits: t.Bits()}
	low, high, err := limits.interval()
	if err != nil {
		return nil, err
	}
	if low != "" {
		if n.min, err = strconv.ParseInt(low, 10, n.bits); err != nil {
			return nil, fmt.Errorf("tag range: %w", err)
		}
	}
	if high != "" {
		if n.max, err = strconv.ParseInt(high, 10, n.bits); err != nil {
			return nil, fmt.Errorf("tag range: %w", err)
		}
	}
	if n.max < n.min {
		return nil, fmt.Errorf("tag range is empty")
	}
	n.enum, err = integers(limits)
	return n, err
}

// integers takes an enum of whole numbers.
func integers(limits *tags) ([]string, error) {
	values, err := limits.enum()
	for _, v := range values {
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			return nil, fmt.Errorf("tag enum: %w", err)
		}
	}
	return values, err
}

func (n *intNode) decode(d *decoder, v reflect.Value) {
	if !d.expect(anInteger) {
		return
	}
	i, reason := parseInt(string(d.literal()))
	switch {
	case reason != "":
		d.report(reason)
	case n.enum != nil && !slices.Contains(n.enum, strconv.FormatInt(i, 10)):
		d.report(oneOf(n.enum, strconv.FormatInt(i, 10)))
	case i < n.min || i > n.max:
		d.report(fmt.Sprintf("must be %d to %d, is %d", n.min, n.max, i))
	default:
		v.SetInt(i)
	}
}

const (
	notWhole = "must be an integer"
	tooLarge = "is too large"
	exact    = 1 << 53 // every integer up to here is exact as a float64
)

// parseInt reads an integer, also when it is written as 1.0 or 1e3.
func parseInt(text string) (int64, string) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, ""
	}
	if !strings.ContainsAny(text, ".eE") {
		return 0, tooLarge
	}
	f, reason := parseFloat(text, 64)
	switch {
	case reason != "":
		return 0, reason
	case f != math.Trunc(f):
		return 0, notWhole
	case math.Abs(f) > exact:
		return 0, tooLarge
	}
	return int64(f), ""
}

func parseFloat(text string, bits int) (float64, string) {
	f, err := strconv.ParseFloat(text, bits)
	switch {
	case err == nil:
		return f, ""
	case math.IsInf(f, 0):
		return 0, tooLarge
	}
	return 0, "is not a number"
}

func (n *intNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendInt(dst, v.Int(), 10), nil
}

func (n *intNode) schema() *object {
	o := typed("integer")
	if n.min != math.MinInt64 {
		o.set("minimum", n.min)
	}
	if n.max != math.MaxInt64 {
		o.set("maximum", n.max)
	}
	return describeNumbers(o, n.enum)
}

func describeNumbers(o *object, enum []string) *object {
	if enum == nil {
		return o
	}
	numbers := make([]int64, len(enum))
	for i, text := range enum {
		numbers[i], _ = strconv.ParseInt(text, 10, 64) // checked when taken
	}
	return o.set("enum", numbers)
}

// A uintNode decodes unsigned integers.
type uintNode struct{ min, max uint64 }

func newUint(t reflect.Type, limits *tags) (node, error) {
	n := &uintNode{max: math.MaxUint64 >> (64 - t.Bits())}
	low, high, err := limits.interval()
	if err != nil {
		return nil, err
	}
	if low != "" {
		if n.min, err = strconv.ParseUint(low, 10, t.Bits()); err != nil {
			return nil, fmt.Errorf("tag range: %w", err)
		}
	}
	if high != "" {
		if n.max, err = strconv.ParseUint(high, 10, t.Bits()); err != nil {
			return nil, fmt.Errorf("tag range: %w", err)
		}
	}
	if n.max < n.min {
		return nil, fmt.Errorf("tag range is empty")
	}
	return n, nil
}

func (n *uintNode) decode(d *decoder, v reflect.Value) {
	if !d.expect(anInteger) {
		return
	}
	text := string(d.literal())
	u, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		i, reason := parseInt(text)
		if reason == "" && i < 0 {
			reason = fmt.Sprintf("must be %d to %d, is %d", n.min, n.max, i)
		}
		if reason != "" {
			d.report(reason)
			return
		}
		u = uint64(i)
	}
	if u < n.min || u > n.max {
		d.report(fmt.Sprintf("must be %d to %d, is %d", n.min, n.max, u))
		return
	}
	v.SetUint(u)
}

func (n *uintNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendUint(dst, v.Uint(), 10), nil
}

func (n *uintNode) schema() *object {
	o := typed("integer").set("minimum", n.min)
	if n.max != math.MaxUint64 {
		o.set("maximum", n.max)
	}
	return o
}

// A floatNode decodes numbers.
type floatNode struct {
	bits     int
	min, max float64
}

func newFloat(t reflect.Type, limits *tags) (node, error) {
	n := &floatNode{bits: t.Bits(), min: math.Inf(-1), max: math.Inf(1)}
	low, high, err := limits.interval()
	if err != nil {
		return nil, err
	}
	if low != "" {
		if n.min, err = strconv.ParseFloat(low, 64); err != nil {
			return nil, fmt.Errorf("tag range: %w", err)
		}
	}
	if high != "" {
		if n.max, err = strconv.ParseFloat(high, 64); err != nil {
			return nil, fmt.Errorf("tag range: %w", err)
		}
	}
	if n.max < n.min {
		return nil, fmt.Errorf("tag range is empty")
	}
	return n, nil
}

func (n *floatNode) decode(d *decoder, v reflect.Value) {
	if !d.expect(aNumber) {
		return
	}
	f, reason := parseFloat(string(d.literal()), n.bits)
	switch {
	case reason != "":
		d.report(reason)
	case f < n.min:
		d.report(fmt.Sprintf("must be at least %v, is %v", n.min, f))
	case f > n.max:
		d.report(fmt.Sprintf("must be at most %v, is %v", n.max, f))
	default:
		v.SetFloat(f)
	}
}

func (n *floatNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	f := v.Float()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, fmt.Errorf("%v has no place in JSON", f)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, n.bits), nil
}

func (n *floatNode) schema() *object {
	o := typed("number")
	if !math.IsInf(n.min, 0) {
		o.set("minimum", n.min)
	}
	if !math.IsInf(n.max, 0) {
		o.set("maximum", n.max)
	}
	return o
}
