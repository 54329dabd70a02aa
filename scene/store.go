package scene

import (
	"context"
	"iter"

	"github.com/aibridge/aibridge/protocol"
)

// A Table keeps records durably. Values are immutable once stored. Writes
// return when they are durable and every read sees them.
type Table[T any] interface {
	// Get looks a record up. It does not block.
	Get(key string) (value *T, revision uint64, ok bool)
	// All yields every record, in no particular order.
	All() iter.Seq2[string, *T]
	// Create adds a record, 3002 if the key is there.
	Create(ctx context.Context, key string, v *T) (revision uint64, err error)
	// Update replaces the record with the expected revision, 3003 if it has
	// another.
	Update(ctx context.Context, key string, v *T, expect uint64) (revision uint64, err error)
	// Delete removes the record with the expected revision: 3003 if it has
	// another, 3001 if there is none.
	Delete(ctx context.Context, key string, expect uint64) error
	// OnChange calls fn for every change, in order, after reads see it; old
	// is nil for what is new and new is nil for what is gone. It is called
	// for everything there is while the table is loaded.
	OnChange(fn func(key string, old, new *T))
}

// A Message is what the bridge publishes about scenes, with QoS 1.
type Message struct {
	Topic   string
	Payload []byte // JSON; nothing removes what is retained
	Retain  bool
}

// sceneKey is the key of a scene: ids have no slash.
func sceneKey(space protocol.SpaceID, t protocol.SceneType, c protocol.CapID) string {
	return string(space) + "/" + string(t) + "/" + string(c)
}

// maxAttempts bounds how often a change is tried again when somebody else
// changed the same scene meanwhile.
const maxAttempts = 32

// change replaces a scene by what edit makes of it: the scene itself leaves it
// as it is, nil ends it. edit gets nil if there is none.
func (s *Service) change(ctx context.Context, key string, edit func(old *Scene) (*Scene, error)) (value *Scene, revision uint64, err error) {
	for range maxAttempts {
		old, held, ok := s.opts.Scenes.Get(key)
		if !ok {
			old, held = nil, 0
		}
		value, err = edit(old)
		if err != nil || value == old {
			return value, held, err
		}
		switch {
		case value == nil:
			err = s.opts.Scenes.Delete(ctx, key, held)
		case old == nil:
			revision, err = s.opts.Scenes.Create(ctx, key, value)
		default:
			revision, err = s.opts.Scenes.Update(ctx, key, value, held)
		}
		if !raced(err) {
			return value, revision, err
		}
	}
	return nil, 0, err
}

// raced reports whether a write failed because of somebody else's.
func raced(err error) bool {
	code := protocol.CodeOf(err)
	return code == protocol.RevisionConflict || code == protocol.AlreadyExists || code == protocol.NotFound
}
