package audit

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/evidence"
)

// crash ends a trail as if the process had been killed.
func crash(t *testing.T, trail *Trail) {
	t.Helper()
	trail.cancel()
	<-trail.done
	if err := trail.o.Local.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasNotShippedWhenTheProcessDiedIsShippedByTheNext(t *testing.T) {
	dir := t.TempDir()
	log := new(memoryLog)
	opened := func() *Trail {
		return openTrail(t, log, func(o *Options) {
			o.Local, o.HeadFile = openLocal(t, filepath.Join(dir, "evidence"), evidence.Options{GroupBlocks: true}), filepath.Join(dir, "head")
		})
	}
	trail := opened()
	record := func(name string) { trail.Record(t.Context(), Entry{Event: name, Code: OK}) }
	record("x.shipped")
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.fail(errors.New("away"))
	record("x.first")
	for i := range 50 {
		record(fmt.Sprint("x.more-", i))
	}
	crash(t, trail)
	log.fail(nil)
	for range 2 { // the second start finds nothing more
		trail = opened()
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := events(t, log)
		for i := range 50 {
			if n := len(slices.DeleteFunc(slices.Clone(got), func(e string) bool { return e != fmt.Sprint("x.more-", i) })); n != 1 {
				t.Errorf("entry %d is there %d times", i, n)
			}
		}
		if !slices.Contains(got, "x.first") || !slices.Contains(got, "x.shipped") {
			t.Errorf("recorded %q", got)
		}
		shut(t, trail)
	}
	if r := verify(t, log, testKey(t, 1)); !r.OK {
		t.Errorf("%+v", r)
	}
}

// TestEntriesThatGatherAreShippedTogether records while a shipment is on its way, each
// entry in a group of its own.
func TestEntriesThatGatherAreShippedTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log := new(memoryLog)
		trail := openTrail(t, log)
		log.fail(errors.New("busy"))
		for i := range 50 {
			trail.Record(t.Context(), Entry{Event: fmt.Sprint("x.", i), Code: OK})
			trail.o.Local.Keep()
		}
		log.fail(nil)
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		bounds, err := trail.o.Local.Bounds(t.Context())
		if err != nil || bounds.Last < 50 {
			t.Fatalf("they are %d groups, %v", bounds.Last, err)
		}
		if records, _ := log.Bounds(t.Context()); records.Last > 3 {
			t.Errorf("%d groups were shipped in %d records", bounds.Last, records.Last)
		}
		shut(t, trail)
		if got := events(t, log); len(got) != 52 {
			t.Errorf("%d entries are there", len(got))
		}
		if r := verify(t, log, testKey(t, 1)); !r.OK {
			t.Errorf("%+v", r)
		}
	})
}

// TestAShipmentIsBounded ships more than a record may have.
func TestAShipmentIsBounded(t *testing.T) {
	for _, largest := range []int{0, 100 << 10} {
		testShipment(t, largest)
	}
}

// testShipment has a log take records of so many bytes at most; 0 for all.
func testShipment(t *testing.T, largest int) {
	bubble.Test(t, func(t *testing.T) {
		log := &memoryLog{largest: largest}
		trail := openTrail(t, log)
		log.fail(errors.New("busy"))
		reason := strings.Repeat("a reason ", 10)
		const most = 5000
		for i := range most {
			trail.Record(t.Context(), Entry{Event: "x.many", Code: OK, Reason: fmt.Sprint(i, reason)})
			trail.o.Local.Keep()
		}
		log.fail(nil)
		shut(t, trail)
		for _, record := range log.groups {
			if len(record) > min(maxShipment, log.Largest()) {
				t.Errorf("a record has %d bytes", len(record))
			}
		}
		if got := events(t, log); len(got) != most+2 || len(log.groups) < 3 {
			t.Errorf("%d entries are there, in %d records", len(got), len(log.groups))
		}
	})
}

// The last bridges of a cluster that are stopped find nobody who stores.
func TestATrailThatClosesWaitsForNobodyWhoIsAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir, log := t.TempDir(), new(memoryLog)
		opened := func() *Trail {
			return openTrail(t, log, func(o *Options) {
				o.Local = openLocal(t, dir, evidence.Options{GroupBlocks: true})
			})
		}
		trail := opened()
		log.fail(errors.New("away"))
		trail.Record(t.Context(), Entry{Event: "x.late", Code: OK})
		began := time.Now()
		if err := trail.Close(t.Context()); err != nil {
			t.Errorf("nothing is lost, and it says %v", err)
		}
		if took := time.Since(began); took != closePatience {
			t.Errorf("it waited for %v", took)
		}
		if err := trail.o.Local.Close(); err != nil {
			t.Fatal(err)
		}
		log.fail(nil)
		shut(t, opened())
		if got := events(t, log); !slices.Contains(got, "x.late") {
			t.Errorf("the next start shipped %q", got)
		}
	})
}

// spooled is a file of entries as an earlier version had it.
func spooled(names ...string) (data []byte) {
	for i, name := range names {
		entry := fmt.Appendf(nil, `{"time":"2026-01-01T00:00:00.%03dZ","event":%q,"code":"ok","request_id":"r"}`, i, name)
		data = fmt.Appendf(data, "%08x %s\n", crc32.Checksum(entry, crc32.MakeTable(crc32.Castagnoli)), entry)
	}
	return data
}

// TestWhatWaitedInAnEarlierVersionIsTakenUp flips every byte of a file that an
// earlier version has left: every entry is taken up as it was, or the trail says
// that some are lost. Then the file is gone.
func TestWhatWaitedInAnEarlierVersionIsTakenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	whole := spooled("x.0", "x.1", "x.2")
	for at := -1; at < len(whole)-1; at++ { // behind the last newline a write was cut short
		damaged := bytes.Clone(whole)
		if at >= 0 {
			damaged[at] ^= 1
		}
		if err := os.WriteFile(path+".0", damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		log := new(memoryLog)
		trail := openTrail(t, log, func(o *Options) { o.Earlier = path })
		shut(t, trail)
		got, taken := events(t, log), 0
		for i := range 3 {
			if slices.Contains(got, fmt.Sprint("x.", i)) {
				taken++
			}
		}
		if said := slices.Contains(got, "audit.lost"); said == (at < 0) || (taken == 3) != (at < 0) {
			t.Fatalf("byte %d: recorded %q", at, got)
		}
		if _, err := os.Stat(path + ".0"); err == nil {
			t.Fatal("the file is still there")
		}
	}
}

// A held call's entry need not be in the log before Keep was called, and has to
// be afterwards; so has any that is not held, at once.
func TestWhatIsHeldIsInTheLogOnceItIsKept(t *testing.T) {
	trail := openTrail(t, nil)
	written := func(id string) bool {
		var all []byte
		if err := trail.o.Local.Read(t.Context(), func(_ uint64, block []byte) error {
			all = append(all, block...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(all, []byte(id))
	}
	audit := func(id string, held bool) {
		trail.Audit(commands.Audited{At: time.Now(), Command: "x.y", Effect: commands.Act, RequestID: id, Executed: true, Held: held})
	}
	audit("held-1", true)
	audit("held-2", true)
	trail.Keep()
	if !written("held-1") || !written("held-2") {
		t.Error("what was kept is not in the log")
	}
	audit("held-3", true)
	audit("at-once", false)
	if !written("at-once") || !written("held-3") {
		t.Error("an entry that is not held, or one before it, is not in the log")
	}
	shut(t, trail)
}

// TestWhatIsRecordedTogether tests that an entry is in the log when the call that
// recorded it returns, and that goroutines which record at a time share writes. With one
// processor each would otherwise have written its entry before the next one ran.
func TestWhatIsRecordedTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const many = 100
	trail := openTrail(t, nil)
	log := func() (all []byte, groups int) {
		if err := trail.o.Local.Read(t.Context(), func(_ uint64, block []byte) error {
			all = append(all, block...)
			groups += len(decodeBlock(block).groups)
			return nil
		}); err != nil {
			t.Error(err)
		}
		return all, groups
	}
	_, before := log()
	var calls sync.WaitGroup
	for i := range many {
		calls.Go(func() {
			id := fmt.Sprintf("together-%03d", i)
			trail.RecordTogether(t.Context(), Entry{Event: "x.y", Code: OK, RequestID: id})
			if all, _ := log(); !bytes.Contains(all, []byte(id)) {
				t.Errorf("%s is not in the log although it was recorded", id)
			}
		})
	}
	calls.Wait()
	if _, after := log(); after-before > many/4 {
		t.Errorf("%d entries were written %d times", many, after-before)
	}
	shut(t, trail)
}

// TestATrailInItsLog does on the local log what the other tests do on one that
// it is shipped to.
func TestATrailInItsLog(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "head")
	var last string
	for round := range 3 {
		trail := openTrail(t, nil, func(o *Options) {
			o.Local, o.HeadFile = openLocal(t, filepath.Join(dir, "evidence"), evidence.Options{SegmentBytes: 8 << 10}), file
		})
		trail.o.KeepSize = 40 << 10
		for i := range 300 {
			trail.Record(t.Context(), Entry{Event: "x.y", Code: OK, TraceID: fmt.Sprintf("%d-%d", round, i)}.By(alice))
		}
		trail.Record(t.Context(), Entry{Event: KeyCreated, Code: OK, Security: true, Resource: fmt.Sprint("key/", round)})
		if round < 2 {
			if err := trail.trim(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r, err := trail.Verify(t.Context())
		if err != nil || !r.OK {
			t.Fatalf("%+v, %v", r, err)
		}
		last = r.Head
		if found := ask(t, trail, admin, QueryParams{TraceID: fmt.Sprintf("%d-250", round)}); len(found.Entries) != 1 || found.Entries[0].Principal != "alice" {
			t.Errorf("by trace: %+v", found)
		}
		after := r.Last - 5
		if found := ask(t, trail, admin, QueryParams{After: &after}); len(found.Entries) != 5 || found.Entries[0].Seq != after+1 {
			t.Errorf("after %d: %+v", after, found)
		}
		shut(t, trail)
	}
	head, err := ParseHead(last)
	if err != nil {
		t.Fatal(err)
	}
	local, err := evidence.OpenReader(filepath.Join(dir, "evidence"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if r, err := VerifyLog(t.Context(), Options{Local: local, Key: testKey(t, 1), HeadFile: file}, head); err != nil || !r.OK || r.First == 1 {
		t.Errorf("of a log that nobody writes: %+v, %v", r, err)
	}
}
