package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// schema is the version of what records hold. It rises when older bridges
// could not read new records; they then refuse them by name.
const schema = 1

// A stored value is {"v":SCHEMA,"d":VALUE}, written exactly so.
const (
	recordOpen  = `{"v":`
	recordValue = `,"d":`
	recordClose = `}`
)

// encodeRecord returns what is stored for v.
func encodeRecord[T any](v *T) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, 512))
	buf.WriteString(recordOpen)
	buf.WriteString(strconv.Itoa(schema))
	buf.WriteString(recordValue)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the value: %w", err)
	}
	buf.Truncate(buf.Len() - 1) // the encoder's newline
	buf.WriteString(recordClose)
	return buf.Bytes(), nil
}

// decodeRecord is the inverse of encodeRecord.
func decodeRecord[T any](data []byte) (*T, error) {
	rest, ok := bytes.CutPrefix(data, []byte(recordOpen))
	if !ok {
		return nil, fmt.Errorf("not a record: it does not begin with %s", recordOpen)
	}
	number, rest, ok := bytes.Cut(rest, []byte(recordValue))
	version, err := strconv.Atoi(string(number))
	if !ok || err != nil || version < 1 {
		return nil, fmt.Errorf("not a record: no schema version")
	}
	if version > schema {
		return nil, fmt.Errorf("written by a newer bridge: schema version %d, this one knows up to %d", version, schema)
	}
	body, ok := bytes.CutSuffix(rest, []byte(recordClose))
	if !ok {
		return nil, fmt.Errorf("not a record: it is cut off")
	}
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		return nil, fmt.Errorf("decode the value: %w", err)
	}
	return v, nil
}
