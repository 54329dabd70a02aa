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
	Arguments json.RawMessage `json:"arguments,omitempty" type:"object" default:"{}" doc:"what the tool is given"`
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
	IsError bool            `json:"is_error" doc:"the tool says that it failed; text says why"`
}

// Media is a piece of a result that is not text.
type Media struct {
	Kind     string `json:"kind" doc:"image, audio or video"`
	MIMEType string `json:"mime_type" doc:"media type, such as image/png"`
	Data     string `json:"data" doc:"base64, or a URL"`
}

// maxText bounds the text of a result, in bytes.
const maxText = 1 << 20

// Call calls a tool.
func (s *Service) Call(ctx context.Context, call *commands.Call, p CallParams) (CallResult, error) {
	l, err := s.link(p.Server)
	if err != nil {
		return CallResult{}, err
	}
	session, err := l.current()
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
	params := &sdk.CallToolParams{Name: p.Tool, Arguments: p.Arguments}
	token := protocol.NewID()
	params.SetProgressToken(token)
	if call.Depth > 0 {
		params.Meta[depthKey] = call.Depth
	}
	defer l.follow(token, func(step tools.Progress) {
		call.Emit("task.progress", map[string]any{"percent": step.Percent, "message": step.Message})
	})()
	var result *sdk.CallToolResult
	err = call.Park(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, l.config.timeout())
		defer cancel()
		var failed error
		result, failed = session.CallTool(ctx, params)
		return failed
	})
	if err != nil {
		return CallResult{}, l.explain(ctx, err)
	}
	return read(p, result), nil
}

// explain says what a failed call means to the caller.
func (l *link) explain(ctx context.Context, err error) error {
	refused := new(jsonrpc.Error)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return protocol.Errorf(protocol.OutcomeUnknown, "the MCP server did not answer in time").With("server", l.config.Name)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused) && !errors.Is(err, sdk.ErrConnectionClosed) && !errors.Is(err, sdk.ErrSessionMissing):
		return protocol.Errorf(protocol.TargetUnavailable, "the MCP server refused the call: %s", short(refused.Message, 1024)).With("server", l.config.Name)
	}
	l.look() // if it is gone, that is found out now
	l.service.opts.Log.Debug("a call of an MCP server failed", "server", l.config.Name, "error", err)
	return protocol.Wrap(protocol.OutcomeUnknown, err, "the connection to the MCP server broke during the call").With("server", l.config.Name)
}

// read makes a result of what the server answers.
func read(p CallParams, r *sdk.CallToolResult) CallResult {
	result := CallResult{Server: p.Server, Tool: p.Tool, IsError: r.IsError}
	if r.StructuredContent != nil {
		if data, err := json.Marshal(r.StructuredContent); err == nil {
			result.Data = data
		}
	}
	var texts []string
	for _, content := range r.Content {
		switch c := content.(type) {
		case *sdk.TextContent:
			texts = append(texts, c.Text)
		case *sdk.ImageContent:
			result.Media = append(result.Media, Media{string(chat.Image), c.MIMEType, base64.StdEncoding.EncodeToString(c.Data)})
		case *sdk.AudioContent:
			result.Media = append(result.Media, Media{string(chat.Audio), c.MIMEType, base64.StdEncoding.EncodeToString(c.Data)})
		case *sdk.ResourceLink:
			texts = append(texts, "Resource: "+c.URI)
		case *sdk.EmbeddedResource:
			if c.Resource != nil {
				result.embed(c.Resource, &texts)
			}
		}
	}
	result.Text = short(strings.Join(texts, "\n"), maxText)
	return result
}

// embed takes a resource that came with a result: text as text, what models can
// see or hear as media, and of anything else that it is there.
func (r *CallResult) embed(resource *sdk.ResourceContents, texts *[]string) {
	kind, _, _ := strings.Cut(resource.MIMEType, "/")
	switch {
	case len(resource.Blob) == 0:
		*texts = append(*texts, resource.Text)
	case kind == string(chat.Image) || kind == string(chat.Audio) || kind == string(chat.Video):
		r.Media = append(r.Media, Media{kind, resource.MIMEType, base64.StdEncoding.EncodeToString(resource.Blob)})
	default:
		*texts = append(*texts, fmt.Sprintf("Resource: %s (%s, %d bytes)", resource.URI, resource.MIMEType, len(resource.Blob)))
	}
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
	out := tools.Output{Content: r.Data, Text: r.Text, IsError: r.IsError}
	for _, m := range r.Media {
		out.Segments = append(out.Segments, chat.Segment{Type: chat.Kind(m.Kind), MIMEType: m.MIMEType, Data: m.Data})
	}
	return out, nil
}
