package protocol

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"time"
)

// NewRequest builds a request with an id and a trace of its own, made now.
// Params are the command's parameters, marshalled with encoding/json unless it
// is raw JSON already ([]byte or [json.RawMessage]); nil means none.
func NewRequest(command string, params any) (*Request, error) {
	raw, err := marshalParams(params)
	if err != nil {
		return nil, err
	}
	return &Request{
		Version:   Version,
		ID:        NewID(),
		Timestamp: time.Now().UnixMilli(),
		Command:   command,
		Params:    raw,
		Metadata:  Metadata{TraceID: NewID(), Timeout: DefaultTimeout},
	}, nil
}

func marshalParams(params any) ([]byte, error) {
	switch p := params.(type) {
	case nil:
		return []byte("{}"), nil
	case []byte:
		return checkParams(p)
	case json.RawMessage:
		return checkParams(p)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, Wrap(InvalidParameter, err, "params cannot be written as JSON: "+err.Error())
	}
	return checkParams(raw)
}

func checkParams(raw []byte) ([]byte, error) {
	if err := CheckJSON(raw, Limits{}); err != nil {
		return nil, err
	}
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '{':
			return raw, nil
		}
		break
	}
	return nil, InvalidParam("params", "must be an object")
}

// NewID makes a random id for an envelope, a UUID of version 4.
func NewID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails, see crypto/rand
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], u[:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:], u[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
