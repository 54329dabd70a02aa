package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/broker"
)

// A RetainedLog has the retained messages of the clients of a whole cluster: one
// stream, of which the last message of a key counts, and which every bridge
// follows. One key takes some 400 bytes of memory in each NATS server beside its
// value.
type RetainedLog struct {
	store   *Store
	stream  string
	subject string
}

const (
	// retainedStream follows the prefix in the stream's name.
	retainedStream = "-retained"
	// removedFor is the time that the removal of a key is kept. A follower of the
	// stream is never behind by as much.
	removedFor = time.Hour
	// retainedGiven is a header of who has a message besides, see [givenText].
	retainedGiven = "Aibridge-Given"
	// retainedAtOnce are the messages that are on their way to the stream at a time.
	retainedAtOnce = 256
	// retainedHeaders bounds the headers of a message: its life, and who has it besides.
	retainedHeaders = 16 << 10
)

// OpenRetained makes the stream if it is missing.
func (s *Store) OpenRetained(ctx context.Context) (*RetainedLog, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.LoadTimeout)
	defer cancel()
	l := &RetainedLog{store: s, stream: s.options.Prefix + retainedStream, subject: s.options.Prefix + ".retained."}
	return l, s.makeStream(ctx, s.flow, jetstream.StreamConfig{
		Name:              l.stream,
		Description:       "AI Bridge: retained messages of the clients of all bridges",
		Subjects:          []string{l.subject + "*"},
		MaxMsgsPerSubject: 1,
		Storage:           jetstream.FileStorage,
		Replicas:          s.options.Replicas,
		AllowMsgTTL:       true, // for those that expire, and markers of those that are gone
	})
}

// Put stores values, or that they are gone. It returns the position of each in
// the stream, in their order, and 0 for one that is not stored, because it is an earlier
// one, or too large by now; after an error some may be stored.
func (l *RetainedLog) Put(ctx context.Context, values []broker.RetainedValue) ([]uint64, error) {
	positions, errs := make([]uint64, len(values)), make([]error, len(values))
	var wait sync.WaitGroup
	places := make(chan struct{}, retainedAtOnce)
	for i := range values {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			positions[i], errs[i] = l.put(ctx, &values[i])
		})
	}
	wait.Wait()
	return positions, errors.Join(errs...)
}

// Largest implements [broker.RetainedLog].
func (l *RetainedLog) Largest() int { return int(l.store.flow.conn.MaxPayload()) - retainedHeaders }

func (l *RetainedLog) put(ctx context.Context, v *broker.RetainedValue) (uint64, error) {
	life := v.Life
	if len(v.Value) == 0 {
		life = removedFor
	}
	msg := &nats.Msg{Subject: l.subject + keyToken(v.Key), Data: appendRetained(nil, v), Header: make(nats.Header, 2)}
	if life > 0 {
		seconds := int64((life + time.Second - 1) / time.Second)
		msg.Header[jetstream.MsgTTLHeader] = []string{strconv.FormatInt(seconds, 10) + "s"}
	}
	if v.By.ID != "" {
		msg.Header[retainedGiven] = []string{givenText(v)}
	}
	ctx, cancel := bounded(ctx, l.store.options.WriteTimeout)
	defer cancel()
	if v.Earlier {
		msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{"0"}
	}
	var ack pubAck
	err := l.store.onceLed(ctx, func() (err error) {
		ack, err = storeMessage(ctx, l.store.flow, msg)
		return err
	})
	switch {
	case v.Earlier && errors.Is(err, errConflict):
		return 0, nil
	case errors.Is(err, nats.ErrMaxPayload): // which was lowered since the message was taken: again and again is no use
		l.store.log.Error("a retained message is larger than NATS takes by now, and only this bridge has it", "key", v.Key, "bytes", len(msg.Data), "max_payload", l.store.flow.conn.MaxPayload())
		return 0, nil
	}
	return ack.Sequence, err
}

// keyToken is a key as part of a subject. Two keys have one token never in
// practice: half of a SHA-256.
func keyToken(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

func appendRetained(dst []byte, v *broker.RetainedValue) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v.Key)))
	return append(append(dst, v.Key...), v.Value...)
}

func parseRetained(data []byte) (key string, value []byte, ok bool) {
	n, head := binary.Uvarint(data)
	if head <= 0 || n > uint64(len(data)-head) {
		return "", nil, false
	}
	data = data[head:]
	return string(data[:n]), data[n:], true
}

// givenText is the number of a publication, the process of its bridge, and those of
// others that it was given to: "7 a/1 b/3".
func givenText(v *broker.RetainedValue) string {
	text := strconv.AppendUint(nil, v.Number, 10)
	for i := -1; i < len(v.Given); i++ {
		p := v.By
		if i >= 0 {
			p = v.Given[i]
		}
		text = append(append(text, ' '), p.ID...)
		text = strconv.AppendUint(append(text, '/'), p.Epoch, 10)
	}
	return string(text)
}

// parseGiven reads what givenText wrote. Of a text that is none, it has nothing.
func parseGiven(text string, v *broker.RetainedValue) {
	parts := strings.Split(text, " ")
	number, err := strconv.ParseUint(parts[0], 10, 64)
	if err != nil || len(parts) < 2 {
		return
	}
	all := make([]broker.Process, 0, len(parts)-1)
	for _, part := range parts[1:] {
		slash := strings.LastIndexByte(part, '/')
		epoch, err := strconv.ParseUint(part[slash+1:], 10, 64)
		if slash <= 0 || err != nil {
			return
		}
		all = append(all, broker.Process{ID: part[:slash], Epoch: epoch})
	}
	v.Number, v.By, v.Given = number, all[0], all[1:]
}

// copyRetained adds the retained messages of the clients of a cluster to values.
func (s *Store) copyRetained(ctx context.Context, values map[string][]byte) error {
	stream := s.options.Prefix + retainedStream
	if _, err := inspect(ctx, s.flow, stream); isMissing(err) {
		return nil
	} else if err != nil {
		return err
	}
	return readStream(ctx, s.flow, stream, func(m message) error {
		key, value, ok := parseRetained(m.Data)
		switch {
		case !ok:
			return &integrityError{subject: stream, revision: m.seq, err: errors.New("a retained message is damaged")}
		case len(value) == 0:
			delete(values, key) // of the time before the cluster
		default:
			values[key] = value
		}
		return nil
	})
}

// Follow calls take for every value in the order of the stream, from the first
// on, and current once all have come that there were. It returns when ctx ends.
// Slices are valid until take returns.
func (l *RetainedLog) Follow(ctx context.Context, current func(), take func(position uint64, v broker.RetainedValue)) {
	l.store.followFlow(ctx, l.stream, current, func(m message) {
		key, value, ok := parseRetained(m.Data)
		if !ok {
			l.store.log.Error("a retained message is damaged", "stream", l.stream, "position", m.seq)
			return
		}
		v := broker.RetainedValue{Key: key, Value: value}
		parseGiven(m.Header.Get(retainedGiven), &v)
		take(m.seq, v)
	})
}
