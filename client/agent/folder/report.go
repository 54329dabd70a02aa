package folder

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
)

// A Report is the state of a folder, as cap.vfs.sync.report takes it.
type Report struct {
	Name      string    `json:"name,omitempty"`
	Status    string    `json:"sync_status"`
	Pending   int       `json:"pending"`
	Failed    int       `json:"failed"`
	Conflicts int       `json:"conflicts"`
	Free      int64     `json:"free"` // bytes; -1 if that is unknown
	LastSync  int64     `json:"last_sync_time,omitempty"`
	Paused    bool      `json:"paused,omitempty"`
	Problems  []Problem `json:"problems,omitempty"`
	Lost      []Copy    `json:"lost,omitempty"` // the latest, the last first
}

// A Copy is a copy of a file that lost a conflict and is kept.
type Copy struct {
	Path     string `json:"path"`
	Checksum string `json:"checksum"` // SHA-256, hexadecimal
	Size     int64  `json:"size"`
	Time     int64  `json:"lost_at"` // Unix milliseconds
}

// A Problem is a file that failed.
type Problem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Orders are the bridge's wishes about the folders of a Cap: the answer to a
// report.
type Orders struct {
	Paused  bool      `json:"paused"`
	Rescan  Rescan    `json:"rescan"`
	Restore []Restore `json:"restore"`
}

// A Restore asks for a copy that is kept to be brought back. It is repeated
// until it is known to have been [Obeyed].
type Restore struct {
	ID       int64  `json:"order_id"`
	Path     string `json:"path"`
	Checksum string `json:"checksum"` // SHA-256, hexadecimal
}

// Obeyed reports the end of a [Restore].
type Obeyed struct {
	ID     int64  `json:"order_id"`
	Reason string `json:"reason,omitempty"` // why it failed, "" if it did not
}

// A Rescan is the latest look at everything that was asked for.
type Rescan struct {
	Time     int64 `json:"rescan_time"`
	Contents bool  `json:"contents"`
}

// reportEvery is the interval at which a folder is reported at least, and a tenth of it
// how often at most.
const reportEvery = 10 * time.Second

// Bounds of the lists in a report, and of the orders in an answer.
const (
	maxProblems = 20
	maxReason   = 500
	maxLost     = 20
	maxRestores = 8
)

// Report returns the state of the folder.
func (f *Folder) Report() Report {
	st := f.engine.Status()
	r := Report{Name: f.origin, Status: string(st.Standing), Pending: st.Pending, Failed: st.Failed, Conflicts: st.Conflicts,
		Free: st.Free, LastSync: st.LastSync, Paused: st.Paused}
	failed, _ := f.engine.FilesIn(mirror.Failed, "", maxProblems)
	for _, file := range failed {
		r.Problems = append(r.Problems, Problem{file.Path, shorten(file.Reason, maxReason)})
	}
	for _, l := range slices.Backward(f.engine.Losers()) {
		if !l.Deleted && len(r.Lost) < maxLost {
			r.Lost = append(r.Lost, Copy{Path: l.Path, Checksum: hex.EncodeToString(l.SHA256[:]), Size: l.Size, Time: l.At})
		}
	}
	return r
}

// shorten cuts a text to so many bytes, without splitting a character.
func shorten(s string, most int) string {
	if s = s[:min(len(s), most)]; s == "" {
		return "unknown"
	}
	return strings.ToValidUTF8(s, "")
}

// ReportTo has the folder reported while it runs, and the orders of the answers
// carried out; send also reports the outcomes of the orders before. It is called
// before [Folder.Run].
func (f *Folder) ReportTo(send func(context.Context, Report, []Obeyed) (Orders, error)) {
	f.send = send
}

// reports sends reports until ctx ends: now and then, and after changes.
func (f *Folder) reports(ctx context.Context) error {
	if f.send == nil {
		return nil
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	trouble, done := "", deeds{rescanned: -1}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		orders, err := f.send(ctx, f.Report(), done.restored)
		switch code := protocol.CodeOf(err); {
		case err == nil:
			trouble = ""
			f.obey(ctx, orders, &done)
		case ctx.Err() != nil:
			return nil
		case code == protocol.UnknownCommand:
			return nil // an older bridge
		case trouble != string(code):
			trouble = string(code)
			f.log.Warn("the bridge cannot be told where the folder stands", "error", err)
		}
		if !f.untilReport(ctx) {
			return nil
		}
		timer.Reset(0)
	}
}

// untilReport waits until the next report is due.
func (f *Folder) untilReport(ctx context.Context) bool {
	after := func(d time.Duration, or <-chan struct{}) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-or:
		case <-timer.C:
		}
		return true
	}
	return after(f.every/10, nil) && after(f.every-f.every/10, f.moved)
}

// deeds are the orders that were carried out.
type deeds struct {
	rescanned int64    // when the latest look at everything was asked for; -1 before the first answer
	restored  []Obeyed // of the last answer
}

// obey carries out the orders for a Cap's folders. A look at everything that
// was asked for before the first report was for others.
func (f *Folder) obey(ctx context.Context, o Orders, done *deeds) {
	if o.Paused != f.engine.Paused() {
		change := f.engine.Resume
		if o.Paused {
			change = f.engine.Pause
		}
		if err := change(); err != nil {
			f.log.Warn("the folder cannot be paused or resumed", "error", err)
		}
	}
	if done.rescanned >= 0 && o.Rescan.Time > done.rescanned {
		if err := f.engine.Rescan(o.Rescan.Contents); err != nil {
			f.log.Warn("the folder cannot be looked at anew", "error", err)
		}
	}
	done.rescanned = o.Rescan.Time
	done.restored = f.restore(ctx, o.Restore, done.restored)
}

// restore brings copies back, each once: an order comes again until the bridge has
// got its outcome.
func (f *Folder) restore(ctx context.Context, orders []Restore, before []Obeyed) (done []Obeyed) {
	for _, o := range orders[:min(len(orders), maxRestores)] {
		if i := slices.IndexFunc(before, func(d Obeyed) bool { return d.ID == o.ID }); i >= 0 {
			done = append(done, before[i])
			continue
		}
		sum, err := vfs.ParseSum(o.Checksum)
		if err == nil {
			_, err = f.engine.Restore(ctx, o.Path, mirror.Sum(sum))
		}
		if ctx.Err() != nil {
			return done
		}
		result := Obeyed{ID: o.ID}
		if err != nil {
			result.Reason = shorten(protocol.AsError(err).Message, maxReason)
			f.log.Warn("a copy cannot be brought back", "path", o.Path, "error", err)
		}
		done = append(done, result)
		f.tell()
	}
	return done
}
