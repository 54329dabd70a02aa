package servers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

var toolCall = commands.Spec{
	Name:    "mcp.tool.call",
	Summary: "Call a tool of an external MCP server.",
	Effect:  commands.Act,
	Traced:  true,
	Action:  "mcp:tool.call",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.TargetUnavailable, protocol.TimedOut, protocol.OutcomeUnknown, protocol.Cancelled,
	},
	Example: `{"server":"files","tool":"read","arguments":{"path":"notes.txt"}}`,
}

// CallParams are the params of mcp.tool.call.
type CallParams struct {
	Server    string          `json:"server" len:"1-32" doc:"the server"`
	Tool      string          `json:"tool" len:"1-256" doc:"the tool, as the server calls it; it must be approved"`
	Arguments json.RawMessage `json:"arguments,omitempty" type:"object" default:"{}" doc:"arguments of the tool"`
}

// Target implements [commands.Targeter].
func (p CallParams) Target() commands.Resource { return resource(p.Server) }

// CallResult is the result of mcp.tool.call.
type CallResult struct {
	Server  string          `json:"server" doc:"name of the server, as it is configured"`
	Tool    string          `json:"tool" doc:"name of the tool, as the server declares it"`
	Data    json.RawMessage `json:"data,omitempty" doc:"structured content, if the server gives any"`
	Text    string          `json:"text" doc:"the result as text"`
	Media   []Media         `json:"media,omitempty" doc:"images, audio and video of the result, in its order; absent if there are none"`
	Content []Content       `json:"content,omitempty" doc:"all of the result in its order; absent if it is one text"`
	Sampled *Sampled        `json:"sampled,omitempty" doc:"questions of the server to models meanwhile; absent if there were none"`
	Forms   int             `json:"forms,omitempty" doc:"forms by which the server asked the caller meanwhile; absent for 0"`
	IsError bool            `json:"is_error" doc:"the tool reported a failure; text holds the reason"`
}

// Media is a piece of a result that is not text.
type Media struct {
	Kind     string `json:"kind" doc:"image, audio or video"`
	MIMEType string `json:"mime_type" doc:"media type, such as image/png"`
	Data     string `json:"data" doc:"base64, or a URL"`
}

// Content is one piece of a result.
type Content struct {
	Kind     string `json:"kind" enum:"text,image,audio,video,resource,resource_link" doc:"kind; resource has the contents of one, resource_link only its address"`
	Text     string `json:"text,omitempty" doc:"of a text, and of a resource that is one"`
	MIMEType string `json:"mime_type,omitempty" doc:"media type of data, or of a resource; absent if the server does not say"`
	Data     string `json:"data,omitempty" doc:"of media, and of a resource that is no text: base64"`
	URI      string `json:"uri,omitempty" doc:"of a resource"`
	Name     string `json:"name,omitempty" doc:"of a link"`
}

// Piece converts the content to a piece of a tool's output.
func (c *Content) Piece() tools.Piece {
	return tools.Piece{Kind: tools.PieceKind(c.Kind), Text: c.Text, Data: c.Data, MIMEType: c.MIMEType, URI: c.URI, Name: c.Name}
}

// maxText is the greatest length of the text of a result, in bytes.
const maxText = 1 << 20

// Call calls a tool.
func (s *Service) Call(ctx context.Context, call *commands.Call, p CallParams) (CallResult, error) {
	l, err := s.connected(call.Principal, p.Server)
	if err != nil {
		return CallResult{}, err
	}
	name := prefix + p.Server + "." + p.Tool
	approved := false
	for _, t := range l.offered() {
		approved = approved || t.Name == name
	}
	if !approved {
		return CallResult{}, protocol.Errorf(protocol.NotFound, "the server has no approved tool %.100q", p.Tool).With("server", p.Server)
	}
	var result *sdk.CallToolResult
	asked := l.inquiry(call)
	err = l.ask(ctx, call, errand{"tools/call", semconv.ToolName.String(p.Tool)}, asked, func(ctx context.Context, session *sdk.ClientSession, meta sdk.Meta) (failed error) {
		result, failed = session.CallTool(ctx, &sdk.CallToolParams{Meta: meta, Name: p.Tool, Arguments: p.Arguments})
		return failed
	})
	if err != nil {
		return CallResult{}, l.explain(ctx, err)
	}
	got := read(p, result)
	got.Sampled, got.Forms = asked.summary()
	return got, nil
}

// explain is the error of a failed call for its caller.
func (l *connection) explain(ctx context.Context, err error) error {
	refused, ours := new(jsonrpc.Error), new(protocol.Error)
	switch {
	case errors.As(err, &ours):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return protocol.Errorf(protocol.OutcomeUnknown, "the MCP server did not answer in time").With("server", l.config.Name)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused) && !errors.Is(err, sdk.ErrConnectionClosed) && !errors.Is(err, sdk.ErrSessionMissing):
		return protocol.Errorf(protocol.TargetUnavailable, "the MCP server refused the call: %s", short(refused.Message, 1024)).With("server", l.config.Name)
	}
	l.look() // detects a lost server now
	l.service.opts.Log.Debug("a call of an MCP server failed", "server", l.config.Name, "error", err)
	return protocol.Wrap(protocol.OutcomeUnknown, err, "the connection to the MCP server broke during the call").With("server", l.config.Name)
}

// read converts the answer of the server to a result.
func read(p CallParams, r *sdk.CallToolResult) CallResult {
	result := CallResult{Server: p.Server, Tool: p.Tool, IsError: r.IsError}
	if r.StructuredContent != nil {
		if data, err := json.Marshal(r.StructuredContent); err == nil {
			result.Data = data
		}
	}
	result.take(r.Content)
	return result
}

// take takes the pieces of a result in their order.
func (r *CallResult) take(pieces []sdk.Content) {
	contents := make([]Content, 0, len(pieces))
	for _, piece := range pieces {
		if c, ok := contentOf(piece); ok {
			contents = append(contents, c)
		}
	}
	r.sort(contents)
}

// sort sorts pieces into text and media.
func (r *CallResult) sort(pieces []Content) {
	var texts []string
	left := maxText
	for _, c := range pieces {
		c.Text = short(c.Text, left)
		left = max(left-len(c.Text), 0)
		if text, ok := c.asText(); ok {
			texts = append(texts, text)
		} else {
			r.Media = append(r.Media, Media{c.mediaKind(), c.MIMEType, c.Data})
		}
		r.Content = append(r.Content, c)
	}
	r.Text = short(strings.Join(texts, "\n"), maxText)
	if len(r.Content) == 1 && r.Content[0].Kind == string(chat.Text) {
		r.Content = nil
	}
}

// contentOf converts a piece of a result. It reports false for unknown kinds, which are
// left out.
func contentOf(piece sdk.Content) (Content, bool) {
	encode := base64.StdEncoding.EncodeToString
	switch c := piece.(type) {
	case *sdk.TextContent:
		return Content{Kind: string(chat.Text), Text: c.Text}, true
	case *sdk.ImageContent:
		return Content{Kind: string(chat.Image), MIMEType: c.MIMEType, Data: encode(c.Data)}, true
	case *sdk.AudioContent:
		return Content{Kind: string(chat.Audio), MIMEType: c.MIMEType, Data: encode(c.Data)}, true
	case *sdk.ResourceLink:
		return Content{Kind: string(tools.PieceLink), URI: short(c.URI, maxURI), Name: short(c.Name, maxURI), MIMEType: c.MIMEType}, true
	case *sdk.EmbeddedResource:
		if c.Resource != nil {
			return Content{Kind: string(tools.PieceResource), URI: short(c.Resource.URI, maxURI), MIMEType: c.Resource.MIMEType, Text: c.Resource.Text, Data: encode(c.Resource.Blob)}, true
		}
	}
	return Content{}, false
}

// maxURI bounds the name and the address of a resource, in bytes.
const maxURI = 2048

// mediaKind is the kind of a piece that is image, audio or video, "" for others.
func (c *Content) mediaKind() string {
	kind := c.Kind
	if kind == string(tools.PieceResource) && c.Data != "" {
		kind, _, _ = strings.Cut(c.MIMEType, "/")
	}
	switch chat.Kind(kind) {
	case chat.Image, chat.Audio, chat.Video:
		return kind
	}
	return ""
}

// asText is the text of a piece for a model; false for media. A link, and a resource
// that is not text, gets a text that names it.
func (c *Content) asText() (string, bool) {
	switch {
	case c.mediaKind() != "":
		return "", false
	case c.Kind == string(tools.PieceLink):
		return "Resource: " + c.URI, true
	case c.Data != "":
		return fmt.Sprintf("Resource: %s (%s, %d bytes)", c.URI, c.MIMEType, base64.StdEncoding.DecodedLen(len(c.Data))-strings.Count(c.Data[max(len(c.Data)-2, 0):], "=")), true
	}
	return c.Text, true
}

// run calls a tool on behalf of a model, by the command.
func (s *Service) run(ctx context.Context, x *tools.Execution, server, tool string) (tools.Output, error) {
	params, err := json.Marshal(CallParams{Server: server, Tool: tool, Arguments: x.ArgumentsJSON})
	if err != nil {
		return tools.Output{}, protocol.Wrap(protocol.Internal, err, "the call cannot be written as JSON")
	}
	answer, err := s.opts.Invoke(ctx, x.Environment, toolCall.Name, params)
	if err != nil {
		return tools.Output{}, err
	}
	var r CallResult
	if err := json.Unmarshal(answer, &r); err != nil {
		return tools.Output{}, protocol.Wrap(protocol.Internal, err, "the answer cannot be read")
	}
	return r.output(), nil
}

// output converts the result to the output of a tool.
func (r *CallResult) output() tools.Output {
	out := tools.Output{Content: r.Data, Text: r.Text, IsError: r.IsError}
	for _, m := range r.Media {
		out.Segments = append(out.Segments, chat.Segment{Type: chat.Kind(m.Kind), MIMEType: m.MIMEType, Data: m.Data})
	}
	for _, c := range r.Content {
		out.Pieces = append(out.Pieces, c.Piece())
	}
	return out
}
