package vfs_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A cut reader breaks off after some bytes.
type cut struct{ io.Reader }

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection is gone")
	}
	return n, err
}

var (
	ann = &protocol.Principal{Kind: protocol.KindOperator, ID: "ann", Space: protocol.DefaultSpace}
	ben = &protocol.Principal{Kind: protocol.KindOperator, ID: "ben", Space: protocol.DefaultSpace}
	cy  = &protocol.Principal{Kind: protocol.KindOperator, ID: "ann", Space: "acme"}
)

func (w *world) begin(who *protocol.Principal, path string, size int) vfs.ResumableState {
	w.t.Helper()
	s, err := w.BeginUpload(w.t.Context(), who, vfs.Resumable{Group: "g", Path: path, Size: int64(size)})
	if err != nil {
		w.t.Fatalf("begin %s: %v", path, err)
	}
	return s
}

// Parts come over connections that break, and between them the store is opened anew, as
// by a bridge that restarts or by another one.
func TestAnUploadGoesOnWhereItBroke(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := open(t)
		size := []int{0, 1, 70_000, vfs.UploadStep, 3*vfs.UploadStep + 12_345, 9 * vfs.UploadStep, 6*vfs.UploadStep + 1, 200_000}[seed]
		data := noise(byte(seed), size)
		s := w.begin(ann, "big", size)
		for s.Received < int64(size) {
			n := random.IntN(3*vfs.UploadStep) + 1
			if random.IntN(4) == 0 {
				n = size // to the end
			}
			part := io.Reader(bytes.NewReader(data[s.Received:min(int(s.Received)+n, size)]))
			breaks := random.IntN(2) == 0
			if breaks {
				part = cut{part}
			}
			next, err := w.Append(t.Context(), ann, s.ID, s.Received, part)
			whole := int(s.Received)+n >= size
			want := (int(s.Received) + n) / vfs.UploadStep * vfs.UploadStep
			if whole {
				want = size
			}
			if next.Received != int64(want) {
				t.Fatalf("seed %d: %d bytes after %d of %d: %v", seed, next.Received, int(s.Received)+n, size, err)
			}
			if broke := protocol.CodeOf(err) == protocol.SyncFailed; broke != (breaks && !whole) {
				t.Fatalf("seed %d: broken off: %v, told %v", seed, breaks, err)
			}
			if random.IntN(2) == 0 {
				w.start()
			}
			if s, err = w.FindUpload(t.Context(), ann, s.ID); err != nil || s.Received != int64(want) {
				t.Fatalf("seed %d: %v %+v", seed, err, s)
			}
		}
		sum := vfs.Sum(sha256.Sum256(data))
		f, err := w.FinishUpload(t.Context(), ann, s.ID, w.files, &sum)
		if err != nil || f.SHA256 != sum || f.Path != "big" {
			t.Fatalf("seed %d: finish: %v %+v", seed, err, f)
		}
		w.start()
		if got, err := w.read("big", 0); err != nil || got != string(data) {
			t.Errorf("seed %d: %v, %d bytes read", seed, err, len(got))
		}
		if _, err := w.FindUpload(t.Context(), ann, s.ID); protocol.CodeOf(err) != protocol.FileNotFound {
			t.Errorf("a finished upload is there: %v", err)
		}
	}
}

func TestAnUploadIsItsPrincipalsAlone(t *testing.T) {
	w := open(t)
	s := w.begin(ann, "mine", 10)
	for _, who := range []*protocol.Principal{ben, cy} {
		_, err := w.FindUpload(t.Context(), who, s.ID)
		code(t, err, protocol.FileNotFound)
		_, err = w.Append(t.Context(), who, s.ID, 0, bytes.NewReader(make([]byte, 10)))
		code(t, err, protocol.FileNotFound)
		_, err = w.FinishUpload(t.Context(), who, s.ID, w.files, nil)
		code(t, err, protocol.FileNotFound)
		code(t, w.AbortUpload(t.Context(), who, s.ID), protocol.FileNotFound)
		if list := w.Uploads(who); len(list) != 0 {
			t.Errorf("%s sees %+v", who.ID, list)
		}
	}
	if list := w.Uploads(ann); len(list) != 1 || list[0].ID != s.ID {
		t.Errorf("ann sees %+v", list)
	}
	if groups := w.files.Groups(); len(groups) != 0 {
		t.Errorf("groups %q", groups)
	}
}

func TestAnUploadThatIsWrongIsRefusedAndStays(t *testing.T) {
	w := open(t)
	s := w.begin(ann, "x", 10)
	_, err := w.Append(t.Context(), ann, s.ID, 5, bytes.NewReader(make([]byte, 5)))
	code(t, err, protocol.RevisionConflict)
	if at := protocol.AsError(err).Details["offset"]; at != int64(0) {
		t.Errorf("offset %v", at)
	}
	_, err = w.FinishUpload(t.Context(), ann, s.ID, w.files, nil)
	code(t, err, protocol.InvalidState)
	if s, err = w.Append(t.Context(), ann, s.ID, 0, bytes.NewReader(make([]byte, 11))); protocol.CodeOf(err) != protocol.SyncFailed || s.Received != 10 {
		t.Errorf("too much: %v %+v", err, s)
	}
	wrong := vfs.Sum(sha256.Sum256([]byte("else")))
	_, err = w.FinishUpload(t.Context(), ann, s.ID, w.files, &wrong)
	code(t, err, protocol.SyncFailed)
	none := uint64(0)
	other, err := w.BeginUpload(t.Context(), ann, vfs.Resumable{Group: "g", Path: "x", IfVersion: &none})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.FinishUpload(t.Context(), ann, s.ID, w.files, nil); err != nil {
		t.Fatal(err)
	}
	_, err = w.FinishUpload(t.Context(), ann, other.ID, w.files, nil)
	code(t, err, protocol.RevisionConflict)
	if err := w.AbortUpload(t.Context(), ann, other.ID); err != nil || len(w.Uploads(ann)) != 0 {
		t.Errorf("abort: %v %+v", err, w.Uploads(ann))
	}
	for path, size := range map[string]int64{"../up": 1, "huge": 5 << 30} {
		if _, err := w.BeginUpload(t.Context(), ann, vfs.Resumable{Group: "g", Path: path, Size: size}); err == nil {
			t.Errorf("%s of %d bytes is begun", path, size)
		}
	}
}

func TestUploadsAreBounded(t *testing.T) {
	w := open(t, func(o *vfs.StoreOptions) { o.MaxFile = 1 << 20 })
	begin := func(who *protocol.Principal, size int64) (n int, err error) {
		for ; err == nil && n < 2000; n++ {
			_, err = w.BeginUpload(t.Context(), who, vfs.Resumable{Group: "g", Path: "x", Size: size})
		}
		return n - 1, err
	}
	if n, err := begin(ann, 1<<20); n != 2 || protocol.CodeOf(err) != protocol.NoSpace {
		t.Errorf("%d of the largest files: %v", n, err)
	}
	if n, err := begin(ben, 0); n != 256 || protocol.CodeOf(err) != protocol.Busy {
		t.Errorf("%d empty files: %v", n, err)
	}
	if n, err := begin(cy, 1<<20); n != 2 || protocol.CodeOf(err) != protocol.NoSpace {
		t.Errorf("another tenant has %d: %v", n, err)
	}
}

func TestAnUploadIsGivenUpADayAfterItsLastPart(t *testing.T) {
	now := time.Now()
	w := open(t, func(o *vfs.StoreOptions) { o.Now = func() time.Time { return now }; o.Grace = time.Nanosecond })
	data := noise(1, 2*vfs.UploadStep)
	s := w.begin(ann, "x", len(data))
	now = now.Add(23 * time.Hour)
	s, err := w.Append(t.Context(), ann, s.ID, 0, bytes.NewReader(data[:vfs.UploadStep]))
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(23 * time.Hour)
	w.CollectGarbage(t.Context())
	if _, err := w.FindUpload(t.Context(), ann, s.ID); err != nil || w.blobs() == 0 {
		t.Fatalf("given up early: %v", err)
	}
	now = now.Add(2 * time.Hour)
	w.CollectGarbage(t.Context())
	_, err = w.FindUpload(t.Context(), ann, s.ID)
	code(t, err, protocol.FileNotFound)
	w.CollectGarbage(t.Context())
	if n := w.blobs(); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}

func TestPartsAreWrittenOnceAndTellNobody(t *testing.T) {
	w := open(t)
	var told []string
	w.OnChange(func(_ protocol.SpaceID, f vfs.File) { told = append(told, f.Path) })
	data := noise(2, 8*vfs.UploadStep)
	s := w.begin(ann, "x", len(data))
	for part := range slices.Chunk(data, vfs.UploadStep) {
		var err error
		if s, err = w.Append(t.Context(), ann, s.ID, s.Received, bytes.NewReader(part)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.FinishUpload(t.Context(), ann, s.ID, w.files, nil); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] != "x" {
		t.Errorf("told of %q", told)
	}
	var size int64
	err := filepath.WalkDir(w.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, err := d.Info()
			size += info.Size()
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if size > int64(len(data))*11/10 {
		t.Errorf("%d bytes are on the disk, of %d that came", size, len(data))
	}
}

// Beginning many at once takes no more than a share, and one part of an upload comes at a
// time.
func TestUploadsAtTheSameTimeAreBounded(t *testing.T) {
	w := open(t)
	var begun atomic.Int64
	var all sync.WaitGroup
	for range 400 {
		all.Go(func() {
			if _, err := w.BeginUpload(t.Context(), ann, vfs.Resumable{Group: "g", Path: "x"}); err == nil {
				begun.Add(1)
			}
		})
	}
	all.Wait()
	if n := begun.Load(); n != 256 {
		t.Errorf("%d were begun", n)
	}
	s := w.begin(ben, "y", 10)
	slow, body := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := w.Append(t.Context(), ben, s.ID, 0, slow)
		done <- err
	}()
	if _, err := body.Write(make([]byte, 5)); err != nil { // it is being read
		t.Fatal(err)
	}
	_, err := w.Append(t.Context(), ben, s.ID, 0, bytes.NewReader(make([]byte, 10)))
	code(t, err, protocol.Busy)
	if _, err := body.Write(make([]byte, 5)); err != nil || body.Close() != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := w.FinishUpload(t.Context(), ben, s.ID, w.files, nil); err != nil {
		t.Fatal(err)
	}
}

// An upload that cannot be stored takes no room.
func TestAnUploadThatIsNotStoredTakesNoRoom(t *testing.T) {
	w := open(t)
	w.records.Break(errors.New("the store is away"))
	if _, err := w.BeginUpload(t.Context(), ann, vfs.Resumable{Group: "g", Path: "x"}); err == nil || len(w.Uploads(ann)) != 0 {
		t.Errorf("%v, %+v", err, w.Uploads(ann))
	}
}
