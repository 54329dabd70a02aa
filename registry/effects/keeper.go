package effects

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Keeper]. Records is needed; other zero fields mean the
// defaults.
type Options struct {
	Records records.Table[Record]
	// Owner names this process among those that make calls at the same time, "" if
	// it is the only one. Ended reports whether another one has ended; nil: all
	// have.
	Owner string
	Ended func(owner string) bool
	// Settled is called with every record that was settled by hand. It must not
	// block. It may be nil.
	Settled  func(*Record)
	MaxOwn   int // deeds of a principal that are not forgotten yet, default 2000
	MaxSpace int // of a space, default 20 000
	Now      func() time.Time
}

// A Keeper keeps deeds. Its methods may be called by many goroutines.
type Keeper struct {
	Options

	live sync.Map // tokens of the calls under way here

	mu       sync.Mutex
	watchers map[string]*watch // of keys
	own      map[protocol.Party]int
	spaces   map[protocol.SpaceID]int
}

// A watch notifies of the next change of a record.
type watch struct {
	changed chan struct{}
	by      int // the number of watchers
}

// New makes a keeper. It follows its table from then on, so it comes before that
// is loaded.
func New(o Options) *Keeper {
	if o.Ended == nil {
		o.Ended = func(string) bool { return true }
	}
	if o.Settled == nil {
		o.Settled = func(*Record) {}
	}
	if o.MaxOwn == 0 {
		o.MaxOwn = 2000
	}
	if o.MaxSpace == 0 {
		o.MaxSpace = 20_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	k := &Keeper{
		Options: o, watchers: make(map[string]*watch),
		own: make(map[protocol.Party]int), spaces: make(map[protocol.SpaceID]int),
	}
	o.Records.OnChange(k.changed)
	return k
}

// changed follows the table.
func (k *Keeper) changed(key string, old, now *Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count(old, -1)
	k.count(now, 1)
	if w := k.watchers[key]; w != nil {
		delete(k.watchers, key)
		close(w.changed)
	}
}

func (k *Keeper) count(r *Record, n int) {
	if r == nil {
		return
	}
	if k.own[r.By] += n; k.own[r.By] == 0 {
		delete(k.own, r.By)
	}
	if k.spaces[r.Space] += n; k.spaces[r.Space] == 0 {
		delete(k.spaces, r.Space)
	}
}

// watch returns a channel that is closed when the record at a key changes next,
// and how to stop looking.
func (k *Keeper) watch(key string) (changed <-chan struct{}, stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.watchers[key]
	if w == nil {
		w = &watch{changed: make(chan struct{})}
		k.watchers[key] = w
	}
	w.by++
	return w.changed, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if w.by--; w.by == 0 && k.watchers[key] == w {
			delete(k.watchers, key)
		}
	}
}

// Begin claims a deed, or returns the record of the call that has claimed it, with
// mine false. The record is stored before it returns. Errors are 3004 with the
// limit, and those of the table.
func (k *Keeper) Begin(ctx context.Context, deed *Record) (r *Record, mine bool, err error) {
	fresh := *deed
	fresh.State, fresh.Owner, fresh.Token, fresh.Began = Running, k.Owner, protocol.NewID(), k.Now().UnixMilli()
	k.live.Store(fresh.Token, nil)
	r, _, err = records.Change(ctx, k.Records, fresh.key(), func(old *Record, _ uint64) (*Record, error) {
		switch {
		case old == nil:
			return &fresh, k.room(&fresh)
		case k.abandoned(old):
			return old.doubtful("", stopped, k.Now()), nil
		case old.State == NotDone, old.over(k.Now()):
			return &fresh, nil
		}
		return old, nil
	})
	if mine = err == nil && r.Token == fresh.Token; !mine {
		k.live.Delete(fresh.Token)
	}
	return r, mine, err
}

// stopped is the reason why the outcome of a call is unknown whose process has ended.
const stopped = "the bridge stopped while the call was under way"

// abandoned reports whether the end of a call will never be noted, as its caller's
// process has ended.
func (k *Keeper) abandoned(r *Record) bool {
	if r.State != Running {
		return false
	}
	if r.Owner != k.Owner {
		return k.Ended(r.Owner)
	}
	_, live := k.live.Load(r.Token)
	return !live
}

// room refuses a deed of a principal or a space that has too many.
func (k *Keeper) room(r *Record) error {
	k.mu.Lock()
	own, all := k.own[r.By], k.spaces[r.Space]
	k.mu.Unlock()
	switch {
	case own >= k.MaxOwn:
		return protocol.Errorf(protocol.LimitReached, "%d effects of yours are not forgotten yet; wait until their windows are over", own).With("limit", k.MaxOwn)
	case all >= k.MaxSpace:
		return protocol.Errorf(protocol.LimitReached, "the space has %d effects that are not forgotten yet", all).With("limit", k.MaxSpace)
	}
	return nil
}

// Done notes that the deed was done.
func (k *Keeper) Done(ctx context.Context, r *Record, agent protocol.AgentID, data json.RawMessage) error {
	return k.end(ctx, r, func(old *Record) *Record { return old.done(agent, data, k.Now()) })
}

// Doubt notes that it is unknown whether the deed was done.
func (k *Keeper) Doubt(ctx context.Context, r *Record, agent protocol.AgentID, why string) error {
	return k.end(ctx, r, func(old *Record) *Record { return old.doubtful(agent, why, k.Now()) })
}

// Forget notes that the deed was not done: the next call is made.
func (k *Keeper) Forget(ctx context.Context, r *Record) error {
	return k.end(ctx, r, func(*Record) *Record { return nil })
}

// end writes the end of a call, unless the deed was settled by hand meanwhile.
func (k *Keeper) end(ctx context.Context, r *Record, to func(*Record) *Record) error {
	defer k.live.Delete(r.Token)
	_, _, err := records.Change(ctx, k.Records, r.key(), func(old *Record, _ uint64) (*Record, error) {
		if old == nil || old.Token != r.Token || old.SettledBy != "" {
			return old, nil
		}
		return to(old), nil
	})
	return err
}

// Settle records the finding of a person whether a deed of unknown outcome was done.
// Errors are 3001 for one that there is not, and 3006 for one whose outcome is known,
// with its state.
func (k *Keeper) Settle(ctx context.Context, space protocol.SpaceID, id string, done bool, by, why string) (*Record, error) {
	r, _, err := records.Change(ctx, k.Records, string(space)+"/"+id, func(old *Record, _ uint64) (*Record, error) {
		switch {
		case old == nil:
			return nil, protocol.Errorf(protocol.NotFound, "there is no effect %q", id).With("effect_id", id)
		case k.abandoned(old):
		case old.State != Unknown:
			return nil, protocol.Errorf(protocol.InvalidState, "the effect is %s: only one of unknown outcome can be settled", old.State).
				With("effect_id", id).With("state", string(old.State))
		}
		return old.settled(done, by, why, k.Now()), nil
	})
	if err == nil {
		k.Settled(r)
	}
	return r, err
}

// Get finds a deed of a space.
func (k *Keeper) Get(space protocol.SpaceID, id string) (*Record, bool) {
	r, _, ok := k.Records.Get(string(space) + "/" + id)
	return r, ok
}

// All yields the deeds that are not over.
func (k *Keeper) All() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, r := range k.Records.All() {
			if !r.over(k.Now()) && !yield(r) {
				return
			}
		}
	}
}

// Await returns the record of a deed as soon as it differs from the seen one, nil
// once it is gone. It looks again now and then, as a process may end without a
// change of the record.
func (k *Keeper) Await(ctx context.Context, seen *Record) (*Record, error) {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		changed, stop := k.watch(seen.key())
		now, _, ok := k.Records.Get(seen.key())
		switch {
		case !ok:
			now = nil
			fallthrough
		case now.Token != seen.Token || now.State != seen.State || k.abandoned(now):
			stop()
			return now, nil
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			stop()
			return nil, context.Cause(ctx)
		}
		stop()
	}
}

// lookAgain is the interval at which waiters look at a call without a change.
const lookAgain = 5 * time.Second

// Doubtful are the deeds whose outcome a read of the skill can show. Those of
// processes that have ended are noted as unknown first.
func (k *Keeper) Doubtful(ctx context.Context) (list []*Record) {
	for key, r := range k.Records.All() {
		if k.abandoned(r) {
			var err error
			r, _, err = records.Change(ctx, k.Records, key, func(old *Record, _ uint64) (*Record, error) {
				if old == nil || !k.abandoned(old) {
					return old, nil
				}
				return old.doubtful("", stopped, k.Now()), nil
			})
			if err != nil || r == nil {
				continue // the next time
			}
		}
		if r.State == Unknown && r.Question != nil && !r.over(k.Now()) {
			list = append(list, r)
		}
	}
	return list
}

// Sweep forgets deeds that are over.
func (k *Keeper) Sweep(ctx context.Context) {
	for key, r := range k.Records.All() {
		if !r.over(k.Now()) {
			continue
		}
		if held, revision, ok := k.Records.Get(key); ok && held.over(k.Now()) {
			_ = k.Records.Delete(ctx, key, revision) // or the next time
		}
	}
}
