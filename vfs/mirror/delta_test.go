package mirror

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// noise is content in which no two chunks are the same.
func noise(size int) []byte {
	data := make([]byte, size)
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(dice.Uint32())
	}
	return data
}

func TestOnlyChangedChunksTravel(t *testing.T) {
	w := newWorld(t)
	data := noise(100<<10 + 77) // 26 chunks of the fake's
	w.write("large", string(data))
	w.sync()
	sent := w.vfs.sent

	data[50<<10]++                                         // in the middle
	data = append(data[:len(data)-7], "another ending"...) // at the end
	w.write("large", string(data))
	w.sync()
	if got, _ := w.vfs.content("large"); got != string(data) {
		t.Fatal("the VFS has another content")
	}
	if travelled := w.vfs.sent - sent; travelled > 2*int64(w.vfs.ChunkSize()) || w.vfs.count("delta") != 1 {
		t.Errorf("%d bytes travelled in %d deltas", travelled, w.vfs.count("delta"))
	}

	// The same from there to here.
	data[10<<10]++
	w.vfs.set("large", string(data[:90<<10]))
	before := w.vfs.read.Load()
	w.sync()
	if got := w.here()["large"]; got != string(data[:90<<10]) {
		t.Fatalf("%d bytes here", len(got))
	}
	if travelled := w.vfs.read.Load() - before; travelled == 0 || travelled > int64(w.vfs.ChunkSize()) {
		t.Errorf("%d bytes travelled", travelled)
	}
}

// A plain VFS is one that can do no more than it must.
type plain struct{ Remote }

func TestAVFSWithoutChunksGetsAndSendsWholeFiles(t *testing.T) {
	for what, change := range map[string]func(*fake) Remote{
		"without the interface": func(f *fake) Remote { return plain{f} },
		"with another version of it": func(f *fake) Remote {
			f.refuse = protocol.Errorf(protocol.InvalidParameter, "keep: what is that")
			return f
		},
		"that makes something else of them": func(f *fake) Remote {
			f.refuse = protocol.Errorf(protocol.SyncFailed, "has another checksum than announced")
			return f
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Remote = change(o.Remote.(*fake)) })
			data := noise(80 << 10)
			for range 2 {
				data[1]++
				w.write("large", string(data))
				w.sync()
				if got, _ := w.vfs.content("large"); got != string(data) {
					t.Fatal("the VFS has another content")
				}
				data[2]++
				w.vfs.set("large", string(data))
				w.sync()
				if w.here()["large"] != string(data) {
					t.Fatal("the folder has another content")
				}
			}
		})
	}
}

// Whatever sums a VFS claims, what arrives is what it says the file is, or
// nothing.
func TestWrongSumsOfChunksDoNotSpoilAFile(t *testing.T) {
	w := newWorld(t)
	data := noise(80 << 10)
	w.write("large", string(data))
	w.sync()
	changed := bytes.Clone(data)
	changed[30<<10]++
	w.vfs.set("large", string(changed))
	w.vfs.lie = func(sums []Sum) []Sum { // the changed chunk is said to be the old one
		old := vfs.ChunkHasher{Size: w.vfs.ChunkSize()}
		_, _ = old.Write(data)
		sums[7] = Sum(old.Sums()[7])
		return sums
	}
	_ = w.engine.Sync(t.Context())
	if got := w.here()["large"]; got != string(data) {
		t.Fatal("the file was replaced by something else than the VFS has")
	}
	if st := w.engine.Status(); st.Standing == Synced {
		t.Errorf("%+v", st)
	}
	w.vfs.lie = nil
	w.breaker.close()
	if err := w.engine.SyncPath(t.Context(), "large"); err != nil {
		t.Fatal(err)
	}
	if got := w.here()["large"]; got != string(changed) {
		t.Fatal("the file has not arrived")
	}
}

func TestAVFSThatDisappearsBetweenTwoChunksIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	data := noise(200 << 10)
	w.write("large", string(data))
	w.sync()
	for i := range 20 {
		data[i*10<<10]++
	}
	w.vfs.set("large", string(data))
	reads := 0
	w.vfs.fault = func(call string, _ bool) error {
		if call == "read" {
			if reads++; reads > 5 {
				return errDown
			}
		}
		return nil
	}
	if err := w.engine.Sync(t.Context()); !unavailable(err) {
		t.Fatalf("error %v", err)
	}
	if bytes.Equal([]byte(w.here()["large"]), data) {
		t.Fatal("it has arrived nevertheless")
	}
	w.vfs.fault = nil
	if err := w.breaker.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.sync()
	if w.here()["large"] != string(data) {
		t.Fatal("it has not arrived")
	}
}

// A file that changes again and again is not read by the VFS each time to say
// what its chunks are.
func TestChunksAreAskedForOnce(t *testing.T) {
	w := newWorld(t)
	data := noise(100 << 10)
	w.write("large", string(data))
	w.sync()
	for i := range 5 {
		data[i*10<<10]++
		w.write("large", string(data))
		w.sync()
	}
	if got, _ := w.vfs.content("large"); got != string(data) {
		t.Fatal("the VFS has another content")
	}
	if asked, sent := w.vfs.count("chunks"), w.vfs.count("delta"); asked > 1 || sent != 5 {
		t.Errorf("asked %d times for %d changes", asked, sent)
	}
	var c chunkCache
	for i := range 10 {
		c.put(Sum{byte(i)}, make([]Sum, maxCachedChunks/3))
	}
	c.put(Sum{99}, make([]Sum, maxCachedChunks+1))
	if c.count > maxCachedChunks || c.get(Sum{99}) != nil || c.get(Sum{9}) == nil || c.empty() {
		t.Errorf("%d sums are held", c.count)
	}
}
