package app

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// Backups say when a bridge makes backups of itself, and which are kept.
type Backups struct {
	EveryHours      int    `yaml:"every_hours" doc:"hours between two backups that the bridge makes by itself; 0 for none"`
	Dir             string `yaml:"dir" doc:"folder that they are written to, on another disk at best; backups in the data folder when empty"`
	Keep            int    `yaml:"keep" doc:"how many of them are kept, the newest ones"`
	KeepDays        int    `yaml:"keep_days" doc:"days after which one is removed even so, but for the newest; 0 never"`
	WithoutContents bool   `yaml:"without_contents" doc:"leave out the contents of files, which may be many"`
}

func defaultBackups() Backups { return Backups{Keep: 7} }

// check says what is wrong with the settings.
func (b *Backups) check(fail func(format string, args ...any)) {
	for _, s := range []struct {
		name             string
		value, low, high int
	}{
		{"every_hours", b.EveryHours, 0, 24 * 366}, {"keep", b.Keep, 1, 100_000}, {"keep_days", b.KeepDays, 0, 36500},
	} {
		if s.value < s.low || s.value > s.high {
			fail("backup.%s: %d is not within %d and %d", s.name, s.value, s.low, s.high)
		}
	}
}

// backupDir is the folder for the backups that a bridge makes by itself.
func (c *Config) backupDir() string { return cmp.Or(c.Backup.Dir, filepath.Join(c.Data, "backups")) }

const (
	// backupAgain is how long a bridge waits after a backup that failed.
	backupAgain = 10 * time.Minute
	// backupLook is how often it looks whether one is due: the calendar may be
	// set, and the machine may sleep.
	backupLook = time.Second
	// backupBuffer is how much of a backup is written at once.
	backupBuffer = 256 << 10
)

// A backupSide makes backups of the running bridge.
type backupSide struct {
	turn   chan struct{} // one at a time
	made   *prometheus.CounterVec
	newest prometheus.Gauge
}

// newBackups makes the part that makes backups.
func (a *App) newBackups() {
	a.backups.turn = make(chan struct{}, 1)
	if a.config.Backup.EveryHours == 0 {
		return
	}
	a.backups.made = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_backups_total", Help: "Backups that the bridge has made by itself, or could not.",
	}, []string{"result"})
	a.backups.newest = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "aibridge_backup_newest_timestamp_seconds", Help: "When the newest backup was begun that the bridge has made by itself; 0 without any.",
	})
	a.metrics.MustRegister(a.backups.made, a.backups.newest)
	for _, result := range []string{"ok", "failed"} {
		a.backups.made.WithLabelValues(result)
	}
}

// runBackups has the bridge make backups by itself, if that is configured.
func (a *App) runBackups() error {
	if a.config.Backup.EveryHours == 0 {
		return nil
	}
	dir := backupFolder{path: a.config.backupDir(), bridge: a.config.ID}
	if err := dir.open(); err != nil {
		return err
	}
	a.run("backups", func(ctx context.Context) error { return a.keepBackups(ctx, dir) })
	return nil
}

// keepBackups makes a backup whenever one is due, until ctx ends. The first is
// due when the newest that is there is old enough, at once when there is none.
func (a *App) keepBackups(ctx context.Context, dir backupFolder) error {
	tick := time.NewTicker(backupLook)
	defer tick.Stop()
	for due := a.nextBackup(dir); ; {
		if !a.clock.Now().Before(due) {
			if due = a.clock.Now().Add(backupAgain); a.makeBackup(ctx, dir) {
				due = a.nextBackup(dir)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// nextBackup is when the next backup is due. One that seems to come from the
// future was made while the clock was wrong, and does not count.
func (a *App) nextBackup(dir backupFolder) time.Time {
	now := a.clock.Now()
	all, err := dir.list()
	if err != nil {
		return now // which will fail, and say so
	}
	for _, made := range all {
		if !made.at.After(now) {
			a.backups.newest.Set(float64(made.at.Unix()))
			return made.at.Add(time.Duration(a.config.Backup.EveryHours) * time.Hour)
		}
	}
	return now
}

// roomIn tells the room in a folder, beyond the reserve of its disk.
func (a *App) roomIn(folder string) *diskspace.Watch {
	return diskspace.New(diskspace.Options{Folders: []string{folder}, Reserve: int64(a.config.Disk.ReserveMiB) << 20, Look: a.look})
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

// makeBackup makes one backup, removes those that are not to be kept any more,
// and reports whether there is a new one.
func (a *App) makeBackup(ctx context.Context, dir backupFolder) bool {
	a.recordBackup(ctx, audit.Entry{Event: backupBegan}, nil)
	at := a.clock.Now()
	var summary string
	size, err := dir.write(at, func(w io.Writer) error {
		buffered := bufio.NewWriterSize(reservedWriter{w, a.roomIn(dir.path)}, backupBuffer)
		manifest, err := a.backUp(ctx, buffered, BackupOptions{WithoutContents: a.config.Backup.WithoutContents})
		summary = describe(manifest)
		return errors.Join(err, buffered.Flush())
	})
	if ctx.Err() != nil || a.leaving.Err() != nil {
		return false
	}
	a.recordBackup(ctx, audit.Entry{Event: backupEnded, Details: map[string]string{"bytes": strconv.FormatInt(size, 10)}}, err)
	if err != nil {
		a.backups.made.WithLabelValues("failed").Inc()
		a.log.Error("a backup could not be made; it is tried again", "folder", dir.path, "in", backupAgain, "error", err)
		return false
	}
	a.backups.made.WithLabelValues("ok").Inc()
	removed, err := dir.prune(at, a.config.Backup.Keep, a.config.Backup.KeepDays)
	if err != nil {
		a.log.Warn("old backups cannot be removed", "folder", dir.path, "error", err)
	}
	a.log.Info("made a backup", "of", summary, "bytes", size, "folder", dir.path, "removed", removed)
	return true
}
