package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/aibridge/aibridge/vfs"
)

const (
	blobChunk  = 128 << 10 // bytes of a blob in one message, as NATS's clients have them
	blobWindow = 16        // messages on their way at once
)

// The headers by which readers jump: the number of the chunk in its object, counted
// from 0, and the sequence of the first one.
const (
	chunkNumber = "Aibridge-Chunk"
	firstChunk  = "first"
)

// An object is a blob being written, in the layout of NATS's object stores:
// chunks on a subject of their own, and then the message with their metadata.
//
// The client's own Put will not do. When a message finds no leader, as happens
// whenever another server of a cluster takes over, Put sends it again later: with
// the present content of its buffer, which is another chunk, and behind those that
// were sent meanwhile. Here nothing is sent twice. The metadata is sent only once
// every chunk was acknowledged, in order.
type object struct {
	blobs *Blobs
	ctx   context.Context // of its writing
	name  string
	nuid  string
	inbox string
	acks  *nats.Subscription
	done  context.CancelFunc // with the connection's session

	buf   []byte
	sum   hash.Hash
	size  uint64
	sent  int // chunks
	heard int // answers to them, good or bad
	acked int // of them
	first uint64
	last  uint64
	fail  error // the first that went wrong
	ended bool
}

var errAborted = errors.New("aborted")

// New implements [vfs.Blobs].
func (b *Blobs) New(ctx context.Context) (vfs.Blob, error) {
	o, err := b.begin(ctx, nuid.Next())
	if err != nil {
		return nil, explainBlob(err)
	}
	return o, nil
}

// begin begins an object of a name that none has.
func (b *Blobs) begin(ctx context.Context, name string) (*object, error) {
	nc := b.store.state
	session := nc.current()
	if !session.isUp() {
		return nil, errNotConnected
	}
	o := &object{blobs: b, name: name, nuid: nuid.Next(), inbox: nc.conn.NewInbox(), buf: make([]byte, 0, blobChunk), sum: sha256.New()}
	var err error
	if o.acks, err = nc.conn.SubscribeSync(o.inbox + ".*"); err != nil {
		return nil, err
	}
	o.ctx, o.done = session.during(ctx)
	return o, nil
}

func (o *object) chunks() string { return o.blobs.chunksOf(o.nuid) }

// Write implements [io.Writer].
func (o *object) Write(p []byte) (n int, err error) {
	o.sum.Write(p)
	for n < len(p) {
		some := min(len(p)-n, blobChunk-len(o.buf))
		o.buf = append(o.buf, p[n:n+some]...)
		n += some
		if len(o.buf) == blobChunk {
			if err := o.send(); err != nil {
				return n, explainBlob(err)
			}
		}
	}
	return n, nil
}

// send sends a chunk once there is room in the window.
func (o *object) send() error {
	for o.fail == nil && o.sent-o.acked >= blobWindow {
		o.fail = o.take()
	}
	if o.fail != nil {
		return o.fail
	}
	// The connection has copied the chunk when this returns.
	o.fail = o.blobs.store.state.conn.PublishMsg(&nats.Msg{
		Subject: o.chunks(), Reply: o.inbox + "." + strconv.Itoa(o.sent), Data: o.buf,
		Header: nats.Header{chunkNumber: {strconv.Itoa(o.sent)}},
	})
	o.sent++
	o.size += uint64(len(o.buf))
	o.buf = o.buf[:0]
	return o.fail
}

// take waits for the next acknowledgement.
func (o *object) take() error {
	ctx, cancel := context.WithTimeout(o.ctx, o.blobs.store.options.WriteTimeout)
	defer cancel()
	msg, err := o.acks.NextMsgWithContext(ctx)
	if err != nil {
		return err
	}
	o.heard++
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return nats.ErrNoResponders
	}
	var ack pubAck
	if err := json.Unmarshal(msg.Data, &ack); err != nil {
		return fmt.Errorf("strange acknowledgement: %w", err)
	}
	switch n := strings.TrimPrefix(msg.Subject, o.inbox+"."); {
	case ack.Error != nil:
		return ack.Error
	case n != strconv.Itoa(o.acked), ack.Sequence <= o.last:
		return fmt.Errorf("chunk %s of %d was stored out of order", n, o.sent)
	}
	if o.acked == 0 {
		o.first = ack.Sequence
	}
	o.acked++
	o.last = ack.Sequence
	return nil
}

// Commit implements [vfs.Blob].
func (o *object) Commit(vfs.Sum) (string, error) {
	defer o.Abort()
	if len(o.buf) > 0 {
		if err := o.send(); err != nil {
			return "", explainBlob(err)
		}
	}
	for o.fail == nil && o.acked < o.sent {
		o.fail = o.take()
	}
	if o.fail != nil {
		return "", explainBlob(o.fail)
	}
	if err := o.tell(); err != nil {
		return "", explainBlob(err)
	}
	o.end()
	return o.name, nil
}

// tell stores the metadata, which makes the chunks an object.
func (o *object) tell() error {
	info, err := json.Marshal(jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: o.name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: blobChunk}, Metadata: map[string]string{
			firstChunk: strconv.FormatUint(o.first, 10),
		}},
		Bucket: o.blobs.name,
		NUID:   o.nuid,
		Size:   o.size,
		Chunks: uint32(o.sent),
		Digest: jetstream.GetObjectDigestValue(o.sum),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(o.ctx, o.blobs.store.options.WriteTimeout)
	defer cancel()
	_, err = o.blobs.store.store(ctx, o.blobs.store.state, &nats.Msg{
		Subject: "$O." + o.blobs.name + ".M." + base64.URLEncoding.EncodeToString([]byte(o.name)),
		Header:  nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
		Data:    info,
	})
	return err
}

// hear waits a little for the acknowledgements of all chunks that were sent: one
// that is stored after the purge of the others would stay for ever.
func (o *object) hear() {
	ctx, cancel := context.WithTimeout(o.ctx, abortTimeout)
	defer cancel()
	for o.heard < o.sent {
		if _, err := o.acks.NextMsgWithContext(ctx); err != nil {
			return
		}
		o.heard++
	}
}

// end releases the subscription and the buffers of writing.
func (o *object) end() {
	if !o.ended {
		o.ended = true
		_ = o.acks.Unsubscribe()
		o.done()
	}
}

// abortTimeout bounds the purge of chunks that are not needed.
const abortTimeout = 2 * time.Second

// Abort implements [vfs.Blob]. The chunks that are there are purged. If the
// metadata was stored after all, the object has no chunks and no record names it,
// so that it is collected.
func (o *object) Abort() {
	if o.ended {
		return
	}
	o.fail = errAborted
	o.hear()
	o.end()
	if o.sent == 0 || !o.blobs.store.state.current().isUp() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), abortTimeout)
	defer cancel()
	_ = purge(ctx, o.blobs.store.state, "OBJ_"+o.blobs.name, jetstream.WithPurgeSubject(o.chunks()))
}
