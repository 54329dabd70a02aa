package schema

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A rawNode keeps JSON as it is.
type rawNode struct{ objectsOnly bool }

func newRaw(limits *tags) (node, error) {
	kind, ok := limits.take("type")
	if ok && kind != "object" {
		return nil, fmt.Errorf("tag type must be object")
	}
	return rawNode{objectsOnly: ok}, nil
}

func (n rawNode) decode(d *decoder, v reflect.Value) {
	if n.objectsOnly && !d.expect(anObject) {
		return
	}
	v.SetBytes(d.raw())
}

func (n rawNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	if v.Len() == 0 {
		return append(dst, "null"...), nil
	}
	return append(dst, v.Bytes()...), nil
}

func (n rawNode) schema() *object {
	if n.objectsOnly {
		return typed("object")
	}
	return new(object)
}

// An anyNode decodes what encoding/json makes of any value.
type anyNode struct{}

func (anyNode) decode(d *decoder, v reflect.Value) {
	if json.Unmarshal(d.raw(), v.Addr().Interface()) != nil {
		d.broken()
	}
}

func (anyNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	written, err := json.Marshal(v.Interface())
	return append(dst, written...), err
}

func (anyNode) schema() *object { return new(object) }

// A bytesNode decodes base64.
type bytesNode struct{ size bounds }

func newBytes(limits *tags) (node, error) {
	size, err := limits.len()
	return bytesNode{size}, err
}

func (n bytesNode) decode(d *decoder, v reflect.Value) {
	s, ok := d.text()
	if !ok {
		return
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		d.report("must be base64 with padding")
		return
	}
	if reason := n.size.check(len(decoded), "bytes"); reason != "" {
		d.report(reason)
		return
	}
	v.SetBytes(decoded)
}

func (n bytesNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
	return append(dst, '"'), nil
}

func (n bytesNode) schema() *object {
	return typed("string").set("contentEncoding", "base64").
		set("pattern", `^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`)
}

// A timeNode decodes RFC 3339.
type timeNode struct{}

func (timeNode) decode(d *decoder, v reflect.Value) {
	s, ok := d.text()
	if !ok {
		return
	}
	var at time.Time
	if at.UnmarshalText([]byte(s)) != nil { // stricter than time.Parse
		d.report("must be a time as in RFC 3339, 2006-01-02T15:04:05Z")
		return
	}
	v.Set(reflect.ValueOf(at))
}

func (timeNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	at := v.Interface().(time.Time)
	dst = append(dst, '"')
	dst = at.AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"'), nil
}

func (timeNode) schema() *object { return typed("string").set("format", "date-time") }

// A textNode leaves a string to the type's UnmarshalText.
type textNode struct{ document json.RawMessage }

func (textNode) decode(d *decoder, v reflect.Value) {
	if s, ok := d.text(); ok {
		readText(d, v, s)
	}
}

func (textNode) encode(dst []byte, v reflect.Value) ([]byte, error) { return writeText(dst, v) }

func (n textNode) schema() *object {
	if n.document != nil {
		return &object{verbatim: n.document}
	}
	return typed("string")
}

func readText(d *decoder, v reflect.Value, s string) {
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		d.reportError(err)
	}
}

func writeText(dst []byte, v reflect.Value) ([]byte, error) {
	w, ok := v.Interface().(encoding.TextMarshaler)
	if !ok {
		return protocol.AppendString(dst, fmt.Sprint(v.Interface())), nil
	}
	text, err := w.MarshalText()
	return protocol.AppendString(dst, string(text)), err
}

// A customNode leaves everything to the type.
type customNode struct{ document json.RawMessage }

func (n customNode) decode(d *decoder, v reflect.Value) {
	raw := d.raw()
	if d.halted {
		return
	}
	if err := v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw); err != nil {
		d.reportError(err)
	}
}

func (n customNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	return anyNode{}.encode(dst, v)
}

func (n customNode) schema() *object { return &object{verbatim: n.document} }

// A serialNode decodes certificate serials; a malformed one is 2005, not 1001.
type serialNode struct{}

func (serialNode) decode(d *decoder, v reflect.Value) {
	s, ok := d.text()
	if !ok {
		return
	}
	serial, err := protocol.ParseSerial(s)
	if err != nil {
		d.reportError(err)
		return
	}
	v.SetString(string(serial))
}

func (serialNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	return protocol.AppendString(dst, v.String()), nil
}

func (serialNode) schema() *object { return typed("string").set("pattern", "^[0-9a-fA-F]{16}$") }
