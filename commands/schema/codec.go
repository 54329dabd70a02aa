package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
)

// dialect is the JSON Schema version of everything this package writes.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// A Codec decodes, encodes and describes values of one type.
type Codec struct {
	typ      reflect.Type
	root     node
	document json.RawMessage
	fields   []Field
}

// A node is the codec of one place in a type.
type node interface {
	// decode reads the next value into v. Faults of it are reported
	// to d; the value is consumed in any case.
	decode(d *decoder, v reflect.Value)
	// encode appends v as JSON.
	encode(dst []byte, v reflect.Value) ([]byte, error)
	// schema describes the values that decode accepts.
	schema() *object
}

// A Flag is a boolean that callers may send among the parameters, though it is not for
// the command but for its runner.
type Flag struct{ Name, Doc string }

// ForParams compiles the parameter struct of a command. Everything in it must
// be decodable and described by valid tags. The flag is optional.
func ForParams(t reflect.Type, flag *Flag) (*Codec, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("parameters must be a struct, not %s", t)
	}
	return compileCodec(t, compiler{flag: flag})
}

// ForResult compiles the result of a command. Types that JSON Schema cannot
// tell apart are described as anything.
func ForResult(t reflect.Type) (*Codec, error) {
	return compileCodec(t, compiler{result: true})
}

// codecs holds the compiled codecs by their recipe. Codecs never change, commands
// share types, and a bridge lists its commands several times when it starts.
var codecs sync.Map

// A recipe names everything that a codec depends on.
type recipe struct {
	typ    reflect.Type
	result bool
	flag   Flag // the zero Flag for none
}

func compileCodec(t reflect.Type, c compiler) (*Codec, error) {
	key := recipe{typ: t, result: c.result}
	if c.flag != nil {
		key.flag = *c.flag
	}
	if known, ok := codecs.Load(key); ok {
		return known.(*Codec), nil
	}
	root, err := c.compile(t, &tags{})
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(withDialect(root.schema()))
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, err)
	}
	codec := &Codec{typ: t, root: root, document: document}
	collect(&codec.fields, "", root)
	codecs.Store(key, codec)
	return codec, nil
}

func withDialect(o *object) *object {
	return &object{verbatim: o.verbatim, members: append([]member{{"$schema", dialect}}, o.members...)}
}

// JSON is the JSON Schema of the type. It must not be changed.
func (c *Codec) JSON() json.RawMessage { return c.document }

// Decode reads data, one JSON value that passed protocol.CheckJSON, into the
// value that into points to, and returns whether the flag was set. Raw JSON in
// the value aliases data. A refusal is a *protocol.Error that names the
// parameter.
func (c *Codec) Decode(data []byte, into any) (flag bool, err error) {
	v := reflect.ValueOf(into).Elem()
	d := decoders.Get().(*decoder)
	d.start(data)
	c.root.decode(d, v)
	flag, err = d.flag, d.finish()
	decoders.Put(d)
	return flag, err
}

// Encode writes the value that from points to as JSON. Raw JSON in it is
// copied unchecked.
func (c *Codec) Encode(from any) (exact json.RawMessage, err error) {
	c.EncodeFor(from, func(written json.RawMessage, failed error) { exact, err = bytes.Clone(written), failed })
	return exact, err
}

// EncodeFor is Encode for callers that need the output only until use returns.
func (c *Codec) EncodeFor(from any, use func(json.RawMessage, error)) {
	buffer := buffers.Get().(*[]byte)
	written, err := c.root.encode((*buffer)[:0], reflect.ValueOf(from).Elem())
	if err != nil {
		use(nil, err)
		return
	}
	use(written, nil)
	if cap(written) <= maxBuffer {
		*buffer = written
		buffers.Put(buffer)
	}
}

// The working memory of a call is reused.
var (
	decoders = sync.Pool{New: func() any { return new(decoder) }}
	buffers  = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}
)

// maxBuffer is the largest buffer that is kept for reuse, in bytes.
const maxBuffer = 64 << 10
