package http

import (
	"maps"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// headerParameters are the headers for an envelope's id and metadata.
func headerParameters() object {
	header := func(name, description string, schema object) object {
		return object{"name": name, "in": "header", "description": description, "schema": schema}
	}
	text := func(maxLength int) object { return object{"type": "string", "maxLength": maxLength} }
	timeout := object{
		"type": "integer", "minimum": 1,
		"maximum": protocol.MaxTimeout.Milliseconds(), "default": protocol.DefaultTimeout.Milliseconds(),
	}
	return object{
		"idempotency-key": header("Idempotency-Key",
			"Identifies the request: repeated with the same body it is run once and answered again.", text(protocol.MaxIDLength)),
		"x-request-id":  header("X-Request-Id", "The same as Idempotency-Key, which goes first.", text(protocol.MaxIDLength)),
		"x-trace-id":    header("X-Trace-Id", "Goes through to everything the command does.", text(protocol.MaxTraceLength)),
		"x-priority":    header("X-Priority", "Who goes first when workers are short.", object{"enum": []string{"low", "medium", "high"}, "default": "medium"}),
		"x-timeout-ms":  header("X-Timeout-Ms", "How long the caller waits, in milliseconds.", timeout),
		"traceparent":   header("traceparent", "W3C trace context.", object{"type": "string"}),
		"timeout-query": object{"name": "timeout_ms", "in": "query", "description": "Like X-Timeout-Ms, and goes first.", "schema": timeout},
	}
}

func parameterRefs() []object {
	var refs []object
	for _, name := range slices.Sorted(maps.Keys(headerParameters())) {
		refs = append(refs, ref("parameters", name))
	}
	return refs
}

// envelopeSchemas are the envelopes of docs/protocol.md#envelopes as JSON
// Schema.
func envelopeSchemas() object {
	version := object{"type": "string", "pattern": `^0\.6\.[0-9]+$`, "examples": []string{protocol.Version}}
	id := object{"type": "string", "minLength": 1, "maxLength": protocol.MaxIDLength}
	timestamp := object{"type": "integer", "description": "Unix time in milliseconds"}
	names := object{
		"sender_id": object{"type": "string", "maxLength": protocol.MaxSenderLength},
		"trace_id":  object{"type": "string", "maxLength": protocol.MaxTraceLength},
	}
	metadata := func(more object) object {
		properties := maps.Clone(names)
		maps.Copy(properties, more)
		return object{"type": "object", "properties": properties}
	}
	return object{
		"Error": object{
			"type":     "object",
			"required": []string{"code", "message", "details"},
			"properties": object{
				"code":    object{"type": "string", "pattern": "^[0-9]{4}$"},
				"message": object{"type": "string"},
				"details": object{"type": "object", "description": "param_name and reason for parameters, retry_after_ms for what may be tried again"},
			},
		},
		"Request": object{
			"type":     "object",
			"required": []string{"version", "id", "timestamp", "type", "command"},
			"properties": object{
				"version": version, "id": id, "timestamp": timestamp,
				"type":    object{"const": "request"},
				"command": object{"type": "string", "maxLength": protocol.MaxCommandLength},
				"params":  object{"type": "object"},
				"metadata": metadata(object{
					"priority": object{"enum": []string{"low", "medium", "high"}, "default": "medium"},
					"timeout": object{"type": "integer", "minimum": 1, "maximum": protocol.MaxTimeout.Milliseconds(),
						"default": protocol.DefaultTimeout.Milliseconds(), "description": "milliseconds"},
					"events":       object{"type": "boolean", "default": false},
					"min_revision": object{"type": "integer", "minimum": 0},
				}),
				"extension": object{"type": "object", "description": "vendor data"},
			},
		},
		"Response": object{
			"type":     "object",
			"required": []string{"version", "id", "timestamp", "type", "status", "result", "error", "metadata"},
			"properties": object{
				"version": version, "id": object{"type": "string"}, "timestamp": timestamp,
				"type":     object{"const": "response"},
				"status":   object{"enum": []string{protocol.StatusSuccess, protocol.StatusFailed}},
				"result":   object{},
				"error":    object{"oneOf": []object{ref("schemas", "Error"), {"type": "null"}}},
				"metadata": metadata(object{"warnings": object{"type": "array", "items": object{"type": "string"}}, "revision": object{"type": "integer", "minimum": 1}}),
			},
		},
		"Event": object{
			"type":     "object",
			"required": []string{"version", "id", "timestamp", "type", "event", "seq", "data", "metadata"},
			"properties": object{
				"version": version, "id": id, "timestamp": timestamp,
				"type":     object{"const": "event"},
				"event":    object{"type": "string"},
				"seq":      object{"type": "integer", "minimum": 0},
				"data":     object{},
				"metadata": metadata(nil),
			},
		},
	}
}
