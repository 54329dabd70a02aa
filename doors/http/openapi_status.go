package http

import (
	"net/http"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
)

// addStatusPaths describes the paths of the bridge's state.
func addStatusPaths(paths object) {
	status := func(id, summary string, unready bool) object {
		answer := jsonContent(object{"type": "object", "required": []string{"status"}, "properties": object{"status": object{"type": "string"}}})
		responses := object{"200": object{"description": "It is.", "content": answer}, "403": refusedByGuard()}
		if unready {
			responses[strconv.Itoa(http.StatusServiceUnavailable)] = object{"description": "Not yet, or no longer.", "content": jsonContent(object{"type": "object"})}
		}
		return object{"get": object{"operationId": id, "summary": summary, "tags": []string{tagStatus}, "security": []object{{}}, "responses": responses}}
	}
	paths["/healthz"] = status("healthz", "Tell whether the process answers.", false)
	paths["/readyz"] = status("readyz", "Tell whether the bridge can do its work.", true)
	paths["/metrics"] = object{"get": object{
		"operationId": "metrics", "summary": "Show the metrics, for Prometheus.", "tags": []string{tagStatus},
		"responses": object{
			"200": object{"description": "The metrics.", "content": object{"text/plain": object{"schema": object{"type": "string"}}}},
			"401": errorResponse([]protocol.Code{protocol.NotAuthenticated, protocol.CredentialInvalid}),
			"403": errorResponse([]protocol.Code{protocol.PermissionDenied}),
		},
	}}
	paths["/audit/export"] = object{"post": object{
		"operationId": "exportAudit", "summary": "Export the audit trails of all bridges, signed, for administrators.", "tags": []string{tagStatus},
		"responses": object{
			"200": object{"description": "The export, for aibridge audit verify --file. One that is cut off has no signature.", "content": object{
				"application/jsonl": object{"schema": object{"type": "string"}},
			}},
			"401": errorResponse([]protocol.Code{protocol.NotAuthenticated, protocol.CredentialInvalid}),
			"403": errorResponse([]protocol.Code{protocol.PermissionDenied}),
			"503": errorResponse([]protocol.Code{protocol.StoreUnavailable, protocol.Busy}),
		},
	}}
	paths["/backup"] = object{"post": object{
		"operationId": "backup", "summary": "Make a backup of everything the bridge knows, for administrators.", "tags": []string{tagStatus},
		"parameters": []object{query("contents", "false leaves out the contents of files", object{"type": "boolean"})},
		"responses": object{
			"200": object{"description": "The archive, for aibridge restore. One that is cut off has no manifest.", "content": object{
				"application/gzip": object{"schema": object{"type": "string", "format": "binary"}},
			}},
			"400": errorResponse([]protocol.Code{protocol.InvalidParameter}),
			"401": errorResponse([]protocol.Code{protocol.NotAuthenticated, protocol.CredentialInvalid}),
			"403": errorResponse([]protocol.Code{protocol.PermissionDenied}),
			"503": errorResponse([]protocol.Code{protocol.StoreUnavailable, protocol.Busy}),
		},
	}}
}
