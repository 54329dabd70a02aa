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

// A Webhook is told what happens to approvals, by POST of the event.
type Webhook struct {
	URL    string
	Secret []byte             // signs the requests, see [Sign]
	Spaces []protocol.SpaceID // whose approvals; all by default

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

// Deliveries wait in a queue of bounded length, one for each webhook, are made
// one after the other, and tried a few times.
const (
	maxDeliveries = 1024
	attempts      = 4
	firstPause    = time.Second
	postTimeout   = 5 * time.Second
)

// couriers deliver to webhooks, each to one: those that do not answer hold no
// others up.
type couriers struct {
	each   []*courier
	client *http.Client
}

// A courier delivers to one webhook.
type courier struct {
	hook   Webhook
	client *http.Client
	log    *slog.Logger
	now    func() time.Time
	queue  chan delivery
}

type delivery struct {
	id          string
	name        string
	contentType string
	body        []byte
}

// delivery is an event as the webhook takes it.
func (h *Webhook) delivery(e *protocol.Event) delivery {
	d := delivery{id: deliveryID(e), name: e.Name, contentType: protocol.ContentJSON}
	if h.CloudEvents {
		c := cloudevent.Of(e, "approval/"+e.ID)
		d.contentType, d.body = cloudevent.ContentType, c.Append(nil)
	} else {
		d.body = e.Append(nil)
	}
	return d
}

func newCouriers(o Options) *couriers {
	all := &couriers{client: &http.Client{
		Transport:     o.Transport,
		Timeout:       postTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, hook := range o.Webhooks {
		all.each = append(all.each, &courier{
			hook: hook, client: all.client, log: o.Log, now: o.Now, queue: make(chan delivery, maxDeliveries),
		})
	}
	return all
}

// send has the webhooks of a space told of an event. It does not wait.
func (all *couriers) send(space protocol.SpaceID, e *protocol.Event) {
	for _, c := range all.each {
		if len(c.hook.Spaces) > 0 && !slices.Contains(c.hook.Spaces, space) {
			continue
		}
		select {
		case c.queue <- c.hook.delivery(e):
		default:
			c.log.Warn("a webhook is not told, too much waits for it already", "host", hostOf(c.hook.URL), "event", e.Name)
		}
	}
}

// deliveryID tells the deliveries of events from each other, also from those that
// were numbered alike before the bridge started.
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
	for {
		select {
		case d := <-c.queue:
			c.deliver(ctx, d)
		case <-ctx.Done():
			return
		}
	}
}

// deliver tries a few times, twice as far apart each time.
func (c *courier) deliver(ctx context.Context, d delivery) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		again, err := c.post(ctx, d)
		if err == nil || ctx.Err() != nil {
			return
		}
		if !again || attempt == attempts {
			c.log.Warn("a webhook could not be told", "host", hostOf(c.hook.URL), "event", d.name, "attempts", attempt, "error", err)
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause *= 2
	}
}

// post tells a webhook once. It reports whether another attempt may do better.
func (c *courier) post(ctx context.Context, d delivery) (again bool, err error) {
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
		if told, ok := errors.AsType[*url.Error](err); ok { // which begins with the URL: many a webhook has its secret there
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

// hostOf tells webhooks from each other in the log, without the secrets in
// their URLs.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
