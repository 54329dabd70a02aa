package folder

import (
	"context"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror"
)

// A Report is where a folder stands, as cap.vfs.sync.report takes it.
type Report struct {
	Name      string    `json:"name,omitempty"`
	Status    string    `json:"sync_status"`
	Pending   int       `json:"pending"`
	Failed    int       `json:"failed"`
	Conflicts int       `json:"conflicts"`
	Free      int64     `json:"free"` // bytes; -1 if nobody knows
	LastSync  int64     `json:"last_sync_time,omitempty"`
	Paused    bool      `json:"paused,omitempty"`
	Problems  []Problem `json:"problems,omitempty"`
}

// A Problem is a file that failed.
type Problem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Orders are what the bridge wants of the folders of a Cap: the answer to a
// report.
type Orders struct {
	Paused bool   `json:"paused"`
	Rescan Rescan `json:"rescan"`
}

// A Rescan is the latest look at everything that was asked for.
type Rescan struct {
	Time     int64 `json:"rescan_time"`
	Contents bool  `json:"contents"`
}

// reportEvery is how often a folder is reported at least, and a tenth of it how
// often at most.
const reportEvery = 10 * time.Second

// maxProblems bounds the problems of a report, and maxReason each reason.
const (
	maxProblems = 20
	maxReason   = 500
)

// Report tells where the folder stands.
func (f *Folder) Report() Report {
	st := f.engine.Status()
	r := Report{Name: f.origin, Status: string(st.Standing), Pending: st.Pending, Failed: st.Failed, Conflicts: st.Conflicts,
		Free: st.Free, LastSync: st.LastSync, Paused: st.Paused}
	failed, _ := f.engine.FilesIn(mirror.Failed, "", maxProblems)
	for _, file := range failed {
		r.Problems = append(r.Problems, Problem{file.Path, shorten(file.Reason, maxReason)})
	}
	return r
}

// shorten cuts a text to so many bytes, and what makes no whole character.
func shorten(s string, most int) string {
	if s = s[:min(len(s), most)]; s == "" {
		return "unknown"
	}
	return strings.ToValidUTF8(s, "")
}

// ReportTo has the folder reported while it runs, and what the answer orders
// done. It is called before [Folder.Run].
func (f *Folder) ReportTo(send func(context.Context, Report) (Orders, error)) { f.send = send }

// reports sends reports until ctx ends: now and then, and after changes.
func (f *Folder) reports(ctx context.Context) error {
	if f.send == nil {
		return nil
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	trouble, rescanned := "", int64(-1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		orders, err := f.send(ctx, f.Report())
		switch code := protocol.CodeOf(err); {
		case err == nil:
			trouble = ""
			f.obey(orders, &rescanned)
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

// obey does what a Cap's folders are to do. A look at everything that was asked
// for before the first report was for others.
func (f *Folder) obey(o Orders, rescanned *int64) {
	if o.Paused != f.engine.Paused() {
		change := f.engine.Resume
		if o.Paused {
			change = f.engine.Pause
		}
		if err := change(); err != nil {
			f.log.Warn("the folder cannot be paused or resumed", "error", err)
		}
	}
	if *rescanned >= 0 && o.Rescan.Time > *rescanned {
		if err := f.engine.Rescan(o.Rescan.Contents); err != nil {
			f.log.Warn("the folder cannot be looked at anew", "error", err)
		}
	}
	*rescanned = o.Rescan.Time
}
