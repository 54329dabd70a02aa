package registry

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Table keeps records of one kind durably. Values are immutable once
// stored. Writes return when they are durable and every read sees them.
type Table[T any] interface {
	// Get looks a record up. It does not block.
	Get(key string) (value *T, revision uint64, ok bool)
	// All yields every record, in no particular order.
	All() iter.Seq2[string, *T]
	Len() int
	// Create adds a record, 3002 if the key is there.
	Create(ctx context.Context, key string, v *T) (revision uint64, err error)
	// Update replaces the record with the expected revision, 3003 if it has
	// another.
	Update(ctx context.Context, key string, v *T, expect uint64) (revision uint64, err error)
	// Delete removes the record with the expected revision, any if that is 0.
	Delete(ctx context.Context, key string, expect uint64) error
	// OnChange calls fn for every change, in order, after reads see it; old
	// is nil for what is new and new is nil for what is gone. It is called
	// for everything there is while the table is loaded.
	OnChange(fn func(key string, old, new *T))
}

// A Publisher sends MQTT messages of the bridge's own.
type Publisher interface {
	// Publish sends a message to those of the recipients who listen, and tells
	// how many connected clients get it.
	Publish(to protocol.Recipients, topic string, payload []byte, o PublishOptions) (receivers int, err error)
}

// PublishOptions are how a message is sent. The zero value is QoS 0.
type PublishOptions struct {
	QoS    byte
	Retain bool

	Expiry          time.Duration // 0: none
	ContentType     string
	ResponseTopic   string
	CorrelationData []byte
	UserProperties  [][2]string // in order
}

// maxAttempts bounds how often a change is tried again when somebody else
// changed the same record meanwhile.
const maxAttempts = 8

// change replaces a record by what edit makes of it. edit gets nil if there
// is none, may return the record it got to leave it as it is, or nil to have
// it deleted. It is called again when the record changed meanwhile.
func change[T any](ctx context.Context, t Table[T], key string, edit func(*T) (*T, error)) (value *T, revision uint64, err error) {
	for range maxAttempts {
		old, revision, ok := t.Get(key)
		if !ok {
			old, revision = nil, 0
		}
		value, err = edit(old)
		if err != nil || value == old {
			return value, revision, err
		}
		switch {
		case value == nil:
			err = t.Delete(ctx, key, revision)
		case old == nil:
			revision, err = t.Create(ctx, key, value)
		default:
			revision, err = t.Update(ctx, key, value, revision)
		}
		if !conflict(err) {
			return value, revision, err
		}
	}
	return nil, 0, err
}

// conflict reports whether a write failed because of somebody else's.
func conflict(err error) bool {
	for _, code := range []protocol.Code{protocol.RevisionConflict, protocol.AlreadyExists} {
		if errors.Is(err, &protocol.Error{Code: code}) {
			return true
		}
	}
	return false
}
