package mcp

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A single is a transport with one call on it.
type single struct {
	gone     context.Context // ends when the call is cancelled
	reply    func([]byte)
	incoming chan jsonrpc.Message
	answered chan struct{} // closed with the answer
	closed   chan struct{}

	mu     sync.Mutex
	silent bool // answered
	ended  bool
}

func newSingle(gone context.Context, call *jsonrpc.Request, reply func([]byte)) *single {
	s := &single{
		gone: gone, reply: reply, incoming: make(chan jsonrpc.Message, 1), answered: make(chan struct{}), closed: make(chan struct{}),
	}
	s.incoming <- call
	return s
}

// Connect implements [sdk.Transport].
func (s *single) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID implements [sdk.Connection].
func (s *single) SessionID() string { return "" }

// Read implements [sdk.Connection].
func (s *single) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case message := <-s.incoming:
		return message, nil
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errNobody = errors.New("there is nobody here to ask")

// Write implements [sdk.Connection].
func (s *single) Write(_ context.Context, message jsonrpc.Message) error {
	request, asks := message.(*jsonrpc.Request)
	if asks && request.IsCall() {
		return errNobody
	}
	body, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent || s.gone.Err() != nil { // a cancelled call gets no answer
		return nil
	}
	s.reply(body)
	if !asks {
		s.silent = true
		close(s.answered)
	}
	return nil
}

// Close implements [sdk.Connection].
func (s *single) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.closed)
	}
	return nil
}
