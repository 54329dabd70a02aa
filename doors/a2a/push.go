package a2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Bounds of push notifications.
const (
	maxConfigs  = 8 // of one task
	attempts    = 3
	firstPause  = time.Second
	postTimeout = 10 * time.Second
	maxPosts    = 64    // at once, in fair shares: a receiver that does not answer holds a place for long
	maxOwed     = 16384 // events that wait for a place
)

// tokenHeader carries the token of a configuration.
const tokenHeader = "X-A2A-Notification-Token"

// pushes sends the notifications about tasks.
type pushes struct {
	door   *Door
	client *http.Client // nil if none are sent
	posts  *fair.Semaphore

	mu      sync.Mutex
	running context.Context // nil before and after
	watched map[protocol.TaskID]bool
	wg      sync.WaitGroup
}

func newPushes(d *Door) *pushes {
	p := &pushes{door: d, posts: fair.New(fair.Options{What: "push notifications under way", Capacity: maxPosts, Waiting: maxOwed}), watched: make(map[protocol.TaskID]bool)}
	if d.opts.Transport != nil {
		p.client = &http.Client{
			Transport: d.opts.Transport, Timeout: postTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return p
}

// run begins with the tasks of processes that have ended, and ends with ctx.
func (p *pushes) run(ctx context.Context) {
	if p.client == nil {
		<-ctx.Done()
		return
	}
	p.mu.Lock()
	p.running = ctx
	p.mu.Unlock()
	if err := p.takeOver(ctx); err != nil && ctx.Err() == nil {
		p.door.opts.Log.Warn("push notifications of bridges that ended are not sent yet", "error", err)
	}
	<-ctx.Done()
	p.mu.Lock()
	p.running = nil
	p.mu.Unlock()
	p.wg.Wait()
	p.client.CloseIdleConnections()
}

// takeOver sends the notifications of tasks whose process has ended and that this
// process inherits, and its own missing ones.
func (p *pushes) takeOver(ctx context.Context) error {
	if p.client == nil {
		return nil
	}
	var owed []*task.Standing
	for s := range p.door.opts.Tasks.Dialogues() {
		// Most have no receivers, and notes can be long.
		if bytes.Contains(s.Dialogue.Notes, []byte(`"push":[`)) && notesOf(s).owes(s) {
			owed = append(owed, s)
		}
	}
	if len(owed) == 0 {
		return nil
	}
	inherits, err := p.door.opts.Heir(ctx)
	if err != nil {
		return err
	}
	for _, s := range owed {
		kept := notesOf(s)
		if kept.Teller != p.door.opts.Node && kept.Teller != "" && !inherits(kept.Teller, "a2a/"+string(s.ID)) {
			continue
		}
		who, err := p.door.opts.Grants.Principal(kept.Grant)
		if err != nil { // its credential has ended
			continue
		}
		mine, err := p.claim(ctx, s.ID, kept.Teller)
		if err != nil {
			return err
		}
		if mine {
			p.watch(tools.Environment{Principal: who, Space: who.Home()}, s.ID)
		}
	}
	return nil
}

// owes reports whether notifications of a task are still to be sent. The end of a task
// from a release that stored no teller is not sent again.
func (n notes) owes(s *task.Standing) bool {
	return len(n.Push) > 0 && !n.Told && (n.Teller != "" || !s.Over())
}

// claim makes this process the teller of a task in place of another one, and reports
// whether it is.
func (p *pushes) claim(ctx context.Context, id protocol.TaskID, from string) (mine bool, err error) {
	if from == p.door.opts.Node {
		return true, nil
	}
	err = p.door.opts.Tasks.Note(ctx, id, edited(func(n *notes) error {
		if mine = n.Teller == from; mine {
			n.Teller = p.door.opts.Node
		}
		return nil
	}))
	return mine && err == nil, err
}

// watch starts the notifications of a task.
func (p *pushes) watch(env tools.Environment, id protocol.TaskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil || p.watched[id] {
		return
	}
	p.watched[id] = true
	ctx := p.running
	p.wg.Go(func() {
		p.follow(ctx, env, id)
		p.mu.Lock()
		delete(p.watched, id)
		p.mu.Unlock()
	})
}

// follow sends the notifications of a task until the task, or the credential of its
// requester, has ended.
func (p *pushes) follow(ctx context.Context, env tools.Environment, id protocol.TaskID) {
	ctx, release := grant.While(ctx, p.door.opts.Grants, grant.Of(env.Principal))
	defer release()
	for again := true; again && ctx.Err() == nil; {
		l, leave, err := p.door.feeds.listen(ctx, env, id)
		if err != nil {
			return
		}
		var over bool
		over, again = p.hear(ctx, env, id, l)
		leave()
		if over {
			p.settle(ctx, id)
		}
	}
}

// hear sends the events of a listener, and reports whether the task is over, or the
// listener was cut off before.
func (p *pushes) hear(ctx context.Context, env tools.Environment, id protocol.TaskID, l *listener) (over, cut bool) {
	for {
		select {
		case <-ctx.Done():
			return false, false
		case event, ok := <-l.events:
			if !ok {
				return false, l.slow
			}
			p.tell(ctx, env, id, &event)
			if event.state().terminal() {
				return ctx.Err() == nil, false
			}
		}
	}
}

// settle stores that the end was sent to all receivers. Without that it is sent again.
func (p *pushes) settle(ctx context.Context, id protocol.TaskID) {
	err := p.door.opts.Tasks.Note(ctx, id, edited(func(n *notes) error {
		n.Told = true
		return nil
	}))
	if err != nil && ctx.Err() == nil {
		p.door.opts.Log.Warn("the last push notification may be sent again", "task", id, "error", err)
	}
}

// tell sends one event to all receivers.
func (p *pushes) tell(ctx context.Context, env tools.Environment, id protocol.TaskID, event *StreamResponse) {
	s, err := p.door.opts.Tasks.Standing(env.Principal, id)
	if err != nil {
		return
	}
	body, err := json.Marshal(event)
	if err != nil {
		return
	}
	for _, to := range notesOf(s).Push {
		if p.mayHear(&to) {
			p.deliver(ctx, fair.Of(env.Principal), &to.PushConfig, id, body)
		}
	}
}

// mayHear reports whether a receiver still gets notifications: not after the revocation
// of its author's credential.
func (p *pushes) mayHear(to *receiver) bool {
	if to.Grant == nil { // named by an earlier release
		return true
	}
	_, err := p.door.opts.Grants.Principal(*to.Grant)
	return err == nil || grant.Expired(err)
}

// deliver sends an event to one receiver, with a few attempts after doubling pauses.
func (p *pushes) deliver(ctx context.Context, who fair.Party, config *PushConfig, id protocol.TaskID, body []byte) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := p.post(ctx, who, config, body)
		if err == nil || ctx.Err() != nil {
			return
		}
		if attempt == attempts {
			p.door.opts.Log.Warn("a push notification could not be delivered", "task", id, "host", hostOf(config.URL), "attempts", attempt, "error", err)
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

func (p *pushes) post(ctx context.Context, who fair.Party, config *PushConfig, body []byte) error {
	if err := p.posts.Acquire(ctx, who, 1); err != nil {
		return err
	}
	defer p.posts.Release(who, 1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, config.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", restType)
	r.Header.Set("User-Agent", "aibridge")
	r.Header.Set(versionHeader, Version)
	if config.Token != "" {
		r.Header.Set(tokenHeader, config.Token)
	}
	if a := config.Authentication; a != nil {
		r.Header.Set("Authorization", a.Scheme+" "+a.Credentials)
	}
	answer, err := p.client.Do(r)
	if err != nil {
		if told, ok := errors.AsType[*url.Error](err); ok { // which begins with the URL, a secret at times
			return told.Err
		}
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("HTTP %d", answer.StatusCode)
	}
	return nil
}

// hostOf is the host of a receiver's URL, for the log: the whole URL may contain a
// secret.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// check returns the reason why a configuration cannot be used.
func (p *pushes) check(config *PushConfig) error {
	if p.client == nil {
		return notPushed()
	}
	u, err := url.Parse(config.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return invalid("url", "must be an absolute URL of HTTP")
	}
	if reason := p.door.opts.Refuses(config.URL); reason != "" {
		return invalid("url", "is not called by the bridge: "+reason)
	}
	return nil
}

func notPushed() error {
	return refusal(pushNotSupported, "push notifications are off here: listen by SubscribeToTask, or ask by GetTask")
}

// add adds a configuration to a task, or puts it in the place of the one of its id.
func (p *pushes) add(ctx context.Context, c *caller, s *task.Standing, config PushConfig) (*PushConfig, error) {
	if err := p.check(&config); err != nil {
		return nil, err
	}
	if config.ID == "" {
		config.ID = uuid.NewString()
	}
	config.Task, config.Tenant = "", ""
	teller := ""
	err := p.door.opts.Tasks.Note(ctx, s.ID, edited(func(n *notes) error {
		n.Teller, n.Told = cmp.Or(n.Teller, p.door.opts.Node), false
		teller = n.Teller
		n.Push = slices.DeleteFunc(n.Push, func(one receiver) bool { return one.ID == config.ID })
		if len(n.Push) >= maxConfigs {
			return protocol.Errorf(protocol.LimitReached, "a task has at most %d configurations", maxConfigs).With("limit", maxConfigs)
		}
		n.Push = append(n.Push, receiverFor(c, config))
		return nil
	}))
	if err != nil {
		return nil, err
	}
	if teller == p.door.opts.Node {
		p.watch(c.env, s.ID)
	} // else the running watch includes this receiver
	return config.of(s, c), nil
}

// of is a configuration as clients see it: of which task it is.
func (c PushConfig) of(s *task.Standing, who *caller) *PushConfig {
	c.Task, c.Tenant = string(s.ID), who.agent
	return &c
}

// about is the task that a request about configurations is of.
func (d *Door) about(ctx context.Context, c *caller, r *reader, tenant, id string) (*task.Standing, error) {
	c.as(r, tenant)
	if d.pushes.client == nil {
		return nil, notPushed()
	}
	if err := r.fault(); err != nil {
		return nil, err
	}
	if err := d.may(ctx, c, "task:get"); err != nil {
		return nil, err
	}
	return d.standing(c, id)
}

func (d *Door) createPush(ctx context.Context, c *caller, r *reader) (any, error) {
	config := readPush(r)
	if config.Task == "" {
		r.refuse("taskId", "is required")
	}
	s, err := d.about(ctx, c, r, config.Tenant, config.Task)
	if err != nil {
		return nil, err
	}
	return d.pushes.add(ctx, c, s, config)
}

func (d *Door) getPush(ctx context.Context, c *caller, r *reader) (any, error) {
	n := readConfigNaming(r, true)
	s, err := d.about(ctx, c, r, n.tenant, n.task)
	if err != nil {
		return nil, err
	}
	configs := notesOf(s).Push
	i := slices.IndexFunc(configs, func(one receiver) bool { return one.ID == n.config })
	if i < 0 {
		return nil, refusal(taskNotFound, "the task has no such configuration", "taskId", n.task, "id", n.config)
	}
	return configs[i].of(s, c), nil
}

func (d *Door) listPush(ctx context.Context, c *caller, r *reader) (any, error) {
	n := readConfigNaming(r, false)
	s, err := d.about(ctx, c, r, n.tenant, n.task)
	if err != nil {
		return nil, err
	}
	list := []*PushConfig{}
	for _, config := range notesOf(s).Push {
		list = append(list, config.of(s, c))
	}
	return map[string]any{"configs": list}, nil // all of them: they are few
}

func (d *Door) deletePush(ctx context.Context, c *caller, r *reader) (any, error) {
	n := readConfigNaming(r, true)
	s, err := d.about(ctx, c, r, n.tenant, n.task)
	if err != nil {
		return nil, err
	}
	return struct{}{}, d.opts.Tasks.Note(ctx, s.ID, edited(func(kept *notes) error {
		kept.Push = slices.DeleteFunc(kept.Push, func(one receiver) bool { return one.ID == n.config })
		return nil
	}))
}
