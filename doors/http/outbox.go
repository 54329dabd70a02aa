package http

import "sync"

// An outbox is a bounded queue of encoded messages between senders, which must not block,
// and the one goroutine that writes to the connection.
type outbox struct {
	maxMessages, maxBytes int

	wake chan struct{} // holds one token while there may be something to take

	mu     sync.Mutex
	queue  [][]byte
	bytes  int
	closed bool
}

func newOutbox(maxMessages, maxBytes int) *outbox {
	return &outbox{maxMessages: maxMessages, maxBytes: maxBytes, wake: make(chan struct{}, 1)}
}

// put queues a message. It reports whether there was room: without room the reader
// at the other end is too slow, and nothing is queued from then on, so that the
// messages sent have no gaps.
func (o *outbox) put(message []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	// A message larger than everything allowed passes if it is alone: one
	// response may always go out.
	if len(o.queue) >= o.maxMessages || len(o.queue) > 0 && o.bytes+len(message) > o.maxBytes {
		o.closed = true
		o.signal()
		return false
	}
	o.queue = append(o.queue, message)
	o.bytes += len(message)
	o.signal()
	return true
}

// take hands over the queued messages, in order. The slice given, emptied, becomes the
// next queue, so that two slices serve a connection for life.
func (o *outbox) take(reuse [][]byte) [][]byte {
	clear(reuse)
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.queue
	o.queue, o.bytes = reuse[:0], 0
	return taken
}

// ended reports whether a message found no room, or close was called.
func (o *outbox) ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// close drops the queue and refuses later messages.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.queue, o.bytes = true, nil, 0
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
