package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var (
	alice   = &protocol.Principal{ID: "alice", Space: protocol.DefaultSpace}
	mallory = &protocol.Principal{ID: "mallory", Space: protocol.DefaultSpace}
)

// toAlice are the clients that what alice asks for is for.
var toAlice = protocol.Only(alice.Party())

// A told message is what was published, for whom.
type told struct {
	protocol.Message
	to protocol.Recipients
}

// A world is a door in front of files in memory. What it publishes is kept.
type world struct {
	*Door
	t     testing.TB
	files *vfstest.Memory
	dir   string

	mu   sync.Mutex
	told []told
	now  time.Time
}

func open(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, files: vfstest.NewMemory(), dir: t.TempDir(), now: time.Now()}
	o := Options{
		Files: func(_ context.Context, who *protocol.Principal, group string, write bool) (vfs.Files, error) {
			if who.ID == "mallory" {
				return nil, protocol.Errorf(protocol.VFSPermission, "you may not use group %q", group)
			}
			return w.files, nil
		},
		Authorize: func(context.Context, *protocol.Principal, string, commands.Resource) error { return nil },
		Publish: func(to protocol.Recipients, m protocol.Message) (int, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, told{m, to})
			return 0, nil
		},
		Topics: protocol.NewTopics(""), Dir: w.dir, MaxFile: 1 << 20,
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now },
	}
	for _, f := range change {
		f(&o)
	}
	w.Door = New(o)
	t.Cleanup(w.abandon)
	return w
}

// send publishes and has the door work on it.
func (w *world) send(who *protocol.Principal, topic string, payload any) {
	w.t.Helper()
	data, ok := payload.([]byte)
	if !ok && payload != nil {
		var err error
		if data, err = json.Marshal(payload); err != nil {
			w.t.Fatal(err)
		}
	}
	w.Take(&Publication{Principal: who, Topic: "aibridge/vfs/" + topic, Payload: data})
	for {
		select {
		case j := <-w.jobs:
			w.work(j)
			w.queued.Add(int64(-len(j.payload)))
			continue
		default:
		}
		break
	}
	w.wait.Wait()
}

// last is the last status, which must be alice's and about transfer t1.
func (w *world) last() Status {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.told) - 1; i >= 0; i-- {
		if m := w.told[i]; m.ContentType == protocol.ContentJSON {
			var s Status
			if err := json.Unmarshal(m.Payload, &s); err != nil {
				w.t.Fatal(err)
			}
			if m.Topic != "aibridge/vfs/g/status/"+s.ID || m.to.Nobody() {
				w.t.Fatalf("told on %s to nobody", m.Topic)
			}
			return s
		}
	}
	return Status{}
}

func (w *world) want(what string, state State, code protocol.Code) Status {
	w.t.Helper()
	s := w.last()
	var got protocol.Code
	if s.Error != nil {
		got = s.Error.Code
	}
	if s.State != state || got != code {
		w.t.Fatalf("%s: %+v (%v), want %s %s", what, s, s.Error, state, code)
	}
	return s
}

func (w *world) content(path string) string {
	w.t.Helper()
	r, _, err := w.files.Open(w.t.Context(), "g", path, 0)
	if err != nil {
		return ""
	}
	data, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// staged counts the files that wait for chunks.
func (w *world) stagedFiles() int {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(entries)
}

func sum(data string) string {
	s := sha256.Sum256([]byte(data))
	return hex.EncodeToString(s[:])
}

func TestChunksBecomeAFileInWhateverOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := open(t)
		size := rapid.IntRange(0, 3000).Draw(rt, "size")
		chunk := rapid.IntRange(1, 700).Draw(rt, "chunk")
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		init := Init{Path: "f", Size: int64(size), ChunkSize: chunk, Checksum: sum(string(data))}
		w.send(alice, "g/put/t1/init", init)
		count := w.want("init", Receiving, "").Chunks
		order := rapid.Permutation(indices(count)).Draw(rt, "order")
		again := rapid.SliceOfN(rapid.IntRange(0, max(0, count-1)), 0, 5).Draw(rt, "again")
		for i, n := range append(order, again[:min(len(again), count)]...) {
			part := data[n*chunk : min(size, (n+1)*chunk)]
			w.send(alice, "g/put/t1/"+topicOf(rt, n, part), part)
			if i == count/2 { // the connection was lost
				w.send(alice, "g/put/t1/init", init)
				s := w.want("resume", Receiving, "")
				for _, run := range s.Missing {
					for m := run[0]; m <= run[1]; m++ {
						if !contains(order[i+1:], m) {
							rt.Fatalf("chunk %d is said to be missing", m)
						}
					}
				}
				if s.Received != i+1 {
					rt.Fatalf("%d of %d chunks are said to be there", s.Received, i+1)
				}
			}
		}
		w.send(alice, "g/put/t1/finish", nil)
		s := w.want("finish", Done, "")
		if s.File.Checksum != sum(string(data)) || w.content("f") != string(data) {
			rt.Fatalf("stored %d bytes of %d", len(w.content("f")), size)
		}
		w.send(alice, "g/put/t1/finish", nil)
		if again := w.want("finish again", Done, ""); again.File.Version != s.File.Version {
			rt.Fatal("finishing again did something")
		}
		if w.stagedFiles() != 0 {
			rt.Fatal("chunks are left")
		}
	})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func contains(list []int, n int) bool {
	for _, m := range list {
		if m == n {
			return true
		}
	}
	return false
}

func topicOf(rt *rapid.T, n int, part []byte) string {
	switch rapid.IntRange(0, 2).Draw(rt, "sum") {
	case 0:
		return fmt.Sprintf("chunk/%d", n)
	case 1:
		return fmt.Sprintf("chunk/%d/%08X", n, crc32.ChecksumIEEE(part))
	}
	return fmt.Sprintf("chunk/%d/%s", n, sum(string(part)))
}

func TestChunksThatAreWrongAreNotKept(t *testing.T) {
	w := open(t)
	w.send(alice, "g/put/t1/init", Init{Path: "f", Size: 10, ChunkSize: 4})
	for topic, data := range map[string]string{
		"chunk/0":                 "123",   // too short
		"chunk/1":                 "12345", // too long
		"chunk/2":                 "1234",  // longer than the last
		"chunk/3":                 "1234",  // more than announced
		"chunk/99999999999999999": "1234",
		"chunk/-1":                "1234",
		"chunk/x":                 "1234",
		"chunk/":                  "1234",
		"chunk/0/00000000":        "1234",
		"chunk/0/abc":             "1234",
		"chunk/0/" + sum("other"): "1234",
	} {
		w.mu.Lock()
		w.told = nil
		w.mu.Unlock()
		w.send(alice, "g/put/t1/"+topic, []byte(data))
		if s := w.last(); s.State != Receiving || s.Error == nil || s.Error.Code != protocol.SyncFailed && s.Error.Code != protocol.InvalidParameter {
			t.Errorf("%s: %+v", topic, s)
		}
	}
	w.send(alice, "g/put/t1/finish", nil)
	if s := w.want("finish", Receiving, protocol.SyncFailed); len(s.Missing) != 1 || s.Missing[0] != [2]int{0, 2} {
		t.Fatalf("missing %v", s.Missing)
	}
	for n, part := range []string{"0123", "4567", "89"} {
		w.send(alice, fmt.Sprintf("g/put/t1/chunk/%d", n), []byte(part))
	}
	w.send(alice, "g/put/t1/finish", Finish{Checksum: sum("other")})
	w.want("a wrong checksum of the whole", Failed, protocol.SyncFailed)
	if w.content("f") != "" || w.stagedFiles() != 0 {
		t.Fatal("something is left")
	}
	w.send(alice, "g/put/t1/init", Init{Path: "f", Size: 0})
	w.want("the id is free again", Receiving, "")
}

func TestUploadsAreRefusedThatCannotBe(t *testing.T) {
	w := open(t)
	version := uint64(7)
	for what, c := range map[string]struct {
		init any
		code protocol.Code
	}{
		"a path out":     {Init{Path: "../f", Size: 1}, protocol.InvalidParameter},
		"no size":        {Init{Path: "f", Size: -1}, protocol.InvalidParameter},
		"too large":      {Init{Path: "f", Size: 2 << 20}, protocol.PayloadTooLarge},
		"large chunks":   {Init{Path: "f", Size: 1, ChunkSize: 1 << 30}, protocol.InvalidParameter},
		"a bad checksum": {Init{Path: "f", Size: 1, Checksum: "xyz"}, protocol.InvalidParameter},
		"no JSON":        {[]byte("path=f"), protocol.MalformedEnvelope},
		"another field":  {[]byte(`{"path":"f","size":1,"mode":7}`), protocol.InvalidParameter},
	} {
		w.send(alice, "g/put/t1/init", c.init)
		w.want(what, Failed, c.code)
	}
	w.send(mallory, "g/put/t1/init", Init{Path: "f", Size: 1})
	w.want("a stranger", Failed, protocol.VFSPermission)
	w.send(alice, "g/put/t1/chunk/0", []byte("x"))
	w.want("a chunk of nothing", Failed, protocol.NotFound)
	w.send(alice, "g/put/t1/finish", nil)
	w.want("an end of nothing", Failed, protocol.NotFound)
	w.send(alice, "g/put/t1/other", nil)
	w.want("another topic", Failed, protocol.InvalidParameter)
	w.send(alice, "g/put/t1/init", Init{Path: "f", Size: 0, Version: &version})
	w.send(alice, "g/put/t1/finish", nil)
	w.want("another version", Failed, protocol.RevisionConflict)
	if w.stagedFiles() != 0 {
		t.Fatal("something is left")
	}
}

func TestNobodyReachesTheTransfersOfOthers(t *testing.T) {
	w := open(t)
	w.send(alice, "g/put/t1/init", Init{Path: "f", Size: 1})
	w.send(mallory, "g/put/t1/chunk/0", []byte("m"))
	w.send(mallory, "g/put/t1/abort", nil)
	w.send(alice, "g/put/t1/init", Init{Path: "f", Size: 1})
	if s := w.want("resume", Receiving, ""); s.Received != 0 {
		t.Fatalf("%d chunks", s.Received)
	}
	w.send(alice, "g/put/t1/init", Init{Path: "other", Size: 1})
	w.want("another file with the id", Receiving, protocol.AlreadyExists)
	w.send(alice, "g/put/t1/abort", nil)
	w.want("abort", Aborted, "")
	if w.stagedFiles() != 0 {
		t.Fatal("chunks are left")
	}
}

func TestUploadsAreBounded(t *testing.T) {
	w := open(t, func(o *Options) { o.PerPrincipal, o.MaxStaged = 2, 1000 })
	w.send(alice, "g/put/t1/init", Init{Path: "f", Size: 900})
	w.send(alice, "g/put/t2/init", Init{Path: "f", Size: 200})
	w.want("too many bytes", Failed, protocol.NoSpace)
	w.send(alice, "g/put/t2/init", Init{Path: "f", Size: 100})
	w.want("the second", Receiving, "")
	w.send(alice, "g/put/t3/init", Init{Path: "f", Size: 0})
	w.want("the third", Failed, protocol.Busy)
	w.mu.Lock()
	w.now = w.now.Add(time.Hour)
	w.mu.Unlock()
	w.sweep()
	w.want("idle", Failed, protocol.TimedOut)
	if w.stagedFiles() != 0 || w.staged != 0 || len(w.mine) != 0 {
		t.Fatalf("left: %d files, %d bytes, %v", w.stagedFiles(), w.staged, w.mine)
	}
}

// Uploads that are over are remembered for a while, but are in nobody's way.
func TestOneUploadAfterTheOtherIsNotTooMany(t *testing.T) {
	w := open(t, func(o *Options) { o.PerPrincipal = 2 })
	for i := range 5 {
		id := fmt.Sprintf("g/put/t%d/", i)
		w.send(alice, id+"init", Init{Path: fmt.Sprint("f", i), Size: 1})
		w.want("begin", Receiving, "")
		w.send(alice, id+"chunk/0", []byte("x"))
		w.send(alice, id+"finish", nil)
		w.want("end", Done, "")
	}
}

func TestWhatCannotBeTakenNowIsTurnedAway(t *testing.T) {
	w := open(t)
	chunk := &Publication{Principal: alice, Topic: "aibridge/vfs/g/put/t1/chunk/0", Payload: make([]byte, 256<<10)}
	for range maxQueued/len(chunk.Payload) + 1 {
		w.Take(chunk)
	}
	w.want("too much", Failed, protocol.Busy)
}

func TestFilesAreDownloadedInChunks(t *testing.T) {
	w := open(t)
	data := strings.Repeat("0123456789", 100)
	f, err := w.files.Put(t.Context(), "g", "dir/f", strings.NewReader(data), vfs.PutOptions{Size: -1})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	from, version := 0, uint64(0)
	for {
		w.mu.Lock()
		w.told = nil
		w.mu.Unlock()
		w.send(alice, "g/get/t1", Get{Path: "dir/f", Version: version, ChunkSize: 64, From: from, Count: 5})
		s := w.want("get", Sent, "")
		var first Status
		if err := json.Unmarshal(w.told[0].Payload, &first); err != nil || first.File.Checksum != sum(data) || first.Chunks != 16 || *first.From != from {
			t.Fatalf("first told: %s", w.told[0].Payload)
		}
		version = first.File.Version
		for i, m := range w.told[1 : len(w.told)-1] {
			if want := fmt.Sprintf("aibridge/vfs/g/data/t1/%d/%08x", from+i, crc32.ChecksumIEEE(m.Payload)); m.Topic != want || m.to != toAlice {
				t.Fatalf("chunk on %s to %+v, want %s", m.Topic, m.to, want)
			}
			got = append(got, m.Payload...)
		}
		if s.Next == nil {
			break
		}
		from = *s.Next
	}
	if string(got) != data || version != f.Version {
		t.Fatalf("%d bytes of version %d", len(got), version)
	}
	for what, c := range map[string]struct {
		get  Get
		code protocol.Code
	}{
		"no such file":   {Get{Path: "f"}, protocol.FileNotFound},
		"a path out":     {Get{Path: "../f"}, protocol.InvalidParameter},
		"nothing":        {Get{}, protocol.InvalidParameter},
		"small chunks":   {Get{Path: "dir/f", ChunkSize: 1}, protocol.InvalidParameter},
		"beyond the end": {Get{Path: "dir/f", From: 99}, protocol.InvalidParameter},
		"a lost version": {Get{Path: "dir/f", Version: 99}, protocol.FileNotFound},
	} {
		w.send(alice, "g/get/t1", c.get)
		w.want(what, Failed, c.code)
	}
	w.send(mallory, "g/get/t1", Get{Path: "dir/f"})
	w.want("a stranger", Failed, protocol.VFSPermission)
}

// Whatever is published, the door neither panics nor keeps more than it may,
// and stores only what it was told to store.
func FuzzPublications(f *testing.F) {
	f.Add("g/put/t1/init", []byte(`{"path":"f","size":3,"chunk_size":2}`), "g/put/t1/chunk/0", []byte("ab"))
	f.Add("g/put/t1/init", []byte(`{"path":"f","size":1}`), "g/put/t1/finish", []byte(`{"checksum":"00"}`))
	f.Add("g/get/t1", []byte(`{"path":"f","from":-1}`), "g/put/t1/abort", []byte{})
	f.Add("", []byte{}, "g/put//init", []byte("{}"))
	f.Add("../put/x/init", []byte(`{"path":"..","size":9223372036854775807}`), "g/put/t1/chunk/2147483647/00000000", []byte("x"))
	w := open(f)
	f.Fuzz(func(t *testing.T, topic1 string, payload1 []byte, topic2 string, payload2 []byte) {
		w.t = t
		w.send(alice, topic1, bytes.Clone(payload1))
		w.send(alice, topic2, bytes.Clone(payload2))
		w.send(alice, "g/put/t1/finish", nil)
		w.mu.Lock()
		for _, m := range w.told {
			if m.to != toAlice || len(m.Payload) > 1<<20 {
				t.Errorf("told %s to %+v", m.Topic, m.to)
			}
		}
		w.told = nil
		w.mu.Unlock()
		if w.staged < 0 || w.staged > w.opts.MaxStaged || len(w.uploads) > w.opts.PerPrincipal || w.queued.Load() != 0 {
			t.Fatalf("%d bytes in %d uploads, %d queued", w.staged, len(w.uploads), w.queued.Load())
		}
		w.now = w.now.Add(time.Hour)
		w.sweep()
	})
}
