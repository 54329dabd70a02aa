package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// An Executor runs calls of tools. *tools.Executor is one.
type Executor interface {
	Execute(ctx context.Context, box *tools.Toolbox, env tools.Environment, calls []*chat.ToolCall) []tools.Result
}

// A Catalogue holds the tools of the bridge. *tools.Catalogue is one.
type Catalogue interface {
	Select(ctx context.Context, env tools.Environment, patterns []string) (*tools.Toolbox, error)
	Find(ctx context.Context, env tools.Environment, name string) (*tools.Tool, bool)
	Revision() string
	Law() tools.Law
}

// A toolkit holds the tools of one run: its own and, as far as policy permits, those of
// the bridge. It implements [hands].
type toolkit struct {
	executor  Executor
	bridge    Catalogue // nil: none
	own       func(Policy) []*tools.Tool
	env       func() (tools.Environment, error) // with the current rights of the owner
	where     func(ctx context.Context) string  // current node of the run, "" without a workflow
	effects   *effects
	diary     *sealedDiary
	record    func(auditLine) error
	questions map[string]Question // by call
	young     func() bool         // reports whether the bridge has just started; nil reports false
	now       func() time.Time
	approvals Approvals
	waited    *waitEntry       // of the call that uses its approval, nil for none
	barred    map[string]error // errors of refused calls, by their ids
	pause     func(ctx context.Context, d time.Duration) error

	mine   map[string]*tools.Catalogue // by policy
	policy Policy
	latest struct { // the latest offer
		box      *tools.Toolbox
		revision string
		policy   string
	}
}

// Tools implements [tools.Source]: the tools of the bridge that the policy allows.
func (k *toolkit) Tools(ctx context.Context, env tools.Environment) ([]*tools.Tool, error) {
	if k.bridge == nil {
		return nil, nil
	}
	box, err := k.bridge.Select(ctx, env, []string{"*"})
	if err != nil {
		return nil, err
	}
	allowed := make([]*tools.Tool, 0, len(box.Tools()))
	for _, t := range box.Tools() {
		if k.allows(t) {
			allowed = append(allowed, t)
		}
	}
	return allowed, nil
}

func (k *toolkit) allows(t *tools.Tool) bool {
	return t.Source != sourceFS && t.Source != sourceUI && k.policy.Allows(&t.Declaration)
}

// Find implements [tools.Finder].
func (k *toolkit) Find(ctx context.Context, env tools.Environment, name string) (*tools.Tool, bool) {
	if k.bridge == nil {
		return nil, false
	}
	t, ok := k.bridge.Find(ctx, env, name)
	return t, ok && k.allows(t)
}

var _ tools.Finder = (*toolkit)(nil)

// Revision implements [tools.Source].
func (k *toolkit) Revision() string {
	if k.bridge == nil {
		return "none"
	}
	return k.bridge.Revision()
}

// offer implements [hands].
func (k *toolkit) offer(ctx context.Context, policy Policy) (*tools.Toolbox, error) {
	key, err := json.Marshal(policy)
	if err != nil {
		return nil, err
	}
	k.policy = policy
	revision := k.Revision()
	if k.latest.box != nil && revision != "" && k.latest.revision == revision && k.latest.policy == string(key) {
		return k.latest.box, nil
	}
	catalogue := k.mine[string(key)]
	if catalogue == nil {
		if catalogue, err = k.catalogue(policy); err != nil {
			return nil, err
		}
		if k.mine == nil {
			k.mine = make(map[string]*tools.Catalogue)
		}
		k.mine[string(key)] = catalogue
	}
	env, err := k.env()
	if err != nil {
		return nil, err
	}
	box, err := catalogue.Select(ctx, env, []string{"*"})
	if err != nil {
		return nil, err
	}
	k.latest.box, k.latest.revision, k.latest.policy = box, revision, string(key)
	return box, nil
}

// catalogue returns the run's own tools under a policy, followed by those of the
// bridge, so that no skill can take the names of the former.
func (k *toolkit) catalogue(policy Policy) (*tools.Catalogue, error) {
	var own []*tools.Tool
	for _, t := range append(k.own(policy), k.askUser()) {
		if policy.Allows(&t.Declaration) {
			own = append(own, t)
		}
	}
	fixed, err := tools.Fixed(own...)
	if err != nil {
		return nil, err
	}
	catalogue := tools.New(fixed, k)
	if k.bridge != nil {
		catalogue.Under(k.bridge.Law())
	}
	return catalogue, nil
}

// execute implements [hands]. Calls that only read run side by side, others
// alone and in their order.
func (k *toolkit) execute(ctx context.Context, box *tools.Toolbox, turn string, calls []*chat.ToolCall, before []handled, began func(int), done func(int, *handled)) ([]handled, *hold) {
	k.questions = make(map[string]Question)
	all := append(make([]handled, 0, len(calls)), before...)
	for len(all) < len(calls) {
		first := len(all)
		begun := time.Now().UTC()
		group := k.together(ctx, box, calls[first:], func(i int) { began(first + i) })
		node := k.where(ctx)
		for i := range group {
			if group[i].waits {
				return all, holdIn(group)
			}
			h := &group[i]
			h.At = begun
			k.note(turn, node, h)
			all = append(all, *h)
			done(first+i, h)
		}
	}
	return all, nil
}

// holdIn is the first call of a group that needs an approval.
func holdIn(group []handled) *hold {
	for i := range group {
		if h := &group[i]; h.asks != nil {
			return &hold{h.ToolCallID, h.key, h.asks}
		}
	}
	return nil
}

// together runs the first call, or all calls from the first on that only read.
func (k *toolkit) together(ctx context.Context, box *tools.Toolbox, calls []*chat.ToolCall, began func(int)) []handled {
	n := 0
	for n < len(calls) && k.reads(box, calls[n]) {
		began(n)
		n++
	}
	if n == 0 {
		began(0)
		return []handled{k.one(ctx, box, calls[0])}
	}
	group := make([]handled, n)
	for i, r := range k.results(ctx, box, calls[:n]) {
		group[i] = k.handled(box, calls[i], &r)
	}
	return group
}

// reads reports whether a call can run beside others.
func (k *toolkit) reads(box *tools.Toolbox, c *chat.ToolCall) bool {
	t, ok := box.Find(c.Name)
	return ok && t.Effect == commands.Read && c.Args != nil && !k.waitsFor(c) && k.barred[c.ID] == nil
}

// one runs one call that may change something, or refuses it.
func (k *toolkit) one(ctx context.Context, box *tools.Toolbox, c *chat.ToolCall) handled {
	t, ok := box.Find(c.Name)
	switch {
	case k.barred[c.ID] != nil:
		return refused(c, toolFault(&tools.Result{Err: k.barred[c.ID], Text: "Error: " + protocol.AsError(k.barred[c.ID]).Message}))
	case !ok:
		f := fault.Errorf(fault.NotAvailable, "there is no tool %.100q for this run", c.Name)
		if near := box.Nearest(c.Name); len(near) > 0 {
			for i := range near {
				near[i] = box.Spelling(near[i])
			}
			f = f.With("didYouMean", near)
		}
		return refused(c, f)
	case c.Args == nil:
		return refused(c, fault.Errorf(fault.ArgsInvalidJSON, "the arguments of %s are no JSON object", t.Name))
	case t.Source == sourceFS, t.Source == sourceUI, t.Effect == commands.Read: // idempotent
		return k.run(ctx, box, c)
	}
	return k.effect(ctx, box, t, c)
}

func (k *toolkit) run(ctx context.Context, box *tools.Toolbox, c *chat.ToolCall) handled {
	return k.handled(box, c, &k.results(ctx, box, []*chat.ToolCall{c})[0])
}

// results runs calls as the principal that started the run, with its current rights.
// The call that waited runs alone.
func (k *toolkit) results(ctx context.Context, box *tools.Toolbox, calls []*chat.ToolCall) []tools.Result {
	env, err := k.env()
	if err == nil {
		first, edited := k.withApproval(calls[0], &env)
		results := k.executor.Execute(ctx, box, env, append([]*chat.ToolCall{first}, calls[1:]...))
		if edited != nil {
			results[0].Warning = strings.TrimPrefix(results[0].Warning+"; "+edited.Told(), "; ")
		}
		return results
	}
	results := make([]tools.Result, len(calls))
	for i, c := range calls {
		results[i] = tools.Result{CallID: c.ID, Name: c.Name, Status: tools.Skipped, Err: protocol.Errorf(protocol.Cancelled, "not run: %v", err)}
	}
	return results
}

// effect runs a call that changes the world, at most once.
func (k *toolkit) effect(ctx context.Context, box *tools.Toolbox, t *tools.Tool, c *chat.ToolCall) handled {
	if node := k.where(ctx); k.effects.enter(node) {
		if err := k.diary.add(&entry{Enter: &enterEntry{Node: node}}, false); err != nil {
			return refused(c, fault.As(err))
		}
	}
	key, before := k.keyOf(t, c)
	switch {
	case before != nil && before.Done:
		return replayed(c, before)
	case before != nil && !t.Idempotent && !before.told(t, k.now()):
		return refused(c, fault.Errorf(fault.OutcomeUnknown,
			"the same call was begun before the bridge stopped, and whether it was done cannot be known; look before you repeat it").With("key", key))
	}
	begin := sync.OnceValue(func() error {
		return k.diary.add(&entry{Effect: &effectEntry{Key: key, Tool: t.Name, At: k.now().UnixMilli()}}, true)
	})
	ctx = tools.BeforeRun(ctx, func(*tools.Tool) error { return begin() })
	h := k.insist(ctx, box, c, key)
	if before != nil && t.Idempotent && h.unknown { // the claim does not tell the outcome either
		h = k.insist(ctx, box, c, fmt.Sprintf("%s.a%d", key, before.attempt))
	}
	if h.waits {
		h.key = key
		return h
	}
	if ctx.Err() != nil && h.code != "" {
		return h // the outcome is not known
	}
	if err := k.diary.add(&entry{Effect: &effectEntry{Key: key, Tool: t.Name, Done: true, Code: h.code, Message: &h.message}}, false); err != nil {
		return refused(c, fault.As(err))
	}
	return h
}

// keyOf is the key of a call, with its recorded effect. The call that waited keeps its
// own key, to which its approval belongs.
func (k *toolkit) keyOf(t *tools.Tool, c *chat.ToolCall) (key string, before *effectEntry) {
	if k.waitsFor(c) && k.waited.Key != "" {
		return k.waited.Key, k.effects.known[k.waited.Key]
	}
	return k.effects.key(t.Name, c.Args)
}

const (
	comeback      = 20 // repetitions of a call whose device has not reconnected yet
	comebackPause = time.Second
)

// insist runs a call under a key. Devices need a moment to reconnect after the start of
// a bridge: a call that could not be delivered is repeated under another key. A call
// that was not begun because the store was unavailable, as during an election of a
// leader, is repeated under the same key.
func (k *toolkit) insist(ctx context.Context, box *tools.Toolbox, c *chat.ToolCall, key string) handled {
	next := key
	h := k.run(tools.WithKey(ctx, next), box, c)
	for n := 1; n <= comeback && (h.unstored || h.offline && k.young != nil && k.young()); n++ {
		if k.pause(ctx, comebackPause) != nil {
			break
		}
		if h.offline {
			next = fmt.Sprintf("%s.%d", key, n) // the claim of the old key holds the failure
		}
		h = k.run(tools.WithKey(ctx, next), box, c)
	}
	return h
}

// A toolResult is the result of a bridge's tool for a model.
type toolResult struct {
	OK       bool            `json:"ok"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *fault.Error    `json:"error,omitempty"`
	Warning  string          `json:"warning,omitempty"`
	Replayed bool            `json:"replayed,omitempty"` // from before a restart, not repeated
}

func (r *toolResult) JSON() json.RawMessage {
	raw, err := json.Marshal(r)
	if err != nil {
		raw, _ = json.Marshal(toolResult{Error: fault.Errorf(fault.Internal, "the result cannot be written")})
	}
	return raw
}

// answerTo is the tool message of a call.
func answerTo(c *chat.ToolCall, result json.RawMessage, failed bool, media []chat.Segment) chat.Message {
	return chat.Message{
		Role: chat.ToolRole, ToolCallID: c.ID, ToolName: c.Name, Failed: failed,
		Segments: append([]chat.Segment{{Type: chat.Text, Text: string(result)}}, media...),
	}
}

// refused is the result of a call that did not run.
func refused(c *chat.ToolCall, f *fault.Error) handled {
	result := (&toolResult{Error: f}).JSON()
	return handled{
		ToolRun: ToolRun{ToolCallID: c.ID, ToolName: c.Name, Args: argsJSON(c), Result: result},
		message: answerTo(c, result, true, nil), code: f.Code,
	}
}

// replayed is the recorded result of a call that ran before a restart.
func replayed(c *chat.ToolCall, before *effectEntry) handled {
	m := *before.Message
	m.ToolCallID = c.ID
	var was toolResult
	text := json.RawMessage(m.Segments[0].Text)
	if json.Unmarshal(text, &was) == nil {
		was.Replayed = true
		text = was.JSON()
		m.Segments = append([]chat.Segment{{Type: chat.Text, Text: string(text)}}, m.Segments[1:]...)
	}
	return handled{
		ToolRun: ToolRun{ToolCallID: c.ID, ToolName: c.Name, Args: argsJSON(c), Result: text, Replayed: true},
		message: m, code: before.Code,
	}
}

// handled converts the result of a call.
func (k *toolkit) handled(box *tools.Toolbox, c *chat.ToolCall, r *tools.Result) handled {
	if r.Status == tools.Waiting {
		return handled{ToolRun: ToolRun{ToolCallID: c.ID, ToolName: c.Name}, waits: true, asks: r.Question}
	}
	h := handled{ToolRun: ToolRun{
		ToolCallID: c.ID, ToolName: c.Name, Args: argsJSON(c), DurationMS: milliseconds(r.Elapsed), Warning: r.Warning,
	}}
	t, _ := box.Find(c.Name)
	switch {
	case t != nil && (t.Source == sourceFS || t.Source == sourceUI) && len(r.Output.Content) > 0:
		h.Result = r.Output.Content // already in the format of runs
		h.code = codeIn(h.Result)
	case r.Status == tools.Success:
		h.Result = (&toolResult{OK: true, Result: valueOf(r), Warning: r.Warning}).JSON()
	default:
		f := toolFault(r)
		h.Result, h.code = (&toolResult{Error: f, Warning: r.Warning}).JSON(), f.Code
	}
	h.fatal = r.Fatal
	if r.Err != nil {
		code := protocol.CodeOf(r.Err)
		h.offline, h.unstored = code == protocol.AgentOffline, code == protocol.StoreUnavailable
		h.unknown = code == protocol.OutcomeUnknown || code == protocol.IDReused // the same arguments in another order
	}
	h.message = answerTo(c, h.Result, h.code != "", r.Output.Segments)
	if q, ok := k.questions[c.ID]; ok {
		h.question = &q
	}
	return h
}

// valueOf is the result of a tool, as JSON.
func valueOf(r *tools.Result) json.RawMessage {
	if json.Valid([]byte(r.Text)) {
		return json.RawMessage(r.Text)
	}
	raw, _ := json.Marshal(r.Text)
	return raw
}

// codeIn is the code in a result of the run's own tools, "" for success.
func codeIn(result json.RawMessage) fault.Code {
	var r struct {
		OK    bool `json:"ok"`
		Error struct {
			Code fault.Code `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(result, &r) != nil {
		return fault.Internal
	}
	if !r.OK && r.Error.Code == "" {
		return fault.Internal
	}
	return r.Error.Code
}

// note writes a call to the run's log and the bridge's audit trail.
func (k *toolkit) note(turn, node string, h *handled) {
	args, result := sha256.Sum256(h.Args), sha256.Sum256(h.Result)
	err := k.record(auditLine{
		At: time.Now().UTC(), Turn: turn, CallID: h.ToolCallID, Tool: h.ToolName, Node: node, OK: h.code == "", Code: h.code,
		ArgsBytes: len(h.Args), ArgsSHA256: hex.EncodeToString(args[:]),
		ResultBytes: len(h.Result), ResultSHA256: hex.EncodeToString(result[:]),
		DurationMS: h.DurationMS, Replayed: h.Replayed, args: h.Args,
	})
	if err != nil {
		h.lost = err
	}
}
