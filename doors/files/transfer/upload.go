package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Init are the parameters that begin an upload, or go on with it.
type Init struct {
	Path        string  `json:"path"`
	Size        int64   `json:"size"`                 // bytes
	Checksum    string  `json:"checksum,omitempty"`   // SHA-256 of the whole file, hexadecimal
	ChunkSize   int     `json:"chunk_size,omitempty"` // bytes, default 64 KiB
	Version     *uint64 `json:"version,omitempty"`    // that the file must have, 0 for none
	ContentType string  `json:"content_type,omitempty"`
}

// Limits of chunks.
const (
	defaultChunk = 64 << 10
	maxChunks    = 1 << 20
)

// An upload is a file of which chunks are missing.
type upload struct {
	key    key
	init   Init
	sum    *vfs.Sum
	count  int // of chunks
	file   *os.File
	have   []uint64 // a bit for each chunk
	got    int
	active time.Time
	state  State
	result Status // once it is done
}

// begin starts an upload. A repeat goes on with it: the answer lists the missing
// chunks.
func (d *Door) begin(j job) {
	var init Init
	err := decode(j.payload, &init)
	if err == nil {
		err = d.check(&init)
	}
	if err == nil {
		_, err = d.enter(d.ctx, j, true)
	}
	if err != nil {
		d.refuse(j, "", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if u := d.uploads[j.key]; u != nil {
		if u.state != Failed {
			d.resume(j, u, &init)
			return
		}
		d.drop(u)
	}
	u, err := d.open(j.key, init)
	if err != nil {
		d.refuse(j, "", err)
		return
	}
	d.tell(j, u.status())
}

func (d *Door) check(init *Init) error {
	init.Path = vfs.Relative(init.Path)
	if _, err := vfs.CleanPath(init.Path); err != nil {
		return err
	}
	if init.ChunkSize == 0 {
		init.ChunkSize = min(defaultChunk, d.opts.MaxChunk)
	}
	switch {
	case init.Size < 0:
		return protocol.InvalidParam("size", "must be the number of bytes of the file")
	case init.Size > d.opts.MaxFile:
		return protocol.Errorf(protocol.PayloadTooLarge, "a file may have %d bytes", d.opts.MaxFile).With("limit", d.opts.MaxFile)
	case init.ChunkSize < 1 || init.ChunkSize > d.opts.MaxChunk:
		return protocol.InvalidParam("chunk_size", fmt.Sprintf("must be within 1 and %d", d.opts.MaxChunk))
	case init.Size/int64(init.ChunkSize) >= maxChunks:
		return protocol.InvalidParam("chunk_size", fmt.Sprintf("makes more than %d chunks", maxChunks))
	case len(init.ContentType) > vfs.MaxContentType:
		return protocol.InvalidParam("content_type", "is too long")
	}
	if init.Checksum != "" {
		_, err := vfs.ParseSum(init.Checksum)
		return err
	}
	return nil
}

// open makes room for an upload. The door is locked.
func (d *Door) open(k key, init Init) (*upload, error) {
	if len(d.uploads) >= d.opts.Uploads || d.mine[k.owner] >= d.opts.PerPrincipal {
		d.forgetDone()
	}
	switch {
	case len(d.uploads) >= d.opts.Uploads, d.mine[k.owner] >= d.opts.PerPrincipal:
		return nil, protocol.BusyFor(time.Second, "too many uploads are open: finish or abort some")
	case d.staged+init.Size > d.opts.MaxStaged:
		return nil, vfs.NoRoom("too many large files are on their way")
	}
	name := fmt.Sprintf("transfer-%d", d.names.Add(1))
	file, err := os.OpenFile(filepath.Join(d.opts.Dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, protocol.Wrap(protocol.VFSUnavailable, err, "there is no place for the chunks")
	}
	count := int((init.Size + int64(init.ChunkSize) - 1) / int64(init.ChunkSize))
	u := &upload{
		key: k, init: init, count: count, file: file, have: make([]uint64, (count+63)/64),
		active: d.opts.Now(), state: Receiving,
	}
	if init.Checksum != "" {
		sum, _ := vfs.ParseSum(init.Checksum) // was checked
		u.sum = &sum
	}
	d.uploads[k] = u
	d.mine[k.owner]++
	d.staged += init.Size
	return u, nil
}

// forgetDone makes room of uploads that are over and only remembered. The door
// is locked.
func (d *Door) forgetDone() {
	for _, u := range d.uploads {
		if u.file == nil && u.state != Storing {
			d.drop(u)
		}
	}
}

func (d *Door) resume(j job, u *upload, init *Init) {
	same := u.init.Path == init.Path && u.init.Size == init.Size && u.init.ChunkSize == init.ChunkSize && u.init.Checksum == init.Checksum
	if !same {
		d.refuse(j, u.state, protocol.Errorf(protocol.AlreadyExists, "there is another transfer with this id: abort it, or use another id"))
		return
	}
	u.active = d.opts.Now()
	d.tell(j, u.status())
}

func (u *upload) status() Status {
	if u.state != Receiving {
		return u.result
	}
	return Status{State: Receiving, ChunkSize: u.init.ChunkSize, Chunks: u.count, Received: u.got, Missing: u.missing()}
}

// missing lists the runs of chunks that are not there.
func (u *upload) missing() (runs [][2]int) {
	for n := 0; n < u.count && len(runs) < maxRuns; n++ {
		if n%64 == 0 && bits.OnesCount64(u.have[n/64]) == 64 {
			n += 63
			continue
		}
		if u.has(n) {
			continue
		}
		if last := len(runs) - 1; last >= 0 && runs[last][1] == n-1 {
			runs[last][1] = n
		} else {
			runs = append(runs, [2]int{n, n})
		}
	}
	return runs
}

func (u *upload) has(n int) bool { return u.have[n/64]&(1<<(n%64)) != 0 }

// size is the number of bytes that a chunk has.
func (u *upload) size(n int) int {
	if n == u.count-1 {
		return int(u.init.Size - int64(n)*int64(u.init.ChunkSize))
	}
	return u.init.ChunkSize
}

// chunk takes one chunk, N or N/CHECKSUM.
func (d *Door) chunk(j job, rest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.uploads[j.key]
	if u == nil {
		d.refuse(j, "", protocol.Errorf(protocol.NotFound, "there is no such transfer: begin it with init"))
		return
	}
	if u.state != Receiving {
		return // a chunk that comes late
	}
	u.active = d.opts.Now()
	text, sum, _ := strings.Cut(rest, "/")
	n, err := number(text)
	if err == nil {
		err = u.take(n, sum, j.payload)
	}
	if err != nil {
		d.refuse(j, Receiving, protocol.AsError(err).With("chunk", text))
	}
}

// take keeps a chunk, unless it is there already.
func (u *upload) take(n int, sum string, data []byte) error {
	if n >= u.count {
		return vfs.BadContent(u.init.Path, "is longer than announced")
	}
	if len(data) != u.size(n) {
		return protocol.Errorf(protocol.SyncFailed, "chunk %d has %d bytes instead of %d", n, len(data), u.size(n))
	}
	if !matches(sum, data) {
		return protocol.Errorf(protocol.SyncFailed, "chunk %d does not have the checksum %s", n, sum)
	}
	if u.has(n) {
		return nil
	}
	if _, err := u.file.WriteAt(data, int64(n)*int64(u.init.ChunkSize)); err != nil {
		return protocol.Wrap(protocol.NoSpace, err, "the chunk cannot be kept")
	}
	u.have[n/64] |= 1 << (n % 64)
	u.got++
	return nil
}

// matches compares data with a checksum: SHA-256 or CRC-32 (IEEE), hexadecimal;
// none matches everything.
func matches(sum string, data []byte) bool {
	switch len(sum) {
	case 0:
		return true
	case 8:
		return strings.EqualFold(sum, fmt.Sprintf("%08x", crc32.ChecksumIEEE(data)))
	case 64:
		is := sha256.Sum256(data)
		return strings.EqualFold(sum, hex.EncodeToString(is[:]))
	}
	return false
}

// Finish are the parameters that end an upload; none are needed.
type Finish struct {
	Checksum string `json:"checksum,omitempty"` // SHA-256 of the whole file, for senders that did not know it before
}

// finish makes a version of the chunks, if all are there. A repeat for a finished
// one gets the same answer again.
func (d *Door) finish(j job) {
	var f Finish
	err := decode(j.payload, &f)
	var sum vfs.Sum
	if err == nil && f.Checksum != "" {
		sum, err = vfs.ParseSum(f.Checksum)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.uploads[j.key]
	switch {
	case u == nil:
		d.refuse(j, "", protocol.Errorf(protocol.NotFound, "there is no such transfer: begin it with init"))
		return
	case err != nil:
		d.refuse(j, u.state, err)
		return
	case u.state != Receiving:
		d.tell(j, u.result)
		return
	case u.got < u.count:
		status := u.status()
		status.Error = protocol.Errorf(protocol.SyncFailed, "%d of %d chunks are missing", u.count-u.got, u.count)
		d.tell(j, status)
		return
	}
	if f.Checksum != "" {
		u.sum = &sum
	}
	u.state = Storing
	u.result = Status{State: Storing, Chunks: u.count, Received: u.got}
	d.wait.Go(func() { d.store(j, u) })
}

// store puts the file, and remembers the outcome.
func (d *Door) store(j job, u *upload) {
	f, err := d.put(j, u)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unstage(u)
	u.active = d.opts.Now()
	if err != nil {
		u.state = Failed
		u.result = Status{State: Failed, Error: protocol.AsError(err)}
	} else {
		view := f.View()
		u.state = Done
		u.result = Status{State: Done, Chunks: u.count, Received: u.got, File: &view}
	}
	d.tell(j, u.result)
}

func (d *Door) put(j job, u *upload) (vfs.File, error) {
	files, err := d.enter(d.ctx, j, true) // which may have changed
	if err != nil {
		return vfs.File{}, err
	}
	o := vfs.PutOptions{IfVersion: u.init.Version, Size: u.init.Size, SHA256: u.sum, ContentType: u.init.ContentType}
	return files.Put(d.ctx, u.key.group, u.init.Path, io.NewSectionReader(u.file, 0, u.init.Size), o)
}

// abort gives an upload up.
func (d *Door) abort(j job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.uploads[j.key]
	if u != nil && u.state == Storing {
		d.refuse(j, Storing, protocol.Errorf(protocol.InvalidState, "the file is being stored"))
		return
	}
	if u != nil {
		d.drop(u)
	}
	d.tell(j, Status{State: Aborted})
}

// sweep gives up uploads that were idle for too long.
func (d *Door) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.opts.Now().Add(-d.opts.Idle)
	for _, u := range d.uploads {
		if u.state == Storing || !u.active.Before(before) {
			continue
		}
		if u.state == Receiving {
			d.refuse(job{key: u.key}, Failed, protocol.Errorf(protocol.TimedOut, "nothing came for %s", d.opts.Idle))
		}
		d.drop(u)
	}
}

// drop forgets an upload. The door is locked.
func (d *Door) drop(u *upload) {
	d.unstage(u)
	delete(d.uploads, u.key)
	if d.mine[u.key.owner]--; d.mine[u.key.owner] <= 0 {
		delete(d.mine, u.key.owner)
	}
}

// unstage removes the chunks. The door is locked.
func (d *Door) unstage(u *upload) {
	if u.file == nil {
		return
	}
	d.staged -= u.init.Size
	if err := errors.Join(u.file.Close(), os.Remove(u.file.Name())); err != nil {
		d.opts.Log.Warn("chunks cannot be removed", "error", err)
	}
	u.file = nil
}
