package store

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A SessionLog is the log of the owners of MQTT sessions, which all bridges of a cluster
// write and follow. See package cluster/sessions.
type SessionLog struct {
	store   *Store
	stream  string
	subject string
}

// sessionsStream follows the prefix in the stream's name.
const sessionsStream = "-sessions"

// OpenSessions makes the stream if it is missing.
func (s *Store) OpenSessions(ctx context.Context) (*SessionLog, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.LoadTimeout)
	defer cancel()
	l := &SessionLog{store: s, stream: s.options.Prefix + sessionsStream, subject: s.options.Prefix + ".sessions"}
	return l, s.makeStream(ctx, s.flow, jetstream.StreamConfig{
		Name:        l.stream,
		Description: "AI Bridge: which bridge owns which MQTT session",
		Subjects:    []string{l.subject},
		Storage:     jetstream.FileStorage,
		Replicas:    s.options.Replicas,
	})
}

// Append stores a message and returns its position. NATS knows the ids of the last
// two minutes, and stores one of each.
func (l *SessionLog) Append(ctx context.Context, id string, data []byte) (position uint64, err error) {
	if err := l.store.sure(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := bounded(ctx, l.store.options.WriteTimeout)
	defer cancel()
	ack, err := l.store.store(ctx, l.store.flow, &nats.Msg{Subject: l.subject, Header: nats.Header{jetstream.MsgIDHeader: {id}}, Data: data})
	return ack.Sequence, err
}

// Trim forgets the messages before a position.
func (l *SessionLog) Trim(ctx context.Context, before uint64) error {
	ctx, cancel := context.WithTimeout(ctx, l.store.options.LoadTimeout)
	defer cancel()
	return purge(ctx, l.store.flow, l.stream, jetstream.WithPurgeSequence(before))
}

// Follow calls take for every message in its order, from the first that there is,
// and current once all have come that there were. It returns when ctx ends. Slices
// are valid until take returns.
func (l *SessionLog) Follow(ctx context.Context, current func(), take func(position uint64, data []byte)) {
	l.store.followFlow(ctx, l.stream, current, func(m message) { take(m.seq, m.Data) })
}
