package topic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	a2adoor "github.com/aibridge/aibridge/doors/a2a"
	"github.com/aibridge/aibridge/protocol"
)

// request handles a request: for one of the bridge's own agents, or for a client, whose
// replies are allowed from then on.
func (t *Topic) request(p *broker.Publication) {
	n, ok := parse(p.Topic)
	who := p.Client.Principal()
	agent, ours := strings.CutPrefix(n.id, t.Unit+"/")
	_, pooled := n.pooled()
	ours = ours && !pooled
	answers := t.mayAnswer(p)
	switch {
	case !ok:
		p.Take()(broker.NotAuthorized("no such topic of A2A over MQTT"))
	case !answers || p.ResponseTopic == "" || len(p.CorrelationData) == 0 || len(p.CorrelationData) > maxCorrelation || len(p.ResponseTopic) > maxResponseTopic:
		settle := p.Take()
		if ours && answers && p.ResponseTopic != "" {
			t.answer(who, p, t.Door.Unfit(bytes.Clone(p.Payload), "a request needs a Response Topic of at most 512 bytes and Correlation Data of at most 128"))
		}
		settle(broker.Verdict{Reason: implementation, Text: "a request needs a Response Topic of yours, and Correlation Data"})
	case ours && unfit(p) != "":
		settle := p.Take()
		t.answer(who, p, t.Door.Unfit(bytes.Clone(p.Payload), unfit(p)))
		settle(broker.Verdict{})
	case ours:
		settle := p.Take()
		t.serve(p, agent)
		settle(broker.Verdict{})
	default:
		if !t.asked.note(wait{who.Home(), p.ResponseTopic, string(p.CorrelationData)}, n.id, who.Party()) {
			p.Take()(broker.Verdict{Reason: quotaExceeded, Text: "too many requests of yours wait for replies"})
		}
	}
}

// Bounds of the memory of a request until its replies have come, in bytes.
const (
	maxCorrelation   = 128
	maxResponseTopic = 512
)

// unfit is the reason why the bridge's own agents do not accept the properties of a
// request, "" if they do.
func unfit(p *broker.Publication) string {
	if profile := p.Property("a2a-security-profile"); profile != "" {
		return "a2a-security-profile: payloads cannot be encrypted end to end here"
	}
	told := p.Property("a2a-context-id")
	var body struct {
		Params struct {
			Message struct {
				Context string `json:"contextId"`
				Snake   string `json:"context_id"`
			} `json:"message"`
		} `json:"params"`
	}
	if told == "" || json.Unmarshal(p.Payload, &body) != nil {
		return ""
	}
	if said := cmp.Or(body.Params.Message.Context, body.Params.Message.Snake); said != "" && said != told {
		return "a2a-context-id must be the contextId of the message"
	}
	return ""
}

// mayAnswer reports whether replies to a request may go to its response topic.
func (t *Topic) mayAnswer(p *broker.Publication) bool {
	if !strings.HasPrefix(p.ResponseTopic, "$a2a/") {
		return t.MayRespond(p.Client.Principal(), p.ResponseTopic)
	}
	n, ok := parse(p.ResponseTopic)
	return ok && n.family == replies && n.id == p.Client.ID && n.rest != ""
}

// serve has one of the bridge's own agents answer.
func (t *Topic) serve(p *broker.Publication, agent string) {
	who := p.Client.Principal()
	if agent == t.BridgeID {
		agent = ""
	}
	to := reply(p)
	m := a2adoor.Arrival{Principal: who, Agent: agent, Body: bytes.Clone(p.Payload), Mode: modeOf(p), Reply: func(a a2adoor.Answer) {
		answer := to
		answer.Payload, answer.ContentType, answer.UserProperties = a.Body, a.MediaType, a.Properties
		if _, err := t.Publish(protocol.Only(who.Party()), answer); err != nil {
			t.Log.Warn("a reply of A2A is not published", "topic", answer.Topic, "error", err)
		}
	}}
	if err := t.Admit(who); err != nil {
		t.Door.Refuse(m, err)
		return
	}
	ctx, cancel := context.WithCancel(t.open)
	stop := func() bool { return true }
	if gone := t.Gone(p.Client.Session(), to.Topic); gone != nil {
		stop = context.AfterFunc(gone, cancel)
	}
	t.working.Go(func() {
		defer cancel()
		defer stop()
		t.Door.Take(ctx, m)
	})
}

// modeOf is the requested mode of artifacts. An unknown one counts as JSON.
func modeOf(p *broker.Publication) string {
	switch mode := p.Property(a2adoor.ModeProperty); mode {
	case "", a2adoor.BinaryMode:
		return mode
	default:
		return a2adoor.JSONMode
	}
}

func (t *Topic) answer(who *protocol.Principal, p *broker.Publication, body []byte) {
	m := reply(p)
	m.Payload = body
	if _, err := t.Publish(protocol.Only(who.Party()), m); err != nil {
		t.Log.Warn("a reply of A2A is not published", "topic", m.Topic, "error", err)
	}
}

// reply is an empty reply to a request.
func reply(p *broker.Publication) protocol.Message {
	return protocol.Message{Topic: p.ResponseTopic, QoS: 1, ContentType: protocol.ContentJSON, CorrelationData: bytes.Clone(p.CorrelationData)}
}

// reply lets a reply pass to the publisher of its request, and nothing else.
func (t *Topic) reply(p *broker.Publication) {
	if t.hear(p) {
		p.Take()(broker.Verdict{})
		return
	}
	w := wait{p.Client.Principal().Home(), p.Topic, string(p.CorrelationData)}
	to, ok := t.asked.of(w)
	n := name{id: to}
	unit, pooled := "", false
	if ok {
		unit, pooled = n.pooled()
	}
	switch {
	case !ok || !pooled && p.Client.ID != to || pooled && (!IsID(p.Client.ID) || unitOf(p.Client.ID) != unit):
		p.Take()(broker.NotAuthorized("nobody has asked you"))
	case pooled && !says(p, "a2a-responder-agent-id"):
		p.Take()(broker.Verdict{Reason: implementation, Text: "a reply to a request to a pool needs a2a-responder-agent-id"})
	default:
		t.asked.replied(w)
	}
}

// says reports whether a publication has a user property.
func says(p *broker.Publication, key string) bool {
	for _, u := range p.UserProperties {
		if u.Key == key && u.Value != "" {
			return true
		}
	}
	return false
}

// A wait names a request that awaits replies.
type wait struct {
	space       protocol.SpaceID
	topic       string
	correlation string
}

// Bounds of the requests that await replies.
const (
	mostAsked = 1024 // of one party, the latest
	allAsked  = 64 << 10
	ofSpace   = allAsked / 2 // so that no space has all
	askedFor  = time.Hour    // since the last reply
	sweepOnce = time.Minute  // shortest interval of sweeps when the table is full
)

// asked are the requests on their way between clients.
type asked struct {
	mu    sync.Mutex
	waits map[wait]*asking
	by    map[protocol.Party][]wait // the oldest first
	in    map[protocol.SpaceID]int
	swept time.Time
}

type asking struct {
	to   string // the agent or the pool
	by   protocol.Party
	last time.Time
}

func newAsked() *asked {
	return &asked{waits: map[wait]*asking{}, by: map[protocol.Party][]wait{}, in: map[protocol.SpaceID]int{}}
}

// note records a request. It reports false if there are too many, or if another party
// waits for the same reply.
func (a *asked) note(w wait, to string, by protocol.Party) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.waits[w]; known != nil {
		return known.to == to && known.by == by
	}
	if mine := a.by[by]; len(mine) >= mostAsked {
		a.forget(mine[0])
		a.by[by] = mine[1:]
	}
	if a.full(w.space) {
		a.sweep()
	}
	if a.full(w.space) {
		return false
	}
	a.waits[w] = &asking{to, by, time.Now()}
	a.by[by] = append(a.by[by], w)
	a.in[w.space]++
	return true
}

// full reports whether no more requests of a space are noted.
func (a *asked) full(space protocol.SpaceID) bool {
	return len(a.waits) >= allAsked || a.in[space] >= ofSpace
}

// forget forgets a request, but for the list of its sender.
func (a *asked) forget(w wait) {
	delete(a.waits, w)
	if a.in[w.space]--; a.in[w.space] <= 0 {
		delete(a.in, w.space)
	}
}

// sweep forgets requests that have had no reply for long.
func (a *asked) sweep() {
	if time.Since(a.swept) < sweepOnce {
		return
	}
	a.swept = time.Now()
	for by, mine := range a.by {
		kept := make([]wait, 0, len(mine))
		for _, w := range mine {
			if time.Since(a.waits[w].last) <= askedFor {
				kept = append(kept, w)
			} else {
				a.forget(w)
			}
		}
		if a.by[by] = kept; len(kept) == 0 {
			delete(a.by, by)
		}
	}
}

// of is the agent that a request was sent to.
func (a *asked) of(w wait) (to string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.waits[w]
	if one == nil {
		return "", false
	}
	return one.to, true
}

// replied keeps a request for as long again.
func (a *asked) replied(w wait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.waits[w]; one != nil {
		one.last = time.Now()
	}
}
