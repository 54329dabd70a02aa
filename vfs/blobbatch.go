package vfs

import (
	"context"
	"crypto/sha256"
	"sync"
)

// maxBlobBatch bounds a blob that small contents share, in bytes.
const maxBlobBatch = 4 << 20

// A batchWriter writes small contents. While one blob is on its way to the disk,
// the contents that come meanwhile gather and go into the next, together: a
// content alone waits for no timer, and many share the cost of one sync.
type batchWriter struct {
	blobs Blobs
	index *index

	mu      sync.Mutex
	writing bool
	waiting *blobBatch
}

// A blobBatch holds contents that go into one blob.
type blobBatch struct {
	data    [][]byte
	size    int
	writers int           // each gets a pin of the blob
	done    chan struct{} // closed when key and err are set
	key     string
	err     error
	next    *blobBatch // to be written after this one
}

// put makes a content durable and says where it is. The blob is pinned for the
// caller, who unpins it.
func (p *batchWriter) put(ctx context.Context, data []byte) (blobPosition, error) {
	places, err := p.putAll(ctx, [][]byte{data})
	if err != nil {
		return blobPosition{}, err
	}
	return places[0], nil
}

// putAll makes contents durable, in one blob, which is pinned once.
func (p *batchWriter) putAll(ctx context.Context, data [][]byte) ([]blobPosition, error) {
	p.mu.Lock()
	mine, offset := p.join(data)
	if !p.writing {
		p.writing = true
		go p.write(context.WithoutCancel(ctx))
	}
	p.mu.Unlock()
	<-mine.done // a write on its way to the disk cannot be called back
	if mine.err != nil {
		return nil, mine.err
	}
	places := make([]blobPosition, len(data))
	for i := range data {
		places[i] = blobPosition{blob: mine.key, offset: offset}
		offset += int64(len(data[i]))
	}
	return places, nil
}

// join adds contents to the batch that waits, or to one after it when that is
// full.
func (p *batchWriter) join(data [][]byte) (*blobBatch, int64) {
	last := &p.waiting
	for *last != nil && ((*last).next != nil || (*last).size >= maxBlobBatch) {
		last = &(*last).next
	}
	if *last == nil {
		*last = &blobBatch{done: make(chan struct{})}
	}
	pk := *last
	offset := int64(pk.size)
	pk.data = append(pk.data, data...)
	pk.writers++
	for _, d := range data {
		pk.size += len(d)
	}
	return pk, offset
}

// write writes batches until none waits.
func (p *batchWriter) write(ctx context.Context) {
	for {
		p.mu.Lock()
		pk := p.waiting
		if pk == nil {
			p.writing = false
			p.mu.Unlock()
			return
		}
		p.waiting = pk.next
		p.mu.Unlock()
		pk.key, pk.err = p.writeBatch(ctx, pk)
		close(pk.done)
	}
}

func (p *batchWriter) writeBatch(ctx context.Context, pk *blobBatch) (string, error) {
	b, err := p.blobs.New(ctx)
	if err != nil {
		return "", err
	}
	defer b.Abort()
	hasher := sha256.New()
	for _, d := range pk.data {
		hasher.Write(d)
		if _, err := b.Write(d); err != nil {
			return "", err
		}
	}
	sum := Sum(hasher.Sum(nil))
	// It may have been there before and be on its way out.
	expected := sum.String()
	p.index.pinTimes(expected, pk.writers)
	key, err := b.Commit(sum)
	if err == nil && key == expected {
		return key, nil
	}
	if err == nil {
		p.index.pinTimes(key, pk.writers)
	}
	p.index.pinTimes(expected, -pk.writers)
	return key, err
}
