package httpbody

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
)

// A slow connection delivers a piece of a body at a time, after a while, and
// knows a deadline. It is both sides of a request.
type slow struct {
	http.ResponseWriter
	piece, pieces int
	rest          []byte // of a piece
	every         time.Duration
	deadline      time.Time
}

func (s *slow) SetReadDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *slow) Read(p []byte) (int, error) {
	if len(s.rest) > 0 {
		return s.take(p)
	}
	if s.pieces == 0 {
		return 0, io.EOF
	}
	if left := time.Until(s.deadline); left < s.every {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.every)
	s.pieces--
	s.rest = bytes.Repeat([]byte("x"), s.piece)
	return s.take(p)
}

func (s *slow) take(p []byte) (n int, err error) {
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *slow) Close() error { return nil }

func TestABodyArrivesInTimeOrNotAtAll(t *testing.T) {
	for name, test := range map[string]struct {
		slow
		took time.Duration
		late bool
	}{
		"at once":                  {slow{piece: 4096, pieces: 10}, 0, false},
		"nothing":                  {slow{piece: 1, pieces: 1, every: time.Hour}, patience, true},
		"a byte a second":          {slow{piece: 1, pieces: 100, every: time.Second}, patience + 5*time.Second/1024, true},
		"just quickly enough":      {slow{piece: slowest, pieces: 20, every: time.Second}, 20 * time.Second, false},
		"quickly, but without end": {slow{piece: 4 * slowest, pieces: 100, every: time.Second}, within, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := test.slow
				s.ResponseWriter = httptest.NewRecorder()
				want, start := s.piece*s.pieces, time.Now()
				var got bytes.Buffer
				_, err := got.ReadFrom(New(&s, &http.Request{Body: &s}, 1<<20))
				if took := time.Since(start); took != test.took || errors.Is(err, os.ErrDeadlineExceeded) != test.late {
					t.Errorf("%v after %v, want %v", err, took, test.took)
				}
				if !test.late && (err != nil || got.Len() != want || !s.deadline.IsZero()) {
					t.Errorf("%d bytes and %v, want %d and no deadline left: %v", got.Len(), err, want, s.deadline)
				}
			})
		})
	}
}

func TestABodyHasALimit(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, 101)))
	var over *http.MaxBytesError
	if _, err := io.ReadAll(New(httptest.NewRecorder(), r, 100)); !errors.As(err, &over) || over.Limit != 100 {
		t.Errorf("%v", err)
	}
}
