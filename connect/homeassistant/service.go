package homeassistant

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/homeassistant/entities"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Settings are the settings of announcements, taken and made.
type Settings struct {
	Space    string   `yaml:"space" doc:"space whose announcements for Home Assistant become agents; none when empty"`
	Prefix   string   `yaml:"prefix" doc:"topic below which they are made"`
	Topics   []string `yaml:"topics" doc:"filters of the topics that they may name, such as zigbee2mqtt/#, as far as who announces may use them; needed with space"`
	Entities int      `yaml:"entities" doc:"announcements that are taken, of one principal half of them"`

	Publish entities.Settings `yaml:"publish"`
}

// DefaultSettings listen to nothing, and show nothing.
func DefaultSettings() Settings {
	return Settings{Prefix: "homeassistant", Entities: 4000, Publish: entities.DefaultSettings()}
}

// Check reports faults of the settings.
func (s *Settings) Check(root string, fail func(format string, args ...any)) {
	s.Publish.Check(root, fail)
	if s.Space == "" {
		return
	}
	if reason := protocol.SpaceID("").Rule().Check(s.Space); reason != "" {
		fail("connect.homeassistant.space: %s", reason)
	}
	if err := device.CheckTopic(s.Prefix, root); err != nil {
		fail("connect.homeassistant.prefix: %w", err)
	}
	if s.Entities < 1 || s.Entities > 100_000 {
		fail("connect.homeassistant.entities: %d is not within 1 and 100000", s.Entities)
	}
	if len(s.Topics) == 0 {
		fail("connect.homeassistant.topics: is needed, such as zigbee2mqtt/#: the topics that announcements may name; # is for every topic that who announces may use")
	}
	for _, filter := range s.Topics {
		if reason := protocol.CheckFilter(filter); reason != "" {
			fail("connect.homeassistant.topics: %s", reason)
		}
	}
}

// Options are the needs of a [Discovery] besides its settings.
type Options struct {
	Announcers records.Table[Announcer]
	Rights     device.Rights
	Fleet      device.Options // without Rights, Watch and the fields that belong to Watch
}

// A Discovery keeps the devices that are announced in a fleet.
type Discovery struct {
	Settings
	fleet      *device.Fleet
	rights     device.Rights
	reader     reader
	announcers *announcers
	log        *slog.Logger

	mu      sync.Mutex
	known   map[string]protocol.Party // the announcers, by the topics of announcements that are taken
	of      map[protocol.Party]int    // the number of announcements taken of each
	refused map[string]string         // why others are not taken, as far as there is room
	unnamed map[string][]byte         // the newest announcements without a known announcer, by topic
}

// NewDiscovery makes the fleet of announced devices. It takes no announcement
// before it runs.
func NewDiscovery(s Settings, o Options) *Discovery {
	d := &Discovery{
		Settings: s, rights: o.Rights, log: o.Fleet.Log, announcers: newAnnouncers(o.Fleet.Space, o.Announcers, 2*s.Entities),
		known: map[string]protocol.Party{}, of: map[protocol.Party]int{}, refused: map[string]string{}, unnamed: map[string][]byte{},
	}
	d.reader = reader{root: o.Fleet.Root, prefix: s.Prefix, allows: d.allows}
	o.Fleet.Rights = o.Rights
	o.Fleet.Watch, o.Fleet.From, o.Fleet.Take, o.Fleet.Taken = d.Filters(), d.announcers.by, d.take, d.sweep
	d.fleet = device.NewFleet(o.Fleet)
	return d
}

// Run keeps the devices at work until ctx ends.
func (d *Discovery) Run(ctx context.Context) error { return d.fleet.Run(ctx) }

// Filters are those of the topics of announcements.
func (d *Discovery) Filters() []string {
	return []string{d.Prefix + "/+/+/config", d.Prefix + "/+/+/+/config"}
}

// A Note names the publisher of an announcement on a topic. Bridges of a cluster
// tell each other.
type Note struct {
	Topic  string      `json:"topic"`
	Digest string      `json:"digest"` // SHA-256 of the announcement
	By     grant.Grant `json:"by"`
}

// Publishes notes the publisher of a message on one of [Discovery.Filters]. It is
// called before the message is delivered, and does not block. ok is false if the
// message cannot be an announcement of the space.
func (d *Discovery) Publishes(who *protocol.Principal, topic string, payload []byte) (n Note, ok bool) {
	if who.Home() != d.announcers.space || len(payload) > maxAnnouncement {
		return n, false
	}
	n = Note{topic, digestOf(payload), grant.Of(who)}
	d.Noted(n)
	return n, true
}

// Noted takes the note of another bridge, which vouches for it. It comes before the
// message is delivered here, unless that is a retained one.
func (d *Discovery) Noted(n Note) {
	d.announcers.note(n.Topic, note{n.Digest, n.By})
	d.mu.Lock()
	defer d.mu.Unlock()
	if payload, there := d.unnamed[n.Topic]; there && digestOf(payload) == n.Digest {
		delete(d.unnamed, n.Topic)
		d.fleet.Again(n.Topic, payload, d.announcers.same(n.By))
	}
}

// author is the announcer of an announcement, nil if it is not known yet: then the announcement is
// kept until another bridge names it.
func (d *Discovery) author(a device.Announced) *grant.Grant {
	d.mu.Lock()
	delete(d.unnamed, a.Topic)
	if a.From == nil && len(a.Payload) > 0 && len(a.Payload) <= maxAnnouncement && len(d.unnamed) < d.Entities {
		d.unnamed[a.Topic] = a.Payload
	}
	d.mu.Unlock()
	if a.From != nil {
		return a.From
	}
	return d.announcers.by(a.Topic, a.Payload) // another bridge may have named it meanwhile
}

func (d *Discovery) allows(topic string) bool {
	return slices.ContainsFunc(d.Topics, func(filter string) bool { return protocol.Overlap(filter, topic) })
}

// take takes a message on the topic of an announcement.
func (d *Discovery) take(a device.Announced) {
	at, ok := parseAddress(d.Prefix, a.Topic)
	a.From = d.author(a)
	switch {
	case !ok:
		d.refuse(a, errors.New("the ids in the topic have other characters than letters, digits, _ and -"))
		return
	case len(a.Payload) == 0:
		d.forget(a, at, nil)
		return
	case a.From == nil && entities.MayBeOurs(d.Prefix, a.Topic): // which the bridge itself publishes
		return
	case a.From == nil:
		d.forget(a, at, errors.New("who announced it is not known, as it was announced before anybody listened, or is too large: have it announced again"))
		return
	}
	made, err := d.readerFor(a.From).read(at, a.Payload)
	if made == nil || err != nil && !errors.As(err, new(*partly)) {
		d.forget(a, at, err) // the announcement before no longer holds
		return
	}
	made.By, made.Digest = a.From, made.Digest+" "+digestOfGrant(a.From)
	if d.put(a, made, err) {
		if err := d.announcers.keep(a.Topic, a.Payload, a.From); err != nil {
			d.log.Warn("who announced a device is not stored, so that it has to be announced again after a restart", "topic", a.Topic, "space", d.Space, "error", err)
		}
	}
}

// readerFor is the reader for an announcer, which may name only topics that it may
// use itself.
func (d *Discovery) readerFor(who *grant.Grant) *reader {
	r := d.reader
	r.mayRead = func(topic string) error { return d.rights.MaySubscribe(*who, topic) }
	r.mayWrite = func(topic string, retain bool) error { return d.rights.MayPublish(*who, topic, retain) }
	return &r
}

// put takes a device in, unless something newer was announced, or there is no
// room. left is the error of its parts that are left out.
func (d *Discovery) put(a device.Announced, made *device.Device, left error) (taken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !a.Newest() {
		return false
	}
	who := a.From.Party()
	before, again := d.known[a.Topic]
	switch {
	case !again && len(d.known) >= d.Entities:
		d.refuseLocked(a.Topic, errors.New("there are connect.homeassistant.entities announcements already"))
		return false
	case before != who && d.of[who] >= d.share():
		d.refuseLocked(a.Topic, errors.New("who announced it has half of connect.homeassistant.entities already"))
		return false
	case left != nil:
		d.refuseLocked(a.Topic, left)
	default:
		delete(d.refused, a.Topic)
	}
	d.count(before, -1)
	d.known[a.Topic] = who
	d.count(who, 1)
	d.fleet.Put(made)
	return true
}

// share is the number of announcements of one party that are taken.
func (d *Discovery) share() int { return max(1, d.Entities/2) }

func (d *Discovery) count(who protocol.Party, n int) {
	if who == (protocol.Party{}) {
		return
	}
	if d.of[who] += n; d.of[who] == 0 {
		delete(d.of, who)
	}
}

// forget takes a device out that is announced no more, or in a way for whose
// refusal there is a reason.
func (d *Discovery) forget(a device.Announced, at address, why error) {
	d.mu.Lock()
	if !a.Newest() {
		d.mu.Unlock()
		return
	}
	delete(d.refused, a.Topic)
	if why != nil {
		d.refuseLocked(a.Topic, why)
	}
	if who, there := d.known[a.Topic]; there {
		delete(d.known, a.Topic)
		d.count(who, -1)
		d.fleet.Remove(at.agent())
	}
	d.mu.Unlock()
	d.forgetAnnouncer(a.Topic)
}

func (d *Discovery) forgetAnnouncer(topic string) {
	if err := d.announcers.forget(topic); err != nil {
		d.log.Warn("who announced a device that is gone stays stored", "topic", topic, "space", d.Space, "error", err)
	}
}

// sweep forgets the announcers of announcements that are gone, once all retained
// ones were taken.
func (d *Discovery) sweep() {
	for _, topic := range d.announcers.stored() {
		d.mu.Lock()
		_, there := d.known[topic]
		d.mu.Unlock()
		if !there {
			d.forgetAnnouncer(topic)
		}
	}
}

func (d *Discovery) refuse(a device.Announced, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuseLocked(a.Topic, why)
}

// refuseLocked logs once why an announcement, or a part of it, is not taken.
func (d *Discovery) refuseLocked(topic string, why error) {
	if d.refused[topic] == why.Error() {
		return
	}
	if len(d.refused) >= d.Entities {
		clear(d.refused)
	}
	d.refused[topic] = why.Error()
	d.fleet.Metrics.Refused(d.fleet.Origin)
	d.log.Warn("an announcement for Home Assistant is not understood", "topic", topic, "space", d.Space, "reason", why)
}
