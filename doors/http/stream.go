package http

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

const (
	streamMessages  = 1024             // queued for a reader of an event stream
	streamBytes     = 4 << 20          // the same in bytes
	streamKeepAlive = 15 * time.Second // a comment this often, for proxies in between
)

// stream runs a request and answers with server-sent events: those of the
// command as they come, then one named "response" with the response envelope.
// Each has the whole envelope as its data. The status is 200 as soon as it
// begins; the outcome is in the response. A reader too slow for its events is
// cut off rather than sent a stream with holes, and may ask again with the same
// id for the stored answer.
func (a *API) stream(w http.ResponseWriter, r *http.Request, in commands.Inbound, run func(context.Context, commands.Inbound) []byte) {
	w = uncompressed(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that gather answers must not
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	_ = control.Flush()

	out := newOutbox(streamMessages, streamBytes)
	in.Emit = func(e *protocol.Event) {
		out.put(appendServerSent(nil, e.Name, e.Append(nil)))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	answered := make(chan []byte, 1)
	go func() {
		answered <- appendServerSent(nil, "response", run(ctx, in))
	}()

	keepAlive := time.NewTicker(streamKeepAlive)
	defer keepAlive.Stop()
	write := func(chunks ...[]byte) {
		boundWrite(w)
		for _, c := range chunks {
			_, _ = w.Write(c) // a reader that is gone ends the request's context
		}
		_ = control.Flush()
	}
	var queue [][]byte
	for {
		select {
		case <-out.wake:
			if out.ended() {
				cancel()
				<-answered
				panic(http.ErrAbortHandler)
			}
			queue = out.take(queue)
			write(queue...)
		case <-keepAlive.C:
			write([]byte(":\n\n"))
		case last := <-answered:
			if out.ended() {
				panic(http.ErrAbortHandler)
			}
			write(append(out.take(queue), last)...)
			return
		}
	}
}

// appendServerSent writes one server-sent event. Line ends can only be white
// space in JSON, so they become spaces.
func appendServerSent(dst []byte, name string, data []byte) []byte {
	dst = append(dst, "event: "...)
	for _, c := range []byte(name) {
		if c < ' ' || c == 0x7f {
			c = '?'
		}
		dst = append(dst, c)
	}
	dst = append(dst, "\ndata: "...)
	start := len(dst)
	dst = append(dst, data...)
	for i := bytes.IndexAny(dst[start:], "\r\n"); i >= 0; i = bytes.IndexAny(dst[start:], "\r\n") {
		dst[start+i] = ' '
		start += i + 1
	}
	return append(dst, "\n\n"...)
}
