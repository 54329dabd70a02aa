package backup

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

const (
	// retryAfter is the time that a bridge waits after a backup that failed.
	retryAfter = 10 * time.Minute
	// lookEvery is the interval at which it looks whether one is due: the calendar may be
	// set, and the machine may sleep.
	lookEvery = time.Second
	// bufferSize is the part of a backup that is written at once, in bytes.
	bufferSize = 256 << 10
)

// measure registers the metrics of the schedule.
func (s *Service) measure() {
	s.made = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_backups_total", Help: "Backups that the bridge has made by itself, or could not.",
	}, []string{"result"})
	s.newest = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "aibridge_backup_newest_timestamp_seconds", Help: "When the newest backup was begun that the bridge has made by itself; 0 without any.",
	})
	s.o.Registerer.MustRegister(s.made, s.newest)
	for _, result := range []string{"ok", "failed"} {
		s.made.WithLabelValues(result)
	}
}

// Run makes a backup whenever one is due, until ctx ends. The first is due when
// the newest that is there is old enough, at once when there is none. It returns
// at once if none is to be made.
func (s *Service) Run(ctx context.Context) error {
	if s.o.Settings.EveryHours == 0 {
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for due := s.next(); ; {
		if !s.o.Clock.Now().Before(due) {
			if due = s.o.Clock.Now().Add(retryAfter); s.makeOne(ctx) {
				due = s.next()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// next is the time when the next backup is due. One that seems to come from the future
// was made while the clock was wrong, and does not count.
func (s *Service) next() time.Time {
	now := s.o.Clock.Now()
	all, err := s.directory.list()
	if err != nil {
		return now // which will fail and be logged
	}
	for _, made := range all {
		if !made.at.After(now) {
			s.newest.Set(float64(made.at.Unix()))
			return made.at.Add(time.Duration(s.o.Settings.EveryHours) * time.Hour)
		}
	}
	return now
}

// A reservedWriter writes as long as that leaves the disk its reserve.
type reservedWriter struct {
	to   io.Writer
	room *diskspace.Watch
}

// Write implements [io.Writer].
func (w reservedWriter) Write(p []byte) (int, error) {
	if beyond := w.room.Beyond(); beyond >= 0 && beyond < int64(len(p)) {
		return 0, protocol.Errorf(protocol.NoSpace, "there is no room for a backup beside the reserve of its disk")
	}
	return w.to.Write(p)
}

// makeOne makes one backup, removes those that are not to be kept any more, and
// reports whether there is a new one.
func (s *Service) makeOne(ctx context.Context) bool {
	s.record(ctx, audit.Entry{Event: began}, nil)
	at := s.o.Clock.Now()
	var summary string
	size, err := s.directory.write(at, func(w io.Writer) error {
		buffered := bufio.NewWriterSize(reservedWriter{w, s.o.Room}, bufferSize)
		manifest, err := s.write(ctx, buffered, s.o.Settings.WithoutContents)
		summary = describe(manifest)
		return errors.Join(err, buffered.Flush())
	})
	if ctx.Err() != nil || s.o.Leaving.Err() != nil {
		return false
	}
	s.record(ctx, audit.Entry{Event: ended, Details: map[string]string{"bytes": strconv.FormatInt(size, 10)}}, err)
	if err != nil {
		s.made.WithLabelValues("failed").Inc()
		s.o.Log.Error("a backup could not be made; it is tried again", "folder", s.o.Dir, "in", retryAfter, "error", err)
		return false
	}
	s.made.WithLabelValues("ok").Inc()
	removed, err := s.directory.prune(at, s.o.Settings.Keep, s.o.Settings.KeepDays)
	if err != nil {
		s.o.Log.Warn("old backups cannot be removed", "folder", s.o.Dir, "error", err)
	}
	s.o.Log.Info("made a backup", "of", summary, "bytes", size, "folder", s.o.Dir, "removed", removed)
	return true
}
