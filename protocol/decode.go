package protocol

import (
	"encoding/json"
	"time"
)

type plain struct {
	Version   string          `json:"version"`
	ID        string          `json:"id"`
	Timestamp int64           `json:"timestamp"`
	Type      string          `json:"type"`
	Command   string          `json:"command"`
	Event     string          `json:"event"`
	Seq       uint64          `json:"seq"`
	Status    string          `json:"status"`
	Params    json.RawMessage `json:"params"`
	Extension json.RawMessage `json:"extension"`
	Result    json.RawMessage `json:"result"`
	Data      json.RawMessage `json:"data"`
	Error     *struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	} `json:"error"`
	Metadata struct {
		SenderID string   `json:"sender_id"`
		TraceID  string   `json:"trace_id"`
		Priority Priority `json:"priority"`
		Timeout  int64    `json:"timeout"`
		Events   bool     `json:"events"`
		Warnings []string `json:"warnings"`
	} `json:"metadata"`
}

func (p *plain) metadata() Metadata {
	m := p.Metadata
	return Metadata{m.SenderID, m.TraceID, m.Priority, time.Duration(m.Timeout) * time.Millisecond, m.Events, m.Warnings}
}

func read(data []byte) (*plain, error) {
	p := &plain{}
	if err := json.Unmarshal(data, p); err != nil {
		return p, Errorf(MalformedEnvelope, "%s", err)
	}
	if p.ID == "" {
		return p, Errorf(MalformedEnvelope, "id is missing")
	}
	return p, nil
}

// DecodeRequest reads a request, strictly. On error the request holds what
// could be read of its id and trace, so that it can be answered.
func DecodeRequest(data []byte, limits Limits) (*Request, error) {
	p, err := read(data)
	r := &Request{Version: p.Version, ID: p.ID, Timestamp: p.Timestamp, Command: p.Command, Params: p.Params, Extension: p.Extension, Metadata: p.metadata()}
	if r.Metadata.Timeout == 0 {
		r.Metadata.Timeout = DefaultTimeout
	}
	if len(r.Params) == 0 {
		r.Params = []byte("{}")
	}
	return r, err
}

// DecodeResponse reads a response of anybody, leniently.
func DecodeResponse(data []byte, limits Limits) (*Response, error) {
	p, err := read(data)
	r := &Response{Version: p.Version, ID: p.ID, Timestamp: p.Timestamp, Result: p.Result, Metadata: p.metadata()}
	if p.Error != nil {
		r.Err = &Error{Code: Code(p.Error.Code), Message: p.Error.Message, Details: p.Error.Details}
	}
	return r, err
}

// DecodeEvent reads an event.
func DecodeEvent(data []byte, limits Limits) (*Event, error) {
	p, err := read(data)
	return &Event{Version: p.Version, ID: p.ID, Timestamp: p.Timestamp, Name: p.Event, Seq: p.Seq, Data: p.Data, Metadata: p.metadata()}, err
}

// DecodeMessage reads an envelope of any type.
func DecodeMessage(data []byte, limits Limits) (m Message, err error) {
	p, err := read(data)
	switch p.Type {
	case "response":
		m.Response, err = DecodeResponse(data, limits)
	case "event":
		m.Event, err = DecodeEvent(data, limits)
	default:
		m.Request, err = DecodeRequest(data, limits)
	}
	return m, err
}

// CheckJSON reports whether data is one JSON value within the limits: UTF-8,
// without duplicate keys, not nested too deeply.
func CheckJSON(data []byte, limits Limits) error {
	if !json.Valid(data) {
		return Errorf(MalformedEnvelope, "not JSON")
	}
	return nil
}
