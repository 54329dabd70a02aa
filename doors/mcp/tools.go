package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// maxDescription is the greatest length of a tool's description for clients, in bytes.
const maxDescription = 8 << 10

// Keys of _meta: where a thing is from, and that its texts
// are a stranger's.
const (
	sourceKey    = "aibridge/source"
	untrustedKey = "aibridge/untrusted"
)

// everything is the pattern of all names.
const everything = "*"

func (d *Door) listTools(ctx context.Context, env tools.Environment, r *sdk.ListToolsRequest) (*sdk.ListToolsResult, error) {
	box, err := d.opts.Catalogue.Select(ctx, env, []string{everything})
	if err != nil {
		return nil, err
	}
	d.guests.of(env.Principal).listed(d.shown(ctx, env, box))
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	some, next, err := page(box.Tools(), func(t *tools.Tool) string { return t.Name }, cursor, d.opts.PageSize)
	if err != nil {
		return nil, err
	}
	names := namesOf(box)
	result := &sdk.ListToolsResult{Tools: make([]*sdk.Tool, 0, len(some)), NextCursor: next}
	result.CacheScope = "private"
	for _, t := range some {
		result.Tools = append(result.Tools, describe(t, names.Encode(t.Name)))
	}
	return result, nil
}

// describe is a tool as clients see it.
func describe(t *tools.Tool, name string) *sdk.Tool {
	described := &sdk.Tool{
		Name:        name,
		Title:       t.Title,
		Description: bounded(t.Told(), maxDescription),
		InputSchema: withDialect(objectSchema(t.JSONSchema()), t.Schema),
		Annotations: hints(t),
		Meta:        sdk.Meta{sourceKey: t.Source},
	}
	if schema := objectSchema(t.Output); len(t.Output) > 0 && describesObject(t.Output) {
		described.OutputSchema = schema
	}
	if name != t.Name {
		described.Meta["aibridge/name"] = t.Name
	}
	if t.Risk != "" {
		described.Meta["aibridge/risk"] = t.Risk
	}
	if t.Untrusted {
		described.Meta[untrustedKey] = true
	}
	return described
}

// hints returns the annotations of a tool about its effect. A tool that changes
// something, and is not declared idempotent, is presumed to be destructive.
func hints(t *tools.Tool) *sdk.ToolAnnotations {
	reads := t.Effect == commands.Read
	destructive := !reads && (t.Risk != "" || !t.Idempotent)
	open := t.Source != "command" && t.Source != "skill.read"
	return &sdk.ToolAnnotations{
		Title:           t.Title,
		ReadOnlyHint:    reads,
		IdempotentHint:  reads || t.Idempotent,
		DestructiveHint: &destructive,
		OpenWorldHint:   &open,
	}
}

// anyObject is the schema of tools without declared arguments.
var anyObject = rawSchema(`{"type":"object"}`)

// objectSchema is a schema that clients accept: it describes an object, and
// asks for no argument in a header of HTTP.
func objectSchema(schema json.RawMessage) rawSchema {
	if !describesObject(schema) {
		return anyObject
	}
	if bytes.Contains(schema, []byte(headerKeyword)) {
		return withoutHeaders(schema)
	}
	return schema
}

// withDialect adds the dialect of the original to a schema: without one it counts as
// 2020-12. Models do not get the dialect.
func withDialect(schema rawSchema, written json.RawMessage) rawSchema {
	var root struct {
		Dialect string `json:"$schema"`
	}
	if json.Unmarshal(written, &root) != nil || root.Dialect == "" || len(root.Dialect) > 256 {
		return schema
	}
	name, err := json.Marshal(root.Dialect)
	if err != nil {
		return schema
	}
	return slices.Concat(rawSchema(`{"$schema":`), name, rawSchema(`,`), schema[1:]) // which has a type at least
}

func describesObject(schema json.RawMessage) bool {
	var root struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &root) == nil && root.Type == "object"
}

// headerKeyword asks clients to repeat an argument in a header, for proxies. It is
// removed from the schemas of devices.
const headerKeyword = "x-mcp-header"

func withoutHeaders(schema json.RawMessage) rawSchema {
	var tree any
	if json.Unmarshal(schema, &tree) != nil {
		return anyObject
	}
	stripHeaders(tree)
	stripped, err := json.Marshal(tree)
	if err != nil {
		return anyObject
	}
	return stripped
}

func stripHeaders(tree any) {
	switch t := tree.(type) {
	case map[string]any:
		delete(t, headerKeyword)
		for _, inner := range t {
			stripHeaders(inner)
		}
	case []any:
		for _, inner := range t {
			stripHeaders(inner)
		}
	}
}

func (d *Door) callTool(ctx context.Context, env tools.Environment, r *sdk.CallToolRequest) (sdk.Result, error) {
	box, tool, err := d.find(ctx, env, r.Params.Name)
	if protocol.CodeOf(err) == protocol.PermissionDenied {
		return resultOf(refused(r.Params.Name, err)), nil
	}
	if err != nil {
		return nil, err
	}
	if token := r.Params.GetProgressToken(); token != nil {
		ctx = tools.WithProgress(ctx, (&progress{session: r.Session, token: token, ctx: ctx}).report)
	}
	ctx = tools.WithLog(ctx, func(l tools.Log) {
		_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: sdk.LoggingLevel(l.Level), Logger: cmp.Or(l.Logger, tool.Name), Data: l.Text}) // for who asked for it
	})
	if tool.Asks && asksBack(r.Session) {
		ctx = tools.WithAsker(ctx, &clientAsker{session: r.Session, ctx: ctx})
	}
	who := asker{env: env, client: clientOf(r.Params.Meta), progress: r.Params.GetProgressToken() != nil}
	call := toolCall(tool.Name, r.Params.Arguments)
	if r.Params.RequestState == "" {
		var instead sdk.Result
		if call, instead = d.supplement(ctx, who, r, tool, call); instead != nil {
			return instead, nil
		}
	}
	var result tools.Result
	var task *Task
	if r.Params.RequestState != "" || who.asksIn(tool) {
		said := make(map[string]json.RawMessage, len(r.Params.InputResponses))
		for key, response := range r.Params.InputResponses {
			if said[key], err = json.Marshal(response); err != nil {
				return nil, err
			}
		}
		var form *inputForm
		if result, task, form, err = d.inRounds(ctx, box, who, call, r.Params.RequestState, said); err != nil {
			return nil, err
		}
		if form != nil {
			return &handedOver{form: form}, nil
		}
	} else {
		result, task = d.run(ctx, box, who, call)
	}
	if task != nil {
		return &handedOver{form: d.handOver(task, who)}, nil
	}
	if result.Warning != "" {
		_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: tool.Name, Data: result.Warning}) // for who asked for it
	}
	return resultOf(&result), nil
}

// run runs one call of a tool in a box. It returns a task instead of a result if the
// call continues as one and its client supports tasks. Clients that get progress, or
// declare how long they wait, are not expected to give up.
func (d *Door) run(ctx context.Context, box *tools.Toolbox, who asker, call *chat.ToolCall) (tools.Result, *Task) {
	_, patient := ctx.Deadline()
	switch {
	case d.opts.Tasks == nil:
	case who.client.tasks && d.opts.Tasks.Usable(ctx, who.env):
		return d.callOrTask(ctx, box, who.env, call)
	case !patient && !who.progress && d.opts.Hold > 0:
		return d.callHeld(ctx, box, who.env, call), nil
	}
	return d.execute(ctx, box, who.env, call), nil
}

// execute runs one call of a tool in a box.
func (d *Door) execute(ctx context.Context, box *tools.Toolbox, env tools.Environment, call *chat.ToolCall) tools.Result {
	env.Parks = d.opts.Keeper != nil
	r := d.opts.Executor.Execute(ctx, box, env, []*chat.ToolCall{call})[0]
	if r.Question != nil {
		r = d.opts.Keeper.Keep(ctx, env, call, r.Question)
	}
	return r
}

// refused is the result of a call that no model may make, so that the model
// reads why.
func refused(name string, err error) *tools.Result {
	known := protocol.AsError(err)
	return &tools.Result{Name: name, Status: tools.Failed, Err: known, Text: "Error: " + known.Message + " (code " + string(known.Code) + ")"}
}

// find is the tool that a client calls, by its name or as that was listed, in a
// box.
func (d *Door) find(ctx context.Context, env tools.Environment, name string) (*tools.Toolbox, *tools.Tool, error) {
	if !strings.Contains(name, everything) {
		if box, err := d.opts.Catalogue.Select(ctx, env, []string{name}); err == nil {
			if tool, ok := box.Find(name); ok {
				return box, tool, nil
			}
		} else if protocol.CodeOf(err) != protocol.NotFound {
			return nil, nil, err
		}
	}
	box, err := d.opts.Catalogue.Select(ctx, env, []string{everything})
	if err != nil {
		return nil, nil, err
	}
	tool, ok := box.Find(namesOf(box).Decode(name))
	if !ok {
		return nil, nil, unknownTool(box, name)
	}
	return box, tool, nil
}

// unknownTool is the error of an unknown tool, with similar names.
func unknownTool(box *tools.Toolbox, name string) error {
	data, err := json.Marshal(map[string]any{"nearest": box.Nearest(name)})
	if err != nil {
		data = nil
	}
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: "Unknown tool: " + strconv.Quote(bounded(name, 128)),
		Data:    data,
	}
}

// toolCall returns a call with the original arguments.
func toolCall(name string, arguments json.RawMessage) *chat.ToolCall {
	call := &chat.ToolCall{ID: protocol.NewID(), Name: name, Args: arguments}
	switch trimmed := bytes.TrimSpace(arguments); {
	case len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")):
		call.Args = json.RawMessage("{}")
	case trimmed[0] != '{':
		call.Args, call.Raw = nil, string(arguments)
	}
	return call
}

// resultOf is the result of a call, for clients. A failure is a result, so
// that the model reads it.
func resultOf(r *tools.Result) *sdk.CallToolResult {
	result := &sdk.CallToolResult{IsError: r.Status != tools.Success && r.Status != tools.Waiting || r.Output.IsError}
	if pieces := r.InOrder(); len(pieces) > 0 {
		for i := range pieces {
			result.Content = append(result.Content, pieceOf(&pieces[i]))
		}
		return withMeta(result, r)
	}
	spoken := r.Output.Text != "" || len(r.Output.Content) > 0 || r.Status != tools.Success
	if spoken && r.Text != "" || len(r.Output.Segments) == 0 { // otherwise the text is only about the media
		result.Content = append(result.Content, &sdk.TextContent{Text: r.Text})
	}
	for i := range r.Output.Segments {
		result.Content = append(result.Content, media(&r.Output.Segments[i]))
	}
	return withMeta(result, r)
}

// pieceOf is a piece as its server gave it.
func pieceOf(p *tools.Piece) sdk.Content {
	switch p.Kind {
	case tools.PieceText:
		return &sdk.TextContent{Text: p.Text}
	case tools.PieceLink:
		return &sdk.ResourceLink{URI: p.URI, Name: p.Name, MIMEType: p.MIMEType}
	case tools.PieceResource:
		return &sdk.EmbeddedResource{Resource: contentsOf(p)}
	}
	s, _ := p.Media()
	return media(&s)
}

// withMeta adds the structured content and the metadata to a result.
func withMeta(result *sdk.CallToolResult, r *tools.Result) *sdk.CallToolResult {
	if object := structured(r); object != nil {
		result.StructuredContent = object
	}
	var meta sdk.Meta
	if r.Warning != "" || r.Err != nil || r.Status == tools.Waiting {
		meta = sdk.Meta{}
	}
	if r.Status == tools.Waiting {
		meta["aibridge/waiting"] = r.Output.Content
	}
	if r.Warning != "" {
		meta["aibridge/warning"] = r.Warning
	}
	if r.Err != nil {
		known := protocol.AsError(r.Err)
		meta["aibridge/error"] = map[string]any{"code": known.Code, "details": known.Details}
	}
	if len(meta) > 0 {
		result.Meta = meta
	}
	return result
}

// structured is the object that a call has given, nil if it has given none.
func structured(r *tools.Result) json.RawMessage {
	if content := bytes.TrimSpace(r.Output.Content); r.Status == tools.Success && !r.Output.IsError && len(content) > 0 && content[0] == '{' {
		return content
	}
	return nil
}

// media is a piece of content that is no text.
func media(s *chat.Segment) sdk.Content {
	data, err := base64.StdEncoding.DecodeString(s.Data)
	switch {
	case s.Type == chat.Text || s.Type == chat.Reasoning:
		return &sdk.TextContent{Text: s.Text}
	case s.Type == chat.UI:
		return &sdk.TextContent{Text: string(s.UI)}
	case err != nil: // a URL
		return &sdk.ResourceLink{URI: s.Data, Name: string(s.Type), MIMEType: s.MIMEType}
	case s.Type == chat.Image:
		return &sdk.ImageContent{Data: data, MIMEType: s.MIMEType}
	case s.Type == chat.Audio:
		return &sdk.AudioContent{Data: data, MIMEType: s.MIMEType}
	}
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "aibridge://media/" + string(s.Type), MIMEType: s.MIMEType, Blob: data}}
}

// A progress sends the progress of a call to its client.
type progress struct {
	session *sdk.ServerSession
	token   any
	ctx     context.Context // of the request that asked
	last    float64
}

// report is called for one call at a time.
func (p *progress) report(step tools.Progress) {
	done, total := step.Percent, 100.0
	if done <= p.last { // it must grow with every step
		done = p.last + 0.001
	}
	p.last = done
	_ = p.session.NotifyProgress(p.ctx, &sdk.ProgressNotificationParams{
		ProgressToken: p.token, Progress: done, Total: total, Message: bounded(step.Message, 1024),
	}) // the client may have disconnected
}
