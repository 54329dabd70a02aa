package broker

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/aibridge/aibridge/broker/condition"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// A subscription is one session's interest in one filter.
type subscription struct {
	session  *session
	filter   string               // as it stood in SUBSCRIBE
	where    *condition.Condition // of the messages it is for; nil for all
	interest *interest
	group    *group // nil unless shared
	at       int    // in the list that holds it
	id       uint32 // subscription identifier, 0 none
	qos      byte
	noLocal  bool
	retainAs bool
	handling byte
	answer   *retainedAnswer // nil where all that is retained is here, or none is asked for
	every    bool            // its session hears every space; what peers were told
}

// An interest is everyone subscribed to one filter.
type interest struct {
	filter string // without $share/group/
	subs   []*subscription
	others int // of subs that were asked for by another name: a session may have several
	groups map[groupKey]*group
	bridge *insiders // nil nearly always
}

// Insiders are the subscribers to a filter that are part of this process.
type insiders struct {
	handlers   []func(*Publication)
	inspectors []Inspector
}

// insiders are those of a filter, to which more are to be added.
func (in *interest) insiders() *insiders {
	if in.bridge == nil {
		in.bridge = new(insiders)
	}
	return in.bridge
}

// A groupKey names a group of one filter. Subscriptions of two spaces share
// nothing, whatever they call it: who hears every space would take its turn at
// what is another's.
type groupKey struct {
	space protocol.SpaceID
	name  string // with "/?" and the condition behind it, if there is one
}

// A group shares one filter's messages among its members.
type group struct {
	key     groupKey
	filter  string
	id      uint64 // among peers
	where   *condition.Condition
	members []*subscription // replaced, never changed
	next    atomic.Uint32
}

// An index finds the subscribers of a topic.
type index struct {
	mu        sync.RWMutex
	filters   topic.Filters[*interest]
	exclusive map[groupKey][]*subscription // those that nobody shares, by space and filter
	count     int
	epoch     atomic.Uint64 // moves with every change
	peers     Peers         // nil for a bridge that is alone

	comparisons map[protocol.Party]int // in the conditions of a party's subscriptions
}

// add makes or replaces a subscription [MQTT-3.8.4-3]. It fails when another
// session has it exclusively, unless [Exclusives] have decided that.
func (x *index) add(sub *subscription, old *subscription) (ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	only, alone := topic.Exclusive(sub.filter)
	key := groupKey{sub.session.owner.Space, only}
	if holders := x.exclusive[key]; alone && x.peers == nil && len(holders) > 0 && holders[0].session != sub.session {
		return false
	}
	if old != nil {
		x.removeLocked(old)
	}
	plain, text := sub.plain()
	groupName, inner, shared := topic.Shared(plain)
	if !shared {
		inner = topic.Inner(plain)
	}
	in := x.interest(inner)
	if alone {
		if x.exclusive == nil {
			x.exclusive = make(map[groupKey][]*subscription)
		}
		x.exclusive[key] = append(x.exclusive[key], sub)
	}
	sub.interest = in
	x.count++
	x.countComparisons(sub, false)
	if !shared {
		sub.at = len(in.subs)
		in.subs = append(in.subs, sub)
		if sub.filter != inner {
			in.others++
		}
	} else {
		key := groupKey{sub.session.owner.Space, groupName}
		if sub.where != nil {
			key.name += "/?" + text // no name of a group has a slash
		}
		g := in.groups[key]
		if g == nil {
			g = &group{key: key, filter: inner, where: sub.where}
			if x.peers != nil {
				g.id = x.peers.Group(key.space, key.name, inner)
			}
			if in.groups == nil {
				in.groups = make(map[groupKey]*group, 1)
			}
			in.groups[key] = g
		}
		sub.group = g
		sub.at = len(g.members)
		g.members = append(g.members[:len(g.members):len(g.members)], sub)
	}
	if x.peers != nil {
		sub.every = sub.session.every.Load()
		x.peers.Subscribed(sub.asInterest())
	}
	since := x.epoch.Add(1)
	if sub.answer != nil && sub.answer.since == 0 {
		sub.answer.since = since
	}
	return true
}

func (x *index) interest(filter string) *interest {
	in, _ := x.filters.Get(filter)
	if in == nil {
		in = &interest{filter: filter}
		x.filters.Set(filter, in)
	}
	return in
}

// handle adds an in-process subscriber.
func (x *index) handle(filter string, fn func(*Publication)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.interest(filter)
	inside := in.insiders()
	inside.handlers = append(inside.handlers, fn)
	x.epoch.Add(1)
}

func (x *index) remove(sub *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeLocked(sub)
	x.epoch.Add(1)
}

func (x *index) removeSession(s *session) {
	if s.subs.len() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for sub := range s.subs.all() {
		x.removeLocked(sub)
	}
	x.epoch.Add(1)
}

func (x *index) removeLocked(sub *subscription) {
	if only, alone := topic.Exclusive(sub.filter); alone {
		key := groupKey{sub.session.owner.Space, only}
		x.exclusive[key] = slices.DeleteFunc(x.exclusive[key], func(other *subscription) bool { return other == sub })
		if len(x.exclusive[key]) == 0 {
			delete(x.exclusive, key)
		}
	}
	in := sub.interest
	x.count--
	x.countComparisons(sub, true)
	if x.peers != nil {
		x.peers.Unsubscribed(sub.asInterest())
	}
	if g := sub.group; g != nil {
		members := make([]*subscription, 0, len(g.members)-1)
		for _, m := range g.members {
			if m != sub {
				m.at = len(members)
				members = append(members, m)
			}
		}
		g.members = members
		if len(members) == 0 {
			delete(in.groups, g.key)
		}
	} else {
		last := len(in.subs) - 1
		in.subs[sub.at] = in.subs[last]
		in.subs[sub.at].at = sub.at
		in.subs[last] = nil
		in.subs = in.subs[:last]
		if sub.filter != in.filter {
			in.others--
		}
	}
	if len(in.subs) == 0 && len(in.groups) == 0 && in.bridge == nil {
		x.filters.Delete(in.filter)
	}
}

// A route is everyone a topic's messages go to.
type route struct {
	topic      string
	epoch      uint64 // of the index, as it was
	targets    []target
	groups     []*group
	members    [][]*subscription // of groups
	handlers   []func(*Publication)
	inspectors []Inspector
	fit        bool // its topic is valid and has no more levels than allowed

	awayFor awayKey // whom awayIs is for
	awayIs  *Away
}

// A target is one session with all of its subscriptions that cover a topic:
// it gets one copy, at the highest QoS [MQTT-3.3.4-2], with every subscription
// identifier [MQTT-3.3.4-3] [MQTT-3.3.4-4].
type target struct {
	s        *session
	subs     []*subscription
	ids      []uint32
	qos      byte
	retainAs bool
	noLocal  bool // of one subscription at least
	others   bool // and not of all
	narrow   bool // a subscription has a condition
}

func (tg *target) add(sub *subscription) {
	tg.subs = append(tg.subs, sub)
	tg.qos = max(tg.qos, sub.qos)
	tg.retainAs = tg.retainAs || sub.retainAs
	if sub.id != 0 {
		tg.ids = append(tg.ids, sub.id)
	}
	tg.noLocal = tg.noLocal || sub.noLocal
	tg.others = tg.others || !sub.noLocal
	tg.narrow = tg.narrow || sub.where != nil
}

// forOwn is the target for what the session's own client published.
func (tg *target) forOwn() (qos byte, retainAs bool, ids []uint32) {
	var own target
	for _, sub := range tg.subs {
		if !sub.noLocal {
			own.add(sub)
		}
	}
	return own.qos, own.retainAs, own.ids
}

// match builds the route of a topic.
func (x *index) match(name string) *route {
	r := &route{topic: name}
	x.mu.RLock()
	defer x.mu.RUnlock()
	r.epoch = x.epoch.Load()
	var found []*interest
	x.filters.Match(name, func(in *interest) { found = append(found, in) })
	n, others := 0, 0
	for _, in := range found {
		n, others = n+len(in.subs), others+in.others
		if in.bridge != nil {
			r.handlers = append(r.handlers, in.bridge.handlers...)
			r.inspectors = append(r.inspectors, in.bridge.inspectors...)
		}
		for _, g := range in.groups {
			r.groups = append(r.groups, g)
			r.members = append(r.members, g.members)
		}
	}
	r.targets = make([]target, 0, n)
	var seen map[*session]int
	if len(found) > 1 || others > 0 {
		seen = make(map[*session]int, n)
	}
	for _, in := range found {
		for _, sub := range in.subs {
			at, ok := seen[sub.session]
			if !ok {
				at = len(r.targets)
				r.targets = append(r.targets, target{s: sub.session})
				if seen != nil {
					seen[sub.session] = at
				}
			}
			r.targets[at].add(sub)
		}
	}
	return r
}

// route returns who gets the messages of a topic, from the turn's cache while
// no subscription changes.
func (t *turn) route(name []byte) *route {
	return t.routeOf(stringOf(name))
}

// stringOf is bytes as a string, which is good as long as they stay.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// fitRoute is the route of a topic that was checked and looked up before, nil for
// others.
func (t *turn) fitRoute(name string) *route {
	if r := t.knownRoute(name); r != nil && r.fit {
		return r
	}
	return nil
}

// routeOf is route for a name that is a string. It does not keep it.
func (t *turn) routeOf(name string) *route {
	if r := t.knownRoute(name); r != nil {
		return r
	}
	r := t.b.index.match(strings.Clone(name))
	if len(t.routes) >= mostRoutes {
		clear(t.routes)
	}
	t.routes[r.topic] = r
	return r
}

// knownRoute is the route of a topic that was looked up before, nil for others.
func (t *turn) knownRoute(name string) *route {
	if epoch := t.b.index.epoch.Load(); epoch != t.epoch {
		clear(t.routes)
		t.epoch = epoch
	}
	return t.routes[name]
}
