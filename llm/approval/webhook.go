package approval

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/cloudevent"
)

// A Webhook receives the events of approvals by POST.
type Webhook struct {
	URL    string
	Secret []byte             // signs the requests, see [Sign]
	Spaces []protocol.SpaceID // spaces of the approvals; all by default

	CloudEvents bool // the body is a CloudEvent in structured mode, which the signature covers whole
}

// SignatureHeader carries the signature of a webhook's body.
const SignatureHeader = "Aibridge-Signature"

// Sign is the signature of a body that is sent at a time: t=UNIX,v1=HEX, where
// HEX is HMAC-SHA256 of "UNIX.BODY" under the secret.
func Sign(secret, body []byte, at time.Time) string {
	unix := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(mac, unix+".")
	_, _ = mac.Write(body)
	return "t=" + unix + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// The times of deliveries, which are made one after the other. A failed one is repeated
// after doubling pauses.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	postTimeout  = 5 * time.Second
)

// couriers holds one courier for each webhook, so that a slow webhook does not delay
// others.
type couriers struct {
	each   []*courier
	client *http.Client
}

// A courier delivers to one webhook.
type courier struct {
	hook    Webhook
	name    string
	client  *http.Client
	log     *slog.Logger
	now     func() time.Time
	settled func(ctx context.Context, hook string, n news) // called after the last attempt
	wake    chan struct{}

	mu             sync.Mutex
	line[delivery] // including the one that is being made
}

// A delivery is an event in the queue of a webhook.
type delivery struct {
	news
	id          string
	space       protocol.SpaceID
	contentType string
	body        []byte

	at    time.Time     // of the event
	due   time.Time     // of the next attempt; zero at once
	pause time.Duration // before the next attempt
}

// delivery is the delivery of an event, with the body for the webhook.
func (h *Webhook) delivery(e *protocol.Event, step int) *delivery {
	d := &delivery{news: news{e.ID, step, e.Name}, id: deliveryID(e), contentType: protocol.ContentJSON, at: time.UnixMilli(e.Timestamp), pause: firstPause}
	if step >= 0 {
		d.id += "-" + strconv.Itoa(step) // two bridges may count alike
	}
	if h.CloudEvents {
		c := cloudevent.Of(e, "approval/"+e.ID)
		d.contentType, d.body = cloudevent.ContentType, c.Append(nil)
	} else {
		d.body = e.Append(nil)
	}
	return d
}

func newCouriers(o Options, settled func(context.Context, string, news)) *couriers {
	all := &couriers{client: &http.Client{
		Transport:     o.Transport,
		Timeout:       postTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, hook := range o.Webhooks {
		all.each = append(all.each, &courier{
			hook: hook, name: hook.name(), client: all.client, log: o.Log, now: o.Now, settled: settled, wake: make(chan struct{}, 1),
			line: newLine(len(hook.Spaces) == 1, func(d *delivery) place { return place{d.space, d.due} }),
		})
	}
	return all
}

// serves reports whether a webhook receives the events of a space.
func (h *Webhook) serves(space protocol.SpaceID) bool {
	return len(h.Spaces) == 0 || slices.Contains(h.Spaces, space)
}

// of returns the names of the webhooks of a space.
func (all *couriers) of(space protocol.SpaceID) (names []string) {
	for _, c := range all.each {
		if c.hook.serves(space) {
			names = append(names, c.name)
		}
	}
	return names
}

// send queues an event for the webhooks of a space, except for those for which told
// reports true. It does not block.
func (all *couriers) send(space protocol.SpaceID, e *protocol.Event, step int, told func(hook string) bool) {
	for _, c := range all.each {
		if c.hook.serves(space) && !told(c.name) {
			d := c.hook.delivery(e, step)
			d.space = space
			c.take(d)
		}
	}
}

// take queues a delivery, unless it is in the queue already.
func (c *courier) take(d *delivery) {
	c.mu.Lock()
	known := slices.ContainsFunc(c.waiting, func(w *delivery) bool { return w.id == d.id })
	full := !known && !c.add(d)
	c.mu.Unlock()
	switch {
	case known:
	case full && d.step < 0:
		c.log.Warn("a webhook is not told, too much waits for it already", "host", hostOf(c.hook.URL), "event", d.name)
	default:
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// deliveryID is the unique id of an event's delivery. The time distinguishes it from
// events with the same number before a restart.
func deliveryID(e *protocol.Event) string {
	return e.ID + "-" + strconv.FormatInt(e.Timestamp, 10) + "-" + strconv.FormatUint(e.Seq, 10)
}

// run delivers until ctx ends.
func (all *couriers) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, c := range all.each {
		running.Go(func() { c.run(ctx) })
	}
	running.Wait()
	all.client.CloseIdleConnections()
}

// run delivers until ctx ends.
func (c *courier) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		d, wait := c.next()
		if d != nil {
			c.deliver(ctx, d)
			continue
		}
		timer.Reset(wait)
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// next returns the delivery to make now, or the time until one is due.
func (c *courier) next() (*delivery, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line.next(c.now())
}

// deliver makes one attempt, and gives up a delivery that is refused or too old.
func (c *courier) deliver(ctx context.Context, d *delivery) {
	again, err := c.post(ctx, d)
	now := c.now()
	switch {
	case ctx.Err() != nil:
		return // the next process delivers it
	case err == nil:
	case again && now.Sub(d.at) < tooOld:
		c.mu.Lock()
		d.due, d.pause = now.Add(d.pause), min(2*d.pause, longestPause)
		c.mu.Unlock()
		return
	default:
		c.log.Warn("an event could not be delivered to a webhook", "host", hostOf(c.hook.URL), "event", d.name, "error", err)
	}
	c.settled(ctx, c.name, d.news)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(d)
}

// post sends a delivery once. It reports whether another attempt may succeed.
func (c *courier) post(ctx context.Context, d *delivery) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.hook.URL, bytes.NewReader(d.body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", d.contentType)
	r.Header.Set("User-Agent", "aibridge")
	r.Header.Set("Aibridge-Event", d.name)
	r.Header.Set("Aibridge-Delivery", d.id) // the same for every attempt
	r.Header.Set(SignatureHeader, Sign(c.hook.Secret, d.body, c.now()))
	answer, err := c.client.Do(r)
	if err != nil {
		if told, ok := errors.AsType[*url.Error](err); ok { // its text begins with the URL, which often contains a secret
			err = told.Err
		}
		return true, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	_ = answer.Body.Close()
	if answer.StatusCode/100 == 2 {
		return false, nil
	}
	return answer.StatusCode/100 == 5 || answer.StatusCode == http.StatusTooManyRequests, fmt.Errorf("HTTP %d", answer.StatusCode)
}

// hostOf is the host of a webhook's URL, for the log: the whole URL may contain a
// secret.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
