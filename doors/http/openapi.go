package http

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// object is a JSON object under construction. Its keys are written in order,
// so that the same declarations give the same bytes.
type object = map[string]any

// commonErrors may come back from any command.
var commonErrors = [...]protocol.Code{
	protocol.MalformedEnvelope, protocol.InvalidParameter, protocol.UnsupportedVersion,
	protocol.PayloadTooLarge, protocol.IDReused, protocol.RequestExpired,
	protocol.NotAuthenticated, protocol.CredentialInvalid, protocol.PermissionDenied,
	protocol.TimedOut, protocol.Busy, protocol.RateLimited, protocol.OutcomeUnknown, protocol.Cancelled,
	protocol.Internal, protocol.StoreUnavailable, protocol.ShuttingDown,
}

// OpenAPI is the OpenAPI 3.1 document of the HTTP API: a path for each
// command with the schemas it was declared with and its errors grouped by
// HTTP status, the way to send whole envelopes, the paths of the LLM protocol
// and of files where the commands behind them are in the set, and the paths of the
// bridge's state.
func OpenAPI(set *commands.Set) ([]byte, error) {
	paths := object{
		"/api/v1/commands": object{"post": envelopeOperation(), "get": listOperation()},
	}
	for c := range set.All() {
		paths[commandPath(c.Name)] = object{"post": commandOperation(c)}
	}
	addTaskPath(paths, set)
	addLLMPaths(paths, set)
	schemas := envelopeSchemas()
	addFilePaths(paths, schemas, set)
	addEnrolmentPaths(paths, set)
	addStatusPaths(paths)
	document, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title":   "AI Bridge",
			"version": protocol.Version,
			"description": "Every command by its own path, params in and result out, or all by one path as envelopes. " +
				"WebSocket /ws takes the same envelopes.",
			"license": object{"name": "Apache License 2.0", "identifier": "Apache-2.0"},
		},
		"servers":           []object{{"url": "/", "description": "the bridge that serves this document"}},
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"tags":              openAPITags(set),
		"paths":             paths,
		"security":          []object{{"bearer": []string{}}, {"apiKey": []string{}}},
		"components": object{
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer", "description": "an API key or a token"},
				"apiKey": object{"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "an API key"},
			},
			"parameters": headerParameters(),
			"schemas":    schemas,
			"responses":  commonResponses(),
		},
	}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("api: a command's schema is not JSON: %w", err)
	}
	return append(document, '\n'), nil
}

// Tags of the operations that are not commands.
const (
	tagEnvelopes = "envelopes"
	tagStatus    = "status"
)

// openAPITags has a tag for each family, whose description names its commands,
// and those of the other operations.
func openAPITags(set *commands.Set) []object {
	tags := []object{
		{"name": tagEnvelopes, "description": "All commands by one path, and the list of them."},
		{"name": tagStatus, "description": "The state of the bridge, for probes and Prometheus."},
	}
	families := make(map[string][]string)
	for c := range set.All() {
		families[c.Family()] = append(families[c.Family()], c.Name)
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		tags = append(tags, object{"name": family, "description": strings.Join(families[family], ", ")})
	}
	return tags
}

func commandOperation(c *commands.Command) object {
	body := object{"schema": embedded(c.ParamsSchema())}
	if c.Example != "" {
		body["example"] = json.RawMessage(c.Example)
	}
	success := object{"application/json": object{"schema": embedded(c.ResultSchema())}}
	if c.Async {
		success["text/event-stream"] = object{"schema": object{
			"type":        "string",
			"description": "The events of the command as they come, each an event envelope, then an event named response with the response envelope.",
		}}
	}
	responses := errorResponses(c.Errors)
	responses["200"] = object{"description": "The result.", "content": success}
	if mayWait(c) {
		responses["202"] = waits(success)
	}
	op := object{
		"operationId": c.Name,
		"summary":     c.Summary,
		"tags":        []string{c.Family()},
		"parameters":  parameterRefs(),
		"requestBody": object{"required": true, "content": object{"application/json": body}},
		"responses":   responses,
		"x-action":    c.Action,
		"x-effect":    c.Effect,
	}
	if len(c.Aliases) > 0 {
		op["x-aliases"] = c.Aliases
	}
	return op
}

// embedded is a schema that stands on its own as a part of the document, which
// names the dialect of its schemas once for all.
func embedded(schema json.RawMessage) any {
	members := make(map[string]json.RawMessage)
	if json.Unmarshal(schema, &members) != nil {
		return schema // true, false, or an error of the encoder
	}
	delete(members, "$schema")
	return members
}

func envelopeOperation() object {
	return object{
		"operationId": "command",
		"summary":     "Send any command as a request envelope.",
		"tags":        []string{tagEnvelopes},
		"requestBody": object{"required": true, "content": jsonContent(ref("schemas", "Request"))},
		"responses":   envelopeResponses(),
	}
}

// envelopeResponses are the responses of a path that takes a request envelope: the
// body is a response envelope for every status.
func envelopeResponses() object {
	answer := jsonContent(ref("schemas", "Response"))
	return object{
		"200": object{"description": "The command succeeded.", "content": answer},
		"4XX": object{"description": "The request is refused; the status is that of the error's code.", "content": answer},
		"5XX": object{"description": "The command failed; the status is that of the error's code.", "content": answer},
	}
}

func listOperation() object {
	return object{
		"operationId": "commands",
		"summary":     "List the commands.",
		"tags":        []string{tagEnvelopes},
		"security":    []object{{}},
		"responses": object{
			"200": object{"description": "The commands in the order of their names.", "content": jsonContent(object{"type": "object"})},
			"403": refusedByGuard(),
		},
	}
}

// refusedByGuard is the error of a request that wants no credential.
func refusedByGuard() object {
	response := errorResponse([]protocol.Code{protocol.PermissionDenied})
	response["description"] = "The Host or the Origin of the request is not one of this bridge."
	return response
}

// errorResponses has one response for each HTTP status of the common errors
// and the given ones. Responses that only common errors lead to are shared.
func errorResponses(own []protocol.Code) object {
	responses := make(object)
	common, all := byStatus(commonErrors[:]), byStatus(slices.Concat(commonErrors[:], own))
	for status, codes := range all {
		if slices.Equal(codes, common[status]) {
			responses[status] = ref("responses", status)
		} else {
			responses[status] = errorResponse(codes)
		}
	}
	responses[strconv.Itoa(http.StatusUnsupportedMediaType)] = ref("responses", strconv.Itoa(http.StatusUnsupportedMediaType))
	return responses
}

func commonResponses() object {
	responses := make(object)
	for status, codes := range byStatus(commonErrors[:]) {
		responses[status] = errorResponse(codes)
	}
	responses[strconv.Itoa(http.StatusUnsupportedMediaType)] = errorResponse([]protocol.Code{protocol.MalformedEnvelope})
	return responses
}

func byStatus(codes []protocol.Code) map[string][]protocol.Code {
	grouped := make(map[string][]protocol.Code)
	sorted := slices.Compact(slices.SortedFunc(slices.Values(codes), cmp.Compare[protocol.Code]))
	for _, c := range sorted {
		status := strconv.Itoa(c.HTTPStatus())
		grouped[status] = append(grouped[status], c)
	}
	return grouped
}

func errorResponse(codes []protocol.Code) object {
	texts := make([]string, len(codes))
	for i, c := range codes {
		texts[i] = string(c) + " " + c.String()
	}
	return object{
		"description": strings.Join(texts, "; "),
		"content": jsonContent(object{
			"type":     "object",
			"required": []string{"error"},
			"properties": object{
				"error": object{
					"allOf":      []object{ref("schemas", "Error")},
					"properties": object{"code": object{"enum": codes}},
				},
				"result": object{"description": "what was done before it failed, if anything"},
			},
		}),
	}
}

func ref(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

func jsonContent(schema any) object {
	return object{"application/json": object{"schema": schema}}
}
