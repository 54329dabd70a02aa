package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

const (
	blobAhead = 8                      // chunks asked for at once
	blobLag   = 100 * time.Millisecond // before a server is asked again that may be behind
)

// Open implements [vfs.Blobs].
func (b *Blobs) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	info, err := b.info(ctx, key)
	if err != nil {
		return nil, explainBlob(err)
	}
	return newObjectReader(ctx, b, info, 0), nil
}

// info asks the server that leads, since another may not know of the object
// yet.
func (b *Blobs) info(ctx context.Context, name string) (*jetstream.ObjectInfo, error) {
	subject := "$O." + b.name + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
	m, err := lastMessage(ctx, b.store.state, "OBJ_"+b.name, subject)
	if err != nil {
		return nil, err
	}
	info := new(jetstream.ObjectInfo)
	if m == nil {
		return nil, jetstream.ErrObjectNotFound
	}
	if err := json.Unmarshal(m.Data, info); err != nil {
		return nil, err
	}
	if info.Deleted {
		return nil, jetstream.ErrObjectNotFound
	}
	return info, nil
}

// An objectReader reads an object from anywhere, some chunks ahead. Chunks are
// found one after the other. A jump ahead guesses where its chunk is: as many
// messages later as there are chunks in between, or later still, since others
// write to the bucket too. Each message found there says which chunk it is. In an
// object of an earlier release chunks do not, so all in between is read. A jump
// back begins anew. Its reader may take its time, which the client's own
// reader would not allow: there all of an object is to be read in five seconds.
type objectReader struct {
	ctx   context.Context
	blobs *Blobs
	info  *jetstream.ObjectInfo

	want   int64    // where the next read is to be
	at     int64    // where rest begins
	rest   []byte   // of a chunk
	ahead  [][]byte // the chunks after it
	next   uint64   // sequence from which on the chunks after these are
	chunks uint32   // the number of chunks so far, skipped ones included

	numbered bool // chunks have their numbers
	jumped   bool // and the next one has to
}

func newObjectReader(ctx context.Context, b *Blobs, info *jetstream.ObjectInfo, want int64) *objectReader {
	r := &objectReader{ctx: ctx, blobs: b, info: info, want: want}
	first, err := strconv.ParseUint(info.Metadata[firstChunk], 10, 64)
	if err == nil && info.Opts != nil && info.Opts.ChunkSize == blobChunk {
		r.next, r.numbered = first, true
	}
	return r
}

// Read implements [io.Reader].
func (r *objectReader) Read(p []byte) (int, error) {
	if r.want >= int64(r.info.Size) {
		return 0, io.EOF
	}
	if err := r.move(); err != nil {
		return 0, explainBlob(err)
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.at += int64(n)
	r.want = r.at
	return n, nil
}

// move brings the reader to where the next read is to be.
func (r *objectReader) move() error {
	if r.want < r.at {
		*r = *newObjectReader(r.ctx, r.blobs, r.info, r.want)
	}
	for {
		skip := min(r.want-r.at, int64(len(r.rest)))
		r.rest = r.rest[skip:]
		r.at += skip
		if len(r.rest) > 0 {
			return nil
		}
		if len(r.ahead) == 0 {
			r.jump()
			if err := r.fetch(); err != nil {
				return err
			}
		}
		r.rest, r.ahead = r.ahead[0], r.ahead[1:]
	}
}

// jump leaves out chunks before the one that is wanted, if there are more than
// are asked for at once.
func (r *objectReader) jump() {
	if wanted := uint32(r.want / blobChunk); r.numbered && wanted >= r.chunks+blobAhead && wanted < r.info.Chunks {
		r.next += uint64(wanted - r.chunks)
		r.chunks = wanted // or before it
		r.jumped = true
	}
}

// errChunkMissing reports an object that ends too early.
var errChunkMissing = errors.New("a chunk is missing")

// fetch gets the next chunks. A server that is asked may be behind the one that
// took them, but not for long.
func (r *objectReader) fetch() error {
	if r.chunks >= r.info.Chunks {
		return errChunkMissing
	}
	ctx, cancel := context.WithTimeout(r.ctx, askTimeout)
	defer cancel()
	var why error // by the last question that had time for an answer
	for {
		err := r.request(ctx)
		if err == nil && len(r.ahead) > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) || r.ctx.Err() != nil {
			return err
		}
		switch {
		case err == nil:
			why = errChunkMissing
		case ctx.Err() == nil || why == nil:
			why = err
		}
		select {
		case <-time.After(blobLag):
		case <-ctx.Done():
			return why
		}
	}
}

// request asks once for the next chunks.
func (r *objectReader) request(ctx context.Context) error {
	nc := r.blobs.store.state
	session := nc.current()
	if !session.isUp() {
		return errNotConnected
	}
	ctx, cancel := session.during(ctx)
	defer cancel()
	ctx, done := context.WithTimeout(ctx, askFirst)
	defer done()
	batch := blobAhead
	if r.jumped {
		batch = 1 // it may be before the wanted chunk
	}
	query, err := json.Marshal(map[string]any{
		"next_by_subj": "$O." + r.blobs.name + ".C." + r.info.NUID, "seq": max(r.next, 1), "batch": batch,
	})
	if err != nil {
		return err
	}
	inbox := nc.conn.NewInbox()
	answers, err := nc.conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := nc.conn.PublishRequest("$JS.API.DIRECT.GET.OBJ_"+r.blobs.name, inbox, query); err != nil {
		return err
	}
	for range batch {
		msg, err := answers.NextMsgWithContext(ctx)
		if err != nil && len(r.ahead) > 0 {
			return nil // the others are asked for again
		}
		if err != nil {
			return err
		}
		last, err := r.take(msg)
		if err != nil || last {
			return err
		}
	}
	return nil
}

// take takes one answer, and reports whether it is the last.
func (r *objectReader) take(msg *nats.Msg) (last bool, err error) {
	if status, err := strconv.Atoi(msg.Header.Get("Status")); err == nil && len(msg.Data) == 0 {
		switch status {
		case http.StatusNoContent, http.StatusNotFound: // no more, or none
			return true, nil
		case http.StatusServiceUnavailable:
			return true, nats.ErrNoResponders
		}
		return true, &apiError{Code: status, Description: msg.Header.Get("Description")}
	}
	seq, err := strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil || seq < r.next {
		return true, protocol.Errorf(protocol.VFSUnavailable, "the store of files answers strangely")
	}
	if r.jumped {
		if err := r.land(msg.Header.Get(chunkNumber)); err != nil {
			return true, err
		}
	}
	r.ahead = append(r.ahead, msg.Data)
	r.next = seq + 1
	r.chunks++
	return r.chunks >= r.info.Chunks, nil
}

// land finds out where a jump has led.
func (r *objectReader) land(text string) error {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil || number > uint64(r.chunks) {
		return protocol.Errorf(protocol.VFSUnavailable, "the store of files answers strangely")
	}
	r.chunks, r.jumped = uint32(number), false
	r.at = int64(number) * blobChunk
	return nil
}

// Seek implements [io.Seeker].
func (r *objectReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.want
	case io.SeekEnd:
		offset += int64(r.info.Size)
	}
	if offset < 0 {
		return 0, errors.New("store: seek before the beginning")
	}
	r.want = offset
	return offset, nil
}

// Close implements [io.Closer].
func (r *objectReader) Close() error { return nil }
