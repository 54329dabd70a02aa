package store

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/aibridge/aibridge/internal/records"
)

// schema is the highest version of the fields of records. It rises when older
// bridges could not read new records; they then refuse them by name. A record has
// the lowest version that covers its fields, see [records.Versioned].
const schema = 3

// A stored value is {"v":SCHEMA,"d":VALUE}, written exactly so.
const (
	recordOpen  = `{"v":`
	recordValue = `,"d":`
	recordClose = `}`
)

// encodeRecord returns the stored form of v.
func encodeRecord[T any](v *T) ([]byte, error) {
	if v == nil {
		return nil, errors.New("store: no value to store")
	}
	buf := bytes.NewBuffer(make([]byte, 0, 512))
	buf.WriteString(recordOpen)
	buf.WriteString(strconv.Itoa(schemaOf(v)))
	buf.WriteString(recordValue)
	if err := records.Encode(buf, v); err != nil {
		return nil, fmt.Errorf("store: encode the value: %w", err)
	}
	buf.WriteString(recordClose)
	return buf.Bytes(), nil
}

// schemaOf is the version that a record needs.
func schemaOf(v any) int {
	if versioned, ok := v.(records.Versioned); ok {
		return versioned.Schema()
	}
	return 1
}

// decodeRecord is the inverse of encodeRecord.
func decodeRecord[T any](data []byte) (*T, error) {
	value, err := openRecord(data)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := records.Decode(value, v); err != nil {
		return nil, fmt.Errorf("decode the value: %w", err)
	}
	return v, nil
}

// openRecord returns the value in a record of a version that is known here.
func openRecord(data []byte) (value []byte, err error) {
	rest, ok := bytes.CutPrefix(data, []byte(recordOpen))
	if !ok {
		return nil, fmt.Errorf("not a record: it does not begin with %s", recordOpen)
	}
	number, rest, ok := bytes.Cut(rest, []byte(recordValue))
	version, err := strconv.Atoi(string(number))
	if !ok || err != nil || version < 1 {
		return nil, errors.New("not a record: it has no schema version")
	}
	if version > schema {
		return nil, fmt.Errorf("written by a newer bridge: schema version %d, this one knows up to %d", version, schema)
	}
	value, ok = bytes.CutSuffix(rest, []byte(recordClose))
	if !ok {
		return nil, errors.New("not a record: it is cut off")
	}
	return value, nil
}
