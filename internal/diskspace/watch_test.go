package diskspace

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/protocol"
)

const mib = 1 << 20

func TestNothingNewIsStoredBelowTheReserve(t *testing.T) {
	disk := Disk{Free: 5000 * mib, Size: 10_000 * mib}
	r := prometheus.NewRegistry()
	w := New(Options{Folders: []string{"data"}, Reserve: 80 * mib, Registerer: r, Look: func(string) (Disk, error) { return disk, nil }})
	for _, step := range []struct {
		free   int64
		low    bool
		beyond int64
	}{{5000, false, 4920}, {81, false, 1}, {80, true, 0}, {0, true, 0}, {89, true, 9}, {90, true, 10}, {91, false, 11}, {81, false, 1}} {
		disk.Free = step.free * mib
		w.update()
		if w.Low() != step.low || w.Beyond() != step.beyond*mib {
			t.Errorf("with %d MiB free: low is %t, beyond the reserve are %d bytes", step.free, w.Low(), w.Beyond())
		}
		if err := w.Check(); (err != nil) != step.low || step.low && protocol.CodeOf(err) != protocol.NoSpace {
			t.Errorf("with %d MiB free: %v", step.free, err)
		}
		if n, err := testutil.GatherAndCount(r, "aibridge_disk_low", "aibridge_disk_free_bytes"); n != 2 || err != nil {
			t.Errorf("%d metrics, %v", n, err)
		}
	}
}

func TestTheReserveOfASmallDiskIsATenthOfIt(t *testing.T) {
	disk := Disk{Free: 11 * mib, Size: 100 * mib}
	w := New(Options{Folders: []string{"data"}, Reserve: 256 * mib, Look: func(string) (Disk, error) { return disk, nil }})
	if w.Low() {
		t.Error("a small disk with room beyond a tenth is low")
	}
	disk.Free = 10 * mib
	if w.update(); !w.Low() {
		t.Error("a small disk with a tenth left is not low")
	}
}

func TestTheFullestDiskCounts(t *testing.T) {
	disks := map[string]Disk{"data": {Free: 500 * mib, Size: 10_000 * mib}, "files": {Free: 400 * mib, Size: 100_000 * mib}}
	look := func(folder string) (Disk, error) {
		if d, ok := disks[folder]; ok {
			return d, nil
		}
		return Disk{}, errors.ErrUnsupported
	}
	w := New(Options{Folders: []string{"data", "unknown", "files"}, Reserve: 100 * mib, Look: look})
	if got := w.Beyond(); got != 300*mib {
		t.Errorf("beyond the reserve are %d bytes", got)
	}
	if w := New(Options{Folders: []string{"unknown"}, Reserve: 100 * mib, Look: look}); w.Low() || w.Beyond() != -1 {
		t.Error("a disk of which nothing is known is low")
	}
	if w := New(Options{Folders: []string{"files"}, Look: func(string) (Disk, error) { return Disk{Size: mib}, nil }}); w.Low() {
		t.Error("without a reserve, a full disk is low")
	}
}

func TestTheSystemTellsTheRoom(t *testing.T) {
	d, err := look(t.TempDir())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("not on this system")
	}
	if err != nil || d.Size <= 0 || d.Free > d.Size {
		t.Errorf("%+v, %v", d, err)
	}
}
