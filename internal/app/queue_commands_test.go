package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/doors/mqtt/queue"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// asked is the result of a command.
func asked[T any](t *testing.T, c *bridgetest.Raw, command, params string) (result T) {
	t.Helper()
	if err := json.Unmarshal(resultOf(t, c.Ask(t, bridgetest.Request(protocol.NewID(), command, params))), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// refusal is the code of the error of a command.
func refusal(t *testing.T, c *bridgetest.Raw, command, params string) protocol.Code {
	t.Helper()
	return protocol.CodeOf(errorOf(c.Ask(t, bridgetest.Request(protocol.NewID(), command, params))))
}

// Operators look after the queues of their space, and nobody after those of another one.
func TestOperatorsLookAfterQueues(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, queues)
	caller := func(id, rest string) *bridgetest.Raw {
		return n.Caller(t, id, withPassword("apikey", keyFor(t, admin, fmt.Sprintf(`{"principal_id":%q,"space_id":"east"%s}`, id, rest))))
	}
	lamp, fan := caller("lamp", ""), caller("fan", "")
	olga, viewer := caller("olga", `,"kind":"operator","roles":["operator"]`), caller("viewer", `,"kind":"operator","roles":["observer"]`)
	stranger := n.Caller(t, "west", withPassword("apikey", keyFor(t, admin, `{"principal_id":"west","space_id":"west","kind":"operator","roles":["operator"]}`)))
	for i := range 3 {
		lamp.Send(t, fmt.Sprint("jobs/lamp/", i), "on")
		fan.Send(t, fmt.Sprint("jobs/fan/", i), "off")
	}
	listed := func(c *bridgetest.Raw, params string) (found []string) {
		for _, v := range asked[queue.ListResult](t, c, "queue.list", params).Queues {
			found = append(found, fmt.Sprintf("%s/%s %d %d", v.Space, v.Queue, v.Messages, v.Publishers))
		}
		return found
	}
	none := []string{"west/jobs 0 0", "west/shared 0 0", "west/small 0 0", "west/values 0 0"}
	if got := listed(stranger, `{}`); !slices.Equal(got, none) {
		t.Errorf("another space sees %v", got)
	}
	for _, c := range []*bridgetest.Raw{olga, viewer} {
		if got := listed(c, `{"find":"job"}`); !slices.Equal(got, []string{"east/jobs 6 2"}) {
			t.Errorf("an operator sees %v", got)
		}
	}
	if got := listed(admin, `{"space_id":"east"}`); !slices.Equal(got, []string{"east/jobs 6 2"}) {
		t.Errorf("an administrator sees %v", got)
	}
	shown := asked[queue.InfoResult](t, olga, "queue.info", `{"queue":"jobs","principal":"fan"}`)
	if len(shown.Places) != 3 || shown.Total != 3 || shown.Messages != 6 || len(shown.Most) != 2 || shown.Bounds.Messages != 10_000 || shown.Places[0].Topic != "jobs/fan/0" || shown.Places[0].Bytes != 3 {
		t.Errorf("the queue is %+v", shown)
	}
	for _, c := range []struct {
		by              *bridgetest.Raw
		command, params string
		want            protocol.Code
	}{
		{lamp, "queue.list", `{}`, protocol.PermissionDenied},
		{viewer, "queue.purge", `{"queue":"jobs"}`, protocol.PermissionDenied},
		{viewer, "queue.retry", `{"queue":"jobs"}`, protocol.PermissionDenied},
		{stranger, "queue.retry", `{"queue":"jobs","space_id":"east"}`, protocol.NotFound},
		{stranger, "queue.info", `{"queue":"jobs","space_id":"east"}`, protocol.NotFound},
		{stranger, "queue.purge", `{"queue":"jobs","space_id":"east"}`, protocol.NotFound},
		{stranger, "queue.remove", fmt.Sprintf(`{"queued_id":%q}`, shown.Places[0].ID), protocol.NotFound},
		{olga, "queue.info", `{"queue":"job"}`, protocol.NotFound},
		{olga, "queue.remove", `{"queued_id":"x"}`, protocol.NotFound},
	} {
		if got := refusal(t, c.by, c.command, c.params); got != c.want {
			t.Errorf("%s %s was answered by %q, not %q", c.command, c.params, got, c.want)
		}
	}
	if got := asked[queue.Place](t, olga, "queue.remove", fmt.Sprintf(`{"queued_id":%q}`, shown.Places[1].ID)); got.Topic != "jobs/fan/1" {
		t.Errorf("%+v was removed", got)
	}
	if got := asked[queue.PurgeResult](t, olga, "queue.purge", `{"queue":"jobs","principal":"fan"}`); got != (queue.PurgeResult{Removed: 2, Left: 3}) {
		t.Errorf("of the fan %+v", got)
	}
	if got := asked[queue.PurgeResult](t, admin, "queue.purge", `{"queue":"jobs","space_id":"east"}`); got != (queue.PurgeResult{Removed: 3}) {
		t.Errorf("of all %+v", got)
	}
	if got := listed(olga, `{"find":"job"}`); !slices.Equal(got, []string{"east/jobs 0 0"}) {
		t.Errorf("at last an operator sees %v", got)
	}
}

// What workers reject is given to them again, and to those of the dead letters then.
func TestWorkersRejectMessages(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) {
		c.Queues = []queue.Queue{{Name: "jobs", Topic: "jobs/#", Deliveries: 2, DeadLetters: 10}}
	})
	speaker := n.Caller(t, "speaker")
	speaker.Send(t, "$delayed/0/jobs/poison", "x")
	speaker.Send(t, "jobs/food", "y")
	w := labour(t, n, "w", "$queue/jobs")
	rejectTwice := func() {
		t.Helper()
		for rejected := 0; rejected < 2; {
			p := w.next(t)
			if p.Topic == "jobs/food" {
				_ = w.Ack(p)
				continue
			}
			if got := p.Properties.User.Get("x-delivery-count"); got != []string{"", "1"}[rejected] {
				t.Errorf("rejected %d times before, it says %q", rejected, got)
			}
			no := packets.NewControlPacket(packets.PUBACK)
			no.Content = &packets.Puback{PacketID: p.PacketID, ReasonCode: 0x80, Properties: &packets.Properties{}}
			if _, err := no.WriteTo(w.conn); err != nil {
				t.Fatal(err)
			}
			rejected++
		}
	}
	rejectTwice()
	left(t, n, "jobs/dead", 1)
	if got := asked[queue.RetryResult](t, speaker, "queue.retry", `{"queue":"jobs/dead"}`); got != (queue.RetryResult{Retried: 1}) {
		t.Errorf("put back were %+v", got)
	}
	rejectTwice()
	left(t, n, "jobs/dead", 1)
	shown := asked[queue.InfoResult](t, speaker, "queue.info", `{"queue":"jobs/dead"}`)
	if len(shown.Places) != 1 || shown.Places[0].Dead != "delivery_limit" || shown.Places[0].Tries != 2 {
		t.Errorf("the dead letters are %+v", shown)
	}
	if reason := answerTo(t, speaker, &paho.Publish{Topic: "$queue/jobs/dead", QoS: 1}); reason != 0x90 {
		t.Errorf("a message to the dead letters was answered by %#x", reason)
	}
	grave := labour(t, n, "grave", "$queue/jobs/dead")
	if p := grave.next(t); p.Topic != "jobs/poison" || p.Properties.User.Get("x-first-death-reason") != "delivery_limit" {
		t.Errorf("the dead letter is %+v", p)
	} else {
		_ = grave.Ack(p)
	}
	left(t, n, "jobs/dead", 0)
}
