package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/protocol/grant"
)

// The header, and the user property, of a message that was carried: the bridges
// that carried it, separated by spaces. None carries it twice.
const (
	viaHeader   = "Aibridge-Via"
	viaProperty = "aibridge-via"
	maxVia      = 16
)

const (
	patience  = time.Minute // of an exchange with the broker, which is in this process
	typeField = "Content-Type"

	firstPause = time.Second // before another connection to the broker
	lastPause  = time.Minute
)

// A Dial connects to the broker, as one more MQTT client with the rights of the
// grant's principal.
type Dial func(grant.Grant) (net.Conn, error)

// Carry carries messages between the topics and the subjects of the settings,
// until ctx ends. It does so as the principal of the settings: policy decides
// about each topic, and quotas count, as for an MQTT client.
func (d *Door) Carry(ctx context.Context, dial Dial) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := d.carry(ctx, dial)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		d.Log.Warn("NATS subjects are not carried", "error", err, "again_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// A carrier is one connection to the broker that messages are carried over.
type carrier struct {
	*Door
	client *paho.Client
}

// carry does it with one connection to the broker, until that ends.
func (d *Door) carry(ctx context.Context, dial Dial) error {
	who, err := d.Authenticate(ctx, http.Header{}, d.key)
	if err != nil {
		return err
	}
	conn, err := dial(grant.Of(who))
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &carrier{Door: d}
	id := "nats-" + d.BridgeID
	c.client = paho.NewClient(paho.ClientConfig{
		ClientID: id, Conn: packets.NewThreadSafeConn(conn), PacketTimeout: patience,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			d.metrics.count(toNATS, c.toNATS(p.Packet))
			return true, nil
		}},
	})
	if _, err := c.client.Connect(ctx, &paho.Connect{ClientID: id, CleanStart: true, KeepAlive: 60}); err != nil {
		return err
	}
	defer func() {
		_ = c.client.Disconnect(&paho.Disconnect{})
		<-c.client.Done()
	}()
	// NATS first: so the bridge already hears the answers of NATS clients that get
	// a message of MQTT.
	taken, err := c.subscribe()
	defer func() {
		for _, s := range taken {
			_ = s.Unsubscribe()
		}
	}()
	if err != nil {
		return err
	}
	if err := c.listen(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-c.client.Done():
		return errors.New("the broker has ended the connection")
	}
}

// listen subscribes to the topics that are carried to NATS. Filters that the broker
// refuses are logged, and the rest carried.
func (c *carrier) listen(ctx context.Context) error {
	if len(c.Settings.Publish) == 0 {
		return nil
	}
	s := new(paho.Subscribe)
	for _, filter := range c.Settings.Publish {
		s.Subscriptions = append(s.Subscriptions, paho.SubscribeOptions{Topic: filter, QoS: 1, NoLocal: true, RetainHandling: 2})
	}
	answer, err := c.client.Subscribe(ctx, s)
	if answer == nil {
		return err
	}
	for i, reason := range answer.Reasons {
		if reason >= 0x80 && i < len(s.Subscriptions) {
			c.Log.Error("the broker refuses a filter of doors.nats.publish", "filter", s.Subscriptions[i].Topic, "reason", fmt.Sprintf("0x%02x", reason))
		}
	}
	return nil
}

// subscribe subscribes to the subjects that are carried from NATS.
func (c *carrier) subscribe() (taken []*nats.Subscription, err error) {
	for _, filter := range c.Settings.Subscribe {
		subjects, err := subjectsOf(filter)
		if err != nil {
			return taken, err
		}
		for _, subject := range subjects {
			s, err := c.conn.Subscribe(subject, func(m *nats.Msg) { c.metrics.count(fromNATS, c.fromNATS(m)) })
			if err != nil {
				return taken, err
			}
			taken = append(taken, s)
			if err := s.SetPendingLimits(maxPending, maxPendingB); err != nil {
				return taken, err
			}
		}
	}
	return taken, nil
}

// toNATS carries a message of MQTT, and returns the outcome for the metrics.
func (c *carrier) toNATS(p *paho.Publish) string {
	subject, err := subjectOf(p.Topic, false)
	if err != nil {
		return unnamable
	}
	via, again := c.via(p.Properties.User.Get(viaProperty))
	if again {
		return looped
	}
	if most := c.conn.MaxPayload(); most > 0 && int64(len(p.Payload)) > most {
		return refused
	}
	m := nats.NewMsg(subject)
	m.Data = p.Payload
	m.Header.Set(viaHeader, via)
	if text := p.Properties.ContentType; text != "" {
		m.Header.Set(typeField, headerText(text))
	}
	if err := c.conn.PublishMsg(m); err != nil {
		return nowhere
	}
	return carried
}

// fromNATS carries a message of NATS, and returns the outcome for the metrics.
func (c *carrier) fromNATS(m *nats.Msg) string {
	topic, err := topicOf(m.Subject)
	if err != nil {
		return unnamable
	}
	via, again := c.via(m.Header.Get(viaHeader))
	if again {
		return looped
	}
	p := &paho.Publish{Topic: topic, QoS: 1, Payload: m.Data, Properties: &paho.PublishProperties{ContentType: m.Header.Get(typeField)}}
	p.Properties.User.Add(viaProperty, via)
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	answer, err := c.client.Publish(ctx, p)
	switch {
	case answer != nil && answer.ReasonCode >= 0x80:
		return refused
	case err != nil:
		return nowhere
	}
	return carried
}

// via adds this bridge to the header of the bridges that have carried a message,
// unless it has carried it already, or too many have.
func (d *Door) via(before string) (now string, again bool) {
	bridges := strings.Fields(before)
	if slices.Contains(bridges, d.BridgeID) || len(bridges) >= maxVia {
		return "", true
	}
	return strings.Join(append(bridges, d.BridgeID), " "), false
}
