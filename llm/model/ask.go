package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/protocol"
)

// A Question is one request to a model, with its payer.
type Question struct {
	Principal *protocol.Principal // payer; its space bounds the visible models
	Space     protocol.SpaceID    // "" is the principal's own
	Skill     protocol.SkillID    // on whose behalf; the caller has checked its right to it
	Run       string              // id of the asking run, "" outside of runs
	Model     string              // name or alias, "" for the default
	Request   chat.Request        // its model is ignored: the route decides it
	// Repeatable allows the cached or shared answer to an equal question. Questions of
	// temperature 0 always allow it.
	Repeatable bool
}

// A Reply is the answer to a question. It may be shared and must not be changed.
type Reply struct {
	Answer   *chat.Answer
	Usage    chat.Usage
	Model    string // as callers name it
	Provider string
	Cost     float64 // in the currency of the prices; 0 from the cache or a flight
	Took     time.Duration
	From     string // provider, cache or flight
}

// question is a question during its processing.
type question struct {
	who     *protocol.Principal
	space   string
	may     access
	skill   protocol.SkillID
	run     string
	model   string
	request *chat.Request
	repeats bool                   // allows the answer to an equal question
	emit    func(chat.Event) error // nil without a listener to the stream
	wasted  *waste
}

// waste is the usage of answers whose listeners disconnected before the end.
type waste struct {
	provider string // "" if no provider has answered
	usage    chat.Usage
	cost     float64
}

// Ask asks a model for one answer, or takes it from the cache. Emit, unless nil, gets
// the events of the answer as they come; its error ends the answer. With emit nil an
// answer that breaks off is requested from another provider; with a listener that has
// got its first event, the failure is returned instead. Errors are those of the
// protocol, or that of ctx.
func (s *Service) Ask(ctx context.Context, q Question, emit func(chat.Event) error) (*Reply, error) {
	space := q.Space
	if space == "" {
		space = q.Principal.Home()
	}
	request := q.Request // a copy, to be bounded and redacted
	return s.ask(ctx, question{
		who: q.Principal, space: string(space), may: s.accessOf(q.Principal, string(space)), skill: q.Skill, run: q.Run, model: q.Model, request: &request, emit: emit,
		repeats: q.Repeatable || deterministic(&request),
	})
}

func (s *Service) ask(ctx context.Context, q question) (*Reply, error) {
	cat := s.catalog.Load()
	if cat == nil || len(cat.models) == 0 {
		return nil, protocol.Errorf(protocol.LLMUnavailable, "no language model is configured").With("reason", "unconfigured")
	}
	s.active.Add(1)
	defer s.active.Add(-1)
	m := cat.find(q.model, q.may)
	if m == nil {
		return nil, protocol.Errorf(protocol.NotFound, "there is no model %.100q; llm.models lists them", q.model).With("param_name", "options.model")
	}
	m, err := s.degrade(cat, m, &q)
	if err != nil {
		return nil, err
	}
	if m.MaxTokens > 0 && (q.request.Options.MaxTokens == 0 || q.request.Options.MaxTokens > m.MaxTokens) {
		q.request.Options.MaxTokens = m.MaxTokens
	}
	mask := s.mask(cat, &q)
	o, err := s.share(ctx, cat, m, q)
	return unmasked(o, mask), err
}

// share joins concurrent equal questions, and uses the cache, if the question allows
// it. Its reply is that of the model, with placeholders.
func (s *Service) share(ctx context.Context, cat *catalog, m *model, q question) (*Reply, error) {
	if !q.repeats {
		return s.pay(ctx, cat, m, q)
	}
	owner := q.who.Party().String()
	if cat.config.Cache.Shared {
		owner = ""
	}
	key, ok := keyOf(q.space, owner, m.Name, q.request)
	if !ok {
		return s.pay(ctx, cat, m, q)
	}
	if o := s.cache.get(key); o != nil {
		s.metrics.cacheHits.Inc()
		s.ledger.book(q.payment(m, ""), Amounts{Repeated: 1})
		return s.repeat(o, "cache", q)
	}
	o, joined, err := s.flights.do(ctx, key, func() (*Reply, error) {
		o, err := s.pay(ctx, cat, m, q)
		if err == nil && cat.config.Cache.TTL > 0 && whole(o.Answer) {
			s.cache.put(key, o, cat.config.Cache)
		}
		return o, err
	})
	if joined && err == nil {
		s.metrics.joined.Inc()
		s.ledger.book(q.payment(m, ""), Amounts{Repeated: 1})
		return s.repeat(o, "flight", q)
	}
	return o, err
}

// deterministic reports whether equal questions have equal answers, within the limits
// of models.
func deterministic(r *chat.Request) bool {
	return r.Options.Temperature != nil && *r.Options.Temperature == 0
}

// whole reports whether an answer is complete, so that it can be cached.
func whole(a *chat.Answer) bool {
	return a.Finish.Reason == chat.EndTurn || a.Finish.Reason == chat.ToolUse
}

// repeat returns a copy of a reply, and emits its events again.
func (s *Service) repeat(o *Reply, from string, q question) (*Reply, error) {
	again := *o
	again.From, again.Cost, again.Took = from, 0, 0
	if q.emit == nil {
		return &again, nil
	}
	for i, segment := range o.Answer.Segments {
		if err := q.emit(eventOf(i, &segment)); err != nil {
			return nil, err
		}
	}
	return &again, q.emit(chat.Event{Type: chat.Finished, Index: len(o.Answer.Segments), Finish: &o.Answer.Finish})
}

// eventOf converts a segment to one event.
func eventOf(index int, s *chat.Segment) chat.Event {
	switch s.Type {
	case chat.Text:
		return chat.Event{Type: chat.TextDelta, Index: index, Text: s.Text, Opaque: s.Opaque}
	case chat.Reasoning:
		return chat.Event{Type: chat.ReasoningDelta, Index: index, Text: s.Text, Opaque: s.Opaque}
	case chat.Call:
		return chat.Event{Type: chat.ToolCallEnd, Index: index, Call: s.ToolCall, Opaque: s.Opaque}
	}
	return chat.Event{Type: chat.SegmentWhole, Index: index, Segment: s}
}

// degrade replaces the model, shortens the answer or refuses the question under load,
// by the rule with the highest threshold that is passed.
func (s *Service) degrade(cat *catalog, m *model, q *question) (*model, error) {
	var rule *Degradation
	active := int(s.active.Load())
	for i, d := range cat.config.Degrade {
		if active > d.Above && (rule == nil || d.Above > rule.Above) {
			rule = &cat.config.Degrade[i]
		}
	}
	if rule == nil {
		return m, nil
	}
	s.metrics.degraded.Inc()
	if rule.Refuse {
		return nil, protocol.BusyFor(time.Second, "too many queries to language models")
	}
	if smaller := cat.find(rule.Model, q.may); rule.Model != "" && smaller != nil {
		m = smaller
	}
	if rule.MaxTokens > 0 && (q.request.Options.MaxTokens == 0 || q.request.Options.MaxTokens > rule.MaxTokens) {
		q.request.Options.MaxTokens = rule.MaxTokens
	}
	return m, nil
}

// pay asks within the budgets.
func (s *Service) pay(ctx context.Context, cat *catalog, m *model, q question) (*Reply, error) {
	held, err := s.cover(ctx, q.who, demandOf(m, q.request), 1)
	if err != nil {
		return nil, err
	}
	if held.answer > 0 {
		q.request.Options.MaxTokens = int(held.answer)
	}
	q.wasted = new(waste)
	o, err := s.route(ctx, m, q)
	if o != nil {
		q.wasted = &waste{o.Provider, o.Answer.Finish.Usage, o.Cost}
	}
	s.settle(held, q.payment(m, q.wasted.provider), q.wasted)
	return o, err
}

// A cover is the amount reserved for a query in the budgets here, and in those of the centre
// that this bridge is a site of.
type cover struct {
	*reservation
	lent   *borrowed // nil without a centre
	answer int64     // tokens that the answer may have, 0 if nothing bounds it
}

// cover reserves a demand, of so many requests. Errors are those of [treasury.reserve] and
// [borrower.reserve].
func (s *Service) cover(ctx context.Context, who *protocol.Principal, d demand, requests int64) (*cover, error) {
	held, err := s.budgets.reserve(ctx, who, d)
	if err != nil {
		return nil, err
	}
	if requests == 0 {
		held.uncounted()
	}
	c := &cover{reservation: held, answer: held.answer}
	if s.centre == nil {
		return c, nil
	}
	if held.answer > 0 {
		d.tokens, d.open = d.tokens+held.answer, false
	}
	if c.lent, err = s.centre.reserve(ctx, d, requests); err != nil {
		if requests > 0 {
			held.uncounted()
		}
		held.settle(chat.Usage{}, 0)
		return nil, err
	}
	if c.lent.answer > 0 {
		c.answer = c.lent.answer
	}
	return c, nil
}

// payment is the payment of a question.
func (q *question) payment(m *model, provider string) Payment {
	return Payment{Principal: q.who.Party(), Model: m.Name, Provider: provider, Skill: q.skill, Run: q.run}
}

// settle books the usage of a request, and sends the alerts of budgets that near or
// reach their limits.
func (s *Service) settle(held *cover, p Payment, used *waste) {
	if used.provider != "" {
		s.ledger.book(p, amountsOf(used.usage, used.cost))
	}
	if held.lent != nil {
		held.lent.settle(used.usage, used.cost)
	}
	for _, alert := range held.reservation.settle(used.usage, used.cost) {
		s.alert(alert)
	}
}

// bytesPerToken is the approximate length of a token of text.
const bytesPerToken = 4

// demandOf estimates the use of a request.
func demandOf(m *model, r *chat.Request) demand {
	d := demand{input: int64(questionTokens(r)), open: r.Options.MaxTokens == 0}
	d.tokens = d.input + int64(r.Options.MaxTokens)
	for _, t := range m.targets {
		if p := t.Price; p.Input+p.Output > d.price.Input+d.price.Output {
			d.price = p
		}
	}
	return d
}

// questionTokens estimates the tokens of a question.
func questionTokens(r *chat.Request) int {
	n := 0
	for _, m := range r.Messages {
		for _, s := range m.Segments {
			n += len(s.Text)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Description) + len(t.Parameters)
	}
	return n / bytesPerToken
}

// estimated returns the likely usage of a query whose answer has so many bytes.
func estimated(r *chat.Request, said int) chat.Usage {
	return chat.Usage{Input: max(questionTokens(r), 1), Output: max(said/bytesPerToken, 1), Estimated: true}
}

// route tries the targets of a model until one answers. Once a listener has got the
// first event, no other target is tried: an answer has one author. After all other
// targets, it waits for a place at the first target that had none.
func (s *Service) route(ctx context.Context, m *model, q question) (*Reply, error) {
	var failed failures
	var crowded *protocol.Error
	soonest := time.Duration(-1)
	tried := 0
	party := fair.Of(q.who)
	targets := m.order(party)
	for i, known := 0, len(targets); i < len(targets); i++ {
		t := targets[i]
		if ok, wait := t.provider.breaker.admit(); !ok {
			if soonest < 0 || wait < soonest {
				soonest = wait
			}
			failed.add(t.provider, t.provider.breaker.why())
			continue
		}
		leave, err := t.provider.enter(ctx, party, i >= known)
		if err != nil {
			t.provider.breaker.abandoned()
			if protocol.CodeOf(err) != protocol.Busy { // it has waited until ctx ended
				return nil, err
			}
			if crowded == nil {
				targets = append(targets, t)
			}
			crowded = protocol.AsError(err)
			continue
		}
		if tried++; tried > 1 {
			s.metrics.failovers.WithLabelValues(m.Name).Inc()
		}
		o, began, err := s.try(ctx, m, t, q)
		leave()
		if err == nil {
			return o, nil
		}
		failure := asFailure(err)
		if failure == nil {
			return o, err
		}
		if began && q.emit != nil || !elsewhere(failure.Kind) {
			return o, failures{{t.provider.config.Name, failure}}.error(0)
		}
		failed.add(t.provider, failure)
		if failure.RetryAfter > 0 && (soonest < 0 || failure.RetryAfter < soonest) {
			soonest = failure.RetryAfter
		}
		if ctx.Err() != nil {
			break
		}
	}
	if tried == 0 && crowded != nil {
		return nil, crowded
	}
	return nil, failed.error(max(soonest, 0))
}

// elsewhere reports whether another provider may answer after a failure.
func elsewhere(k chat.ErrorKind) bool { return k != chat.BadRequest }

// enter takes a place for a request, at once or, with wait, as soon as one is free.
func (p *provider) enter(ctx context.Context, who fair.Party, wait bool) (leave func(), err error) {
	if wait {
		err = p.places.Acquire(ctx, who, 1)
	} else if full := p.places.TryAcquire(who, 1); full != nil {
		err = full
	}
	if err != nil {
		return nil, err
	}
	return func() { p.places.Release(who, 1) }, nil
}

// try asks one target.
func (s *Service) try(ctx context.Context, m *model, t target, q question) (o *Reply, began bool, err error) {
	p := t.provider
	p.active.Add(1)
	defer p.active.Add(-1)
	p.used.Store(s.opts.Now().UnixNano())
	r := *q.request
	r.Model = t.Model
	meter := &answerMeter{space: s.answers, party: fair.Of(q.who)}
	defer meter.close()
	ctx, span := s.startSpan(wire.Metered(ctx, meter), m, t, &r)
	began, start := false, s.opts.Now()
	var first time.Duration
	var fold chat.Folder
	said := 0 // bytes
	err = p.Stream(ctx, &r, func(e chat.Event) error {
		if e.Finish != nil {
			e.Finish.Usage = e.Finish.Usage.Plausible()
		}
		said += len(e.Text)
		if err := meter.Hold(sizeOf(&e)); err != nil {
			return err
		}
		if !began {
			began, first = true, s.opts.Now().Sub(start)
		}
		if err := fold.Add(e); err != nil {
			return &chat.Error{Kind: chat.BadResponse, Message: "the provider sent an answer in disorder", Cause: err}
		}
		if q.emit != nil {
			return q.emit(e)
		}
		return nil
	})
	var a *chat.Answer
	if err == nil {
		a, err = fold.Answer()
	}
	if err != nil && ctx.Err() != nil && asFailure(err) == nil {
		err = context.Cause(ctx)
	}
	if err == nil && a.Finish.Usage.Total() == 0 { // the provider charges without counting
		a.Finish.Usage = estimated(&r, said)
	}
	took := s.opts.Now().Sub(start)
	s.verdict(p, err)
	if err == nil {
		p.recent.add(s.opts.Now(), first, took)
	}
	s.metrics.asked(m, t, q.who, a, err, first, took)
	endSpan(span, a, err, first)
	if err != nil {
		if began && asFailure(err) == nil { // the provider charges for an answer whose caller disconnects
			used := estimated(&r, said)
			*q.wasted = waste{p.config.Name, used, t.Price.cost(used)}
		}
		return nil, began, err
	}
	o = &Reply{
		Answer: a, Usage: a.Finish.Usage, Model: m.Name, Provider: p.config.Name,
		Cost: t.Price.cost(a.Finish.Usage), Took: took, From: "provider",
	}
	s.metrics.spent(m, q.who, o.Cost)
	s.opts.Log.Debug("a language model answered", "model", m.Name, "provider", p.config.Name, "query", digested{q.request}, "tokens", a.Finish.Usage.Total(), "took", took)
	return o, true, nil
}

// A digested query is its hash in logs, made if there is a log.
type digested struct{ query *chat.Request }

// LogValue implements [slog.LogValuer].
func (d digested) LogValue() slog.Value { return slog.StringValue(d.String()) }

// String implements [fmt.Stringer].
func (d digested) String() string {
	h := sha256.New()
	for _, m := range d.query.Messages {
		for _, s := range m.Segments {
			_, _ = h.Write([]byte(s.Text))
			_, _ = h.Write([]byte{0})
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
