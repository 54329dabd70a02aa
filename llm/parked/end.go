package parked

import (
	"encoding/json"
	"errors"
	"maps"

	"github.com/aibridge/aibridge/protocol"
)

// withheld is the detail of an error with contents of the conversation. It is stored
// sealed.
const withheld = "tools"

// over is the record of a task that has ended with a result, or with an error. A result
// that is too long to be stored becomes an error, which lists the result's calls of
// tools, since their effects remain.
func (s *Service) over(r *Record, result json.RawMessage, err error) *Record {
	var sealed []byte
	if err == nil {
		if err = s.fits(result, 0); err != nil {
			err = tooLong(result, err)
		} else {
			sealed, err = s.opts.Sealer.Seal(result, "parked/"+string(r.ID))
		}
	}
	return r.over(sealed, s.failure(r.ID, err), s.opts.Now())
}

// tooLong is the error of a result that cannot be kept.
func tooLong(result json.RawMessage, why error) error {
	var told struct {
		Tools json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(result, &told) // results without calls of tools have none
	e := protocol.Errorf(protocol.PayloadTooLarge, "the answer is too long to be kept: it has %d bytes", len(result)).With("limit", protocol.AsError(why).Details["limit"])
	if len(told.Tools) > 0 {
		e = e.With(withheld, told.Tools)
	}
	return e
}

// failure is the stored form of an error, nil for nil. Its part about the conversation
// is sealed, or left out if it is too long.
func (s *Service) failure(id protocol.TaskID, err error) *Failure {
	e := protocol.AsError(err)
	if e == nil {
		return nil
	}
	f := &Failure{Code: e.Code, Message: e.Message, Details: maps.Clone(e.Details)}
	told, ok := f.Details[withheld]
	if !ok {
		return f
	}
	delete(f.Details, withheld)
	if sealed, err := s.seal(id, told); err == nil && s.fits(sealed, 0) == nil {
		f.Sealed = sealed
	}
	return f
}

// opened is a failure with its sealed details opened.
func (s *Service) opened(id protocol.TaskID, f *Failure) *Failure {
	if f == nil || f.Sealed == nil {
		return f
	}
	plain, err := s.open(id, f.Sealed)
	if err != nil {
		return f
	}
	open := Failure{Code: f.Code, Message: f.Message, Details: maps.Clone(f.Details)}
	if open.Details == nil {
		open.Details = make(map[string]any, 1)
	}
	open.Details[withheld] = plain
	return &open
}

// err is the error of a failed task, nil of any other.
func (s *Service) err(r *Record) error {
	f := s.opened(r.ID, r.Failure)
	if f == nil {
		return nil
	}
	return &protocol.Error{Code: f.Code, Message: f.Message, Details: f.Details}
}

// TooMuch reports whether an error is that of a state or result that is too long to be
// stored.
func TooMuch(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && e.Code == protocol.LimitReached && e.Details["reason"] == "parked_bytes"
}
