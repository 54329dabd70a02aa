package diskspace

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// interval is the interval at which a [Watch] looks. A disk that takes 500 MB a second is
// not filled beyond the default reserve in between.
const interval = 250 * time.Millisecond

// A Disk is the room on the disk that holds a folder, in bytes.
type Disk struct{ Free, Size int64 }

// Options configure a [Watch].
type Options struct {
	Folders []string // that hold data, on one disk or several
	// Reserve is the number of bytes of each disk that are kept free, though never more
	// than a tenth of it; 0 keeps none.
	Reserve int64

	Look       func(folder string) (Disk, error) // default the operating system's word
	Log        *slog.Logger
	Registerer prometheus.Registerer // optional
}

// A Watch knows whether the reserve is reached. A folder of which the
// operating system does not tell the room counts as having enough.
type Watch struct {
	o    Options
	low  atomic.Bool
	free atomic.Int64 // on the disk with the least beyond its reserve; -1 unknown
}

// New looks at the folders, which must be there, for the first time.
func New(o Options) *Watch {
	if o.Look == nil {
		o.Look = look
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watch{o: o}
	if o.Registerer != nil {
		w.register(o.Registerer)
	}
	w.update()
	return w
}

func (w *Watch) register(r prometheus.Registerer) {
	r.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_disk_free_bytes",
			Help: "Room on the disk with the data that is nearest to its reserve; -1 if the system does not tell.",
		}, func() float64 { return float64(w.free.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_disk_low",
			Help: "1 while nothing new is stored because the reserve of a disk is reached.",
		}, func() float64 {
			if w.low.Load() {
				return 1
			}
			return 0
		}),
	)
}

// Run looks again and again until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.update()
		case <-ctx.Done():
			return nil
		}
	}
}

// Low reports whether the reserve is reached. It is cheap.
func (w *Watch) Low() bool { return w.low.Load() }

// Check is nil, or 4005 while the reserve is reached.
func (w *Watch) Check() error {
	if !w.low.Load() {
		return nil
	}
	return protocol.Errorf(protocol.NoSpace, "the bridge's disk is nearly full: nothing new is stored until there is room; what is there can be changed and removed")
}

// Beyond is the number of bytes that may be stored before the reserve is reached; -1 if
// the system does not tell. It looks anew.
func (w *Watch) Beyond() int64 {
	beyond, _, known := w.least()
	if !known {
		return -1
	}
	return max(beyond, 0)
}

// update looks once. There is room again when an eighth of the reserve is free
// beyond it, so that the word does not change with every file.
func (w *Watch) update() {
	beyond, d, known := w.least()
	if !known {
		w.free.Store(-1)
		return
	}
	w.free.Store(d.Free)
	reserve := w.reserve(d)
	switch was := w.low.Load(); {
	case !was && beyond <= 0 && reserve > 0:
		w.low.Store(true)
		w.o.Log.Error("the disk is nearly full: nothing new is stored", "free", size(d.Free), "reserve", size(reserve))
	case was && beyond > reserve/8:
		w.low.Store(false)
		w.o.Log.Info("the disk has room again: everything is stored", "free", size(d.Free))
	}
}

// least is the disk with the least room beyond its reserve.
func (w *Watch) least() (beyond int64, d Disk, known bool) {
	for _, folder := range w.o.Folders {
		found, err := w.o.Look(folder)
		if err != nil {
			continue
		}
		if b := found.Free - w.reserve(found); !known || b < beyond {
			beyond, d, known = b, found, true
		}
	}
	return beyond, d, known
}

func (w *Watch) reserve(d Disk) int64 { return min(w.o.Reserve, d.Size/10) }

func size(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
