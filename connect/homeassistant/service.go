package homeassistant

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/protocol"
)

// Settings say whether announcements are listened to.
type Settings struct {
	Space    string   `yaml:"space" doc:"space whose announcements for Home Assistant become agents; none when empty"`
	Prefix   string   `yaml:"prefix" doc:"topic below which they are made"`
	Topics   []string `yaml:"topics" doc:"filters of the topics that they may name, such as zigbee2mqtt/#; needed with space, as the bridge publishes there for whoever announces"`
	Entities int      `yaml:"entities" doc:"announcements that are taken"`
}

// DefaultSettings listen to nothing.
func DefaultSettings() Settings { return Settings{Prefix: "homeassistant", Entities: 2000} }

// Check reports faults of the settings.
func (s *Settings) Check(root string, fail func(format string, args ...any)) {
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
		fail("connect.homeassistant.topics: is needed, such as zigbee2mqtt/#: what announcements name the bridge reads and publishes with its own rights; # is for every topic")
	}
	for _, filter := range s.Topics {
		if reason := protocol.CheckFilter(filter); reason != "" {
			fail("connect.homeassistant.topics: %s", reason)
		}
	}
}

// A discovery keeps the devices that are announced in a fleet.
type discovery struct {
	Settings
	fleet  *device.Fleet
	reader reader
	log    *slog.Logger

	mu      sync.Mutex
	known   map[string]bool   // topics of announcements that are taken
	refused map[string]string // and why others are not, as far as there is room
}

// Listen makes the fleet of what is announced. Nobody is heard before it runs.
func Listen(s Settings, fleet device.Options) *device.Fleet {
	d := &discovery{Settings: s, log: fleet.Log, known: map[string]bool{}, refused: map[string]string{}}
	d.reader = reader{root: fleet.Root, prefix: s.Prefix, allows: d.allows}
	fleet.Watch = []string{s.Prefix + "/+/+/config", s.Prefix + "/+/+/+/config"}
	fleet.Take = d.take
	d.fleet = device.NewFleet(fleet)
	return d.fleet
}

func (d *discovery) allows(topic string) bool {
	return slices.ContainsFunc(d.Topics, func(filter string) bool { return protocol.Overlap(filter, topic) })
}

// take takes a message. What is no announcement is none of its business.
func (d *discovery) take(topic string, payload []byte) {
	if !strings.HasPrefix(topic, d.Prefix+"/") || !strings.HasSuffix(topic, "/config") {
		return
	}
	at, ok := parseAddress(d.Prefix, topic)
	if !ok {
		d.refuse(topic, errors.New("the ids in the topic have other characters than letters, digits, _ and -"))
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(payload) == 0 {
		d.forget(topic, at)
		return
	}
	if !d.known[topic] && len(d.known) >= d.Entities {
		d.refuseLocked(topic, errors.New("there are connect.homeassistant.entities announcements already"))
		return
	}
	made, err := d.reader.read(at, payload)
	if part := new(partly); errors.As(err, &part) {
		d.refuseLocked(topic, err)
	} else if err != nil {
		d.forget(topic, at) // what it announced before is not so any more
		d.refuseLocked(topic, err)
		return
	} else {
		delete(d.refused, topic)
	}
	d.known[topic] = true
	d.fleet.Put(made)
}

func (d *discovery) forget(topic string, at address) {
	delete(d.refused, topic)
	if d.known[topic] {
		delete(d.known, topic)
		d.fleet.Remove(at.agent())
	}
}

func (d *discovery) refuse(topic string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuseLocked(topic, why)
}

// refuseLocked says once why an announcement, or a part of it, is not taken.
func (d *discovery) refuseLocked(topic string, why error) {
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
