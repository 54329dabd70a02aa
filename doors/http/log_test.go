package http

import (
	"bytes"
	"log/slog"
	"sync"
)

// recordingLog is a log and what was written to it so far.
func recordingLog() (*slog.Logger, func() string) {
	var rec recorder
	return slog.New(slog.NewTextHandler(&rec, nil)), rec.String
}

type recorder struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}
