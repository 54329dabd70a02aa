package http

import (
	"net/http"
	"sync"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A reply is the buffer in which the goroutine that has the answer to a request encodes
// it, before the goroutine of the request sends it. Replies are used again.
type reply struct {
	header http.Header
	form   func(http.Header, *protocol.Response, []byte) (status int, body []byte)
	status int
	body   []byte
	take   func(*protocol.Response) // its own
}

var replies = sync.Pool{New: func() any {
	r := new(reply)
	r.take = r.put
	return r
}}

// maxReply is the largest body that is kept for reuse, in bytes.
const maxReply = 64 << 10

func (r *reply) put(resp *protocol.Response) {
	r.status, r.body = r.form(r.header, resp, r.body[:0])
}

// await runs a request and writes its answer in a form. Nothing is answered before
// it is on record.
func (a *API) await(w http.ResponseWriter, r *http.Request, in commands.Inbound, form func(http.Header, *protocol.Response, []byte) (int, []byte)) {
	answer := replies.Get().(*reply)
	answer.header, answer.form = w.Header(), form
	in.Held, in.Plans = a.Keep != nil, plansOf(r.Context())
	a.Router.Await(r.Context(), in, answer.take)
	if a.Keep != nil {
		a.Keep()
	}
	writeBody(w, answer.status, answer.body)
	answer.header, answer.form = nil, nil
	if cap(answer.body) <= maxReply {
		replies.Put(answer)
	}
}
